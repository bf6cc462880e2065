"""Images against readelf, and against damage."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError
from lbtrace.plan import Selection, make_plan

LAYOUTS = [
    (),
    ("-static",),
    ("-static-pie",),
    ("-no-pie",),
    ("-Wl,-z,noseparate-code",),
    ("-Wl,-z,separate-code", "-fcf-protection"),
    ("-fuse-ld=gold",),
    ("-shared", "-fPIC"),
]


@pytest.mark.parametrize("flags", LAYOUTS, ids=" ".join)
def test_offsets_and_code_are_what_objdump_shows(build, tool, flags):
    path = build(*flags)
    image = Image.open(path)
    symbol = re.search(r"^([0-9a-f]+) T fib$", tool("nm", path), re.M)
    assert symbol
    address = int(symbol[1], 16)
    listing = tool("objdump", "-d", f"--start-address={address:#x}", path)
    first = re.search(rf"^\s+{address:x}:\t((?:[0-9a-f]{{2}} )+)", listing, re.M)
    assert first
    expected = bytes.fromhex(first[1])
    assert image.code(address, len(expected)) == expected
    offset = image.offset(address)
    assert Path(path).read_bytes()[offset : offset + len(expected)] == expected


def test_build_id_is_what_readelf_shows(build, tool):
    path = build("-Wl,--build-id")
    wanted = re.search(r"Build ID: ([0-9a-f]+)", tool("readelf", "-n", path))
    assert wanted
    assert Image.open(path).build_id == wanted[1]
    assert Image.open(build("-Wl,--build-id=none")).build_id == ""


def test_addresses_outside_code_have_no_offset(build, tool):
    path = build()
    image = Image.open(path)
    data = re.search(r"^([0-9a-f]+) D ", tool("nm", path), re.M)
    assert data
    assert image.offset(int(data[1], 16)) == -1
    assert image.offset(1 << 60) == -1
    assert image.code(1 << 60, 4) == b""


def test_names_are_looked_up_as_shell_and_loader_do(build, libc, monkeypatch, tmp_path):
    assert os.path.samefile(Image.open("libc.so.6").path, libc)
    assert os.path.samefile(Image.open("libc").path, libc)
    shutil.copy(build(), tmp_path / "some-program")
    shutil.copy(build("-shared", "-fPIC"), tmp_path / "libsomething.so.2")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert Image.open("some-program").path == str(tmp_path / "some-program")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert Image.open("libsomething").path == str(tmp_path / "libsomething.so.2")


def refused(path: str) -> BinaryError:
    with pytest.raises(BinaryError) as caught:
        Image.open(path)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def test_what_cannot_be_traced_is_reported_as_such(build, tmp_path):
    program = Path(build()).read_bytes()

    def file(content: bytes) -> str:
        path = tmp_path / "file"
        path.write_bytes(content)
        return str(path)

    assert "No such file" in refused(str(tmp_path / "missing")).message
    assert "no such program" in refused("lbtrace-has-no-such-program").message
    assert "'lbtrace-has-\\xe9': no such" in refused("lbtrace-has-\udce9").message
    assert "directory" in refused(str(tmp_path)).message
    assert "empty" in refused(file(b"")).message
    assert "not an ELF" in refused(file(b"just some text, long enough to be read")).message
    script = refused(file(b"#!/usr/bin/perl -w\nprint 1;\n"))
    assert "script" in script.message
    assert "/usr/bin/perl" in script.hint
    for line, reason in (
        (b"#!/no/such/interpreter\n", "whose interpreter /no/such/interpreter does not exist"),
        (b"#!/no/such/interpreter\t-w", "whose interpreter /no/such/interpreter does not exist"),
        (b"#! \n", "which names no interpreter"),
        (b"#!", "which names no interpreter"),
    ):
        script = refused(file(line))
        assert reason in script.message
        assert "its first line" in script.hint
    assert "32-bit" in refused(file(program[:4] + b"\1" + program[5:])).message
    assert "big-endian" in refused(file(program[:5] + b"\2" + program[6:])).message
    other = program[:18] + struct.pack("<H", 183) + program[20:]
    assert "aarch64" in refused(file(other)).message
    assert Image.open(file(other), any_machine=True).machine == "aarch64"
    assert "ELF machine 243" in refused(file(program[:18] + b"\xf3\0" + program[20:])).message
    assert "core dump" in refused(file(program[:16] + b"\4\0" + program[18:])).hint
    for size in (4, 10, 30, 63, 100, 1000, len(program) - 1):
        assert "truncated" in refused(file(program[:size])).message
    os.mkfifo(tmp_path / "pipe")
    assert "regular file" in refused(str(tmp_path / "pipe")).message


def test_objects_and_debug_files_are_refused(build, tool, tmp_path):
    obj = build("-c")
    assert "neither an executable nor a shared library" in refused(obj).message
    debug = str(tmp_path / "only.debug")
    tool("objcopy", "--only-keep-debug", build("-g"), debug)
    with pytest.raises(BinaryError):
        make_plan(debug, Selection(("fib",)))


def test_a_file_that_is_cut_short_while_it_is_planned(build, tmp_path):
    for size in (0, 1, 100, 5000, 13000):
        path = shutil.copy(build("-g"), tmp_path)  # others use the file itself
        image = Image.open(str(path))
        os.truncate(path, size)
        with pytest.raises(BinaryError, match="was cut short while it was read"):
            make_plan([image], Selection(("fib",)))
    with pytest.raises(BinaryError, match="truncated"):
        Image.open(str(path))


def test_other_faults_stay_what_they_are(build, tmp_path):
    """The mappings of a program that uses lbtrace are none of its business."""
    code = """
import mmap, sys, os
from lbtrace.elf.image import Image
Image.open(sys.argv[1])
with open(sys.argv[2], "w+b") as file:
    file.truncate(8192)
    data = mmap.mmap(file.fileno(), 0)
    file.truncate(0)
    print(data[5000])
"""
    words = [sys.executable, "-c", code, build(), tmp_path / "other"]
    assert subprocess.run(words, check=False).returncode == -signal.SIGBUS

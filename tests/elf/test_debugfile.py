"""Debug information in files of their own, split off with the system's own tools."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import stat
import subprocess
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lbtrace.elf import debugfile, symbols
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError
from lbtrace.files.packages import package_of
from lbtrace.plan import Selection, make_plan


@pytest.fixture
def whole(build, tmp_path):
    """A program, and a file with its debug information."""
    program, debug = tmp_path / "program", tmp_path / "program.debug"
    program.write_bytes(Path(build("-g", "-Wl,--build-id")).read_bytes())
    program.chmod(0o755)
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    return program, debug


@pytest.fixture
def split(whole):
    """A stripped program, and the file with its debug information."""
    subprocess.run(["objcopy", "--strip-debug", whole[0]], check=True)
    return whole


def typed(program: Path) -> bool:
    (function,) = make_plan(str(program), Selection(("fib",))).functions
    return function.typed and function.parameters[0].name == "n"


def test_nothing_to_find(split):
    program, debug = split
    debug.unlink()
    assert debugfile.find(Image.open(str(program))) is None
    assert not typed(program)


def test_by_link(split):
    program, debug = split
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    assert typed(program)
    (debug.parent / ".debug").mkdir()
    debug.rename(debug.parent / ".debug" / debug.name)
    assert typed(program)


def test_a_file_of_another_build_is_not_believed(split):
    program, debug = split
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    debug.write_bytes(debug.read_bytes() + b"\0")
    assert not typed(program)


@pytest.mark.parametrize("packed", ["zlib", "zstd"])
def test_compressed(split, packed):
    program, debug = split
    tools = ["objcopy"] if packed == "zlib" else ["objcopy", "llvm-objcopy-19", "llvm-objcopy"]
    for tool in filter(shutil.which, tools):
        words = [tool, f"--compress-debug-sections={packed}", debug]
        if not subprocess.run(words, capture_output=True, check=False).returncode:
            break
    else:
        return  # binutils knows zstd from 2.40 on, if it was built with it
    linked(program, debug)
    assert typed(program)


def test_types_of_another_build_are_not_believed(tmp_path):
    """A ``.dwo`` file is known by what refers to it."""
    text = "struct pt { %s; };\nint show(struct pt p) { return p.x; }\n"
    text += "int main(void) { struct pt p = {1}; return show(p); }\n"
    for name, members in (("own", "int x, y"), ("other", "short w, x")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pt.c").write_text(text % members)
        words = ["gcc", "-g", "-gsplit-dwarf", "-fno-lto", "pt.c", "-o", "pt"]
        subprocess.run(words, cwd=tmp_path / name, check=True)

    def known() -> bool:
        (function,) = make_plan(str(tmp_path / "own/pt"), Selection(("show",))).functions
        return function.typed

    assert known()
    own, other = (next((tmp_path / name).glob("*.dwo")) for name in ("own", "other"))
    own.write_bytes(other.read_bytes())
    assert not known()


def test_by_build_id(split, tmp_path, monkeypatch):
    program, debug = split
    build_id = Image.open(str(program)).build_id
    monkeypatch.setattr(debugfile, "ROOT", str(tmp_path / "root"))
    place = tmp_path / "root/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    debug.rename(place)
    assert typed(program)


def test_from_a_server(split, tmp_path, monkeypatch):
    program, debug = split
    build_id = Image.open(str(program)).build_id
    served = tmp_path / "served/buildid" / build_id
    served.mkdir(parents=True)
    debug.rename(served / "debuginfo")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "served"))

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    assert not typed(program)
    monkeypatch.setenv(
        "DEBUGINFOD_URLS", f"http://127.0.0.1:1 http://127.0.0.1:{server.server_port}"
    )
    assert typed(program)
    server.shutdown()
    assert typed(program)  # from the cache
    assert os.listdir(tmp_path / "cache" / build_id) == ["debuginfo"]


class Answering(ThreadingHTTPServer):
    """A server whose answers are made by a function; counts what it was asked."""

    def __init__(self, answer):
        self.asked = 0
        outer = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                answer(self)

            def log_message(self, *args):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        Thread(target=self.serve_forever, daemon=True).start()


def test_a_server_that_has_nothing_is_not_asked_each_time(split, tmp_path, monkeypatch):
    program, debug = split
    debug.unlink()
    server = Answering(lambda handler: handler.send_error(404))
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{server.server_port}")
    assert not typed(program)
    asked = server.asked
    assert asked
    assert not typed(program)
    assert server.asked == asked
    monkeypatch.setattr(debugfile, "MISSED", 0.0)
    assert not typed(program)
    assert server.asked > asked
    server.shutdown()


@pytest.fixture
def nameless(whole):
    """A program without any names, and the file with what was stripped from it."""
    subprocess.run(["strip", "-s", whole[0]], check=True)
    return whole


def linked(program: Path, debug: Path) -> None:
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)


def places(path: Path | str) -> dict[str, tuple[int, int, int]]:
    """Addresses, sizes and offsets of the functions, by name."""
    table = symbols.read(Image.open(str(path)))
    return {f.name: (f.address, f.size, f.offset) for f in table.functions}


def test_names_by_link(nameless, build):
    program, debug = nameless
    with pytest.raises(BinaryError, match="is stripped") as raised:
        places(program)
    assert "/.build-id/" in raised.value.hint
    assert "DEBUGINFOD_URLS" in raised.value.hint
    linked(program, debug)
    assert places(program) == places(build("-g", "-Wl,--build-id"))
    assert typed(program)
    (debug.parent / ".debug").mkdir()
    debug.rename(debug.parent / ".debug" / debug.name)
    assert "fib" in places(program)


def test_names_by_build_id(nameless, build, tmp_path, monkeypatch):
    program, debug = nameless
    build_id = Image.open(str(program)).build_id
    monkeypatch.setattr(debugfile, "ROOT", str(tmp_path / "root"))
    place = tmp_path / "root/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    debug.rename(place)
    assert places(program) == places(build("-g", "-Wl,--build-id"))
    other = Path(build("-g", "-O2", "-Wl,--build-id"))
    subprocess.run(["objcopy", "--only-keep-debug", other, place], check=True)
    found = debugfile.search(Image.open(str(program)))
    assert found.found is None
    assert [each.path for each in found.refused] == [str(place)]
    with pytest.raises(BinaryError, match="is stripped") as raised:
        places(program)
    assert f"{place} is of another build" in raised.value.hint


def test_linked_files_that_are_not_used(nameless, build):
    """Beside the program, by the name in ``.gnu_debuglink``."""
    program, debug = nameless
    link = ["objcopy", f"--add-gnu-debuglink={debug}", program]
    subprocess.run(link, check=True)
    place = program.parent / debug.name
    assert places(program) == places(build("-g", "-Wl,--build-id"))
    other = Path(build("-g", "-O2", "-Wl,--build-id"))
    place.unlink()
    subprocess.run(["objcopy", "--only-keep-debug", other, place], check=True)
    with pytest.raises(BinaryError, match="is stripped") as raised:
        places(program)
    assert f"{place} is of another build" in raised.value.hint
    for make in (place.touch, lambda: os.mkfifo(place)):
        place.unlink()
        make()
        with pytest.raises(BinaryError, match="is stripped") as raised:
            places(program)
        assert f"{place} is not readable as a debug file" in raised.value.hint


def test_a_file_of_another_build_is_named(split, build, tmp_path, monkeypatch):
    program, _ = split
    build_id = Image.open(str(program)).build_id
    monkeypatch.setattr(debugfile, "ROOT", str(tmp_path / "root"))
    place = tmp_path / "root/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    place.write_bytes(Path(build("-g", "-O2", "-Wl,--build-id")).read_bytes())
    plan = make_plan(str(program), Selection(("fib",)))
    assert [n for n in plan.notes if str(place) in n and "another build" in n]


def with_debug_data(program: Path, content: bytes) -> None:
    """Adds a section ``.gnu_debugdata``."""
    packed = program.with_suffix(".xz")
    packed.write_bytes(content)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={packed}", program], check=True)


def test_names_of_gnu_debugdata(nameless, build):
    program, debug = nameless
    names = places(build("-g", "-Wl,--build-id"))
    subprocess.run(["objcopy", "--strip-debug", debug], check=True)
    with_debug_data(program, lzma.compress(debug.read_bytes()))
    assert places(program) == names
    debug.unlink()
    assert places(program) == names
    assert not typed(program)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"damaged",
        lzma.compress(b"no ELF file"),
        lzma.compress(bytes(1 << 26), preset=0),
        lzma.compress(b"x", lzma.FORMAT_ALONE),
        lzma.compress(bytes(1 << 20))[:-20],
    ],
    ids=["empty", "damaged", "text", "bomb", "alone", "cut"],
)
def test_gnu_debugdata_that_is_none(nameless, content):
    program, debug = nameless
    debug.unlink()
    with_debug_data(program, content)
    with pytest.raises(BinaryError, match="is stripped"):
        places(program)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero


@pytest.mark.parametrize(
    "make",
    [make_fifo, make_device, Path.mkdir, lambda p: p.symlink_to("/proc/self/mem"), Path.touch],
    ids=["fifo", "device", "directory", "memory", "empty"],
)
def test_what_is_no_regular_file_is_not_opened(nameless, make):
    program, debug = nameless
    linked(program, debug)
    debug.unlink()
    make(debug)
    with pytest.raises(BinaryError, match="is stripped"):
        places(program)


def test_the_package_of_a_stripped_program_is_named():
    """As dpkg names it, whether it knows the file below /usr or not."""
    for path in ("/bin/cat", "/usr/bin/env"):
        known = subprocess.run(
            ["dpkg-query", "-S", "*/" + path.rpartition("/")[2]],
            check=True,
            capture_output=True,
            text=True,
        )
        package = package_of(path)
        assert package
        assert re.search(rf"^{package}: (/usr)?/bin/", known.stdout, re.MULTILINE), known.stdout
    assert "(package coreutils-dbgsym or coreutils-dbg)" in debugfile.advice(Image.open("/bin/cat"))
    assert package_of(__file__) == ""

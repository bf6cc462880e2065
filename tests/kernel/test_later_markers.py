"""Markers in files that are mapped while the trace runs, against programs that log their hits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lbtrace
from lbtrace import NoMatchError
from tests.made_markers import make_library

PROGRAM = """
import ctypes, mmap, os, sys, time

def load(content):
    "As libstapsdt does it, but in a memfd."
    file = os.memfd_create("libstapsdt:shop")
    os.write(file, content)
    made = ctypes.CDLL(f"/proc/self/fd/{file}")
    os.close(file)
    return made

def is_enabled(function):
    "What libstapsdt's probeIsEnabled does: it looks at the first byte of the stub."
    return ctypes.cast(function, ctypes.POINTER(ctypes.c_ubyte))[0] & 0x90 != 0x90

def wait(function):
    end = time.monotonic() + 20
    while not is_enabled(function) and time.monotonic() < end:
        time.sleep(0.001)
    assert is_enabled(function)

def sell(made, first, count=100):
    for n in range(first, first + count):
        made.sale(ctypes.c_uint64(n), ctypes.c_int32(-n))

content = open(sys.argv[1], "rb").read()
"""


pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library with markers, which programs load later."""
    return make_library(
        tmp_path_factory.mktemp("made") / "made.so", "shop", sale="8@%rdi -4@%rsi", text="8@%rdi"
    )


def command(library: str, body: str) -> list[str]:
    """The words of a program that loads ``library``."""
    return [sys.executable, "-c", PROGRAM + body, library]


def sales(calls: list[lbtrace.Call]) -> list[object]:
    """The numbers of the sales among points."""
    assert all(call["arg0"] == -call["arg1"] for call in calls if call.name == "shop:sale")
    return [call["arg0"] for call in calls if call.name == "shop:sale"]


def test_libraries_that_a_command_makes(library: str, mode: lbtrace.Mode) -> None:
    body = "made = load(content); wait(made.sale); wait(made.text); sell(made, 0); made.text(b'x')"
    options = lbtrace.Options(mode=mode)
    with lbtrace.trace(command=command(library, body), usdt="shop:*", options=options) as session:
        assert session.plan.functions == ()
        assert "waits for one that is loaded later" in " ".join(session.notes)
        calls = list(session.calls())
        assert session.wait() == 0
    assert sales(calls) == list(range(100))
    assert [call.name for call in calls[100:]] == ["shop:text"]
    assert {call.binary for call in calls} == {"/memfd:libstapsdt:shop"}
    assert "shop:sale, shop:text: traced from now on" in " ".join(session.notes)


@pytest.mark.parametrize("follow", [False, True])
def test_libraries_that_a_process_loads(library: str, follow: bool) -> None:
    body = (
        "print('ready', flush=True); sys.stdin.readline(); made = load(content);"
        "wait(made.sale); sell(made, 0)"
    )
    with subprocess.Popen(
        command(library, body), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == b"ready\n"
        with lbtrace.trace(pid=program.pid, usdt="/sale/", follow=follow) as session:
            program.stdin.write(b"go\n")
            program.stdin.close()
            calls = list(session.calls())
        assert program.wait() == 0
    assert sales(calls) == list(range(100))


def test_libraries_that_children_load(library: str, tmp_path: Path) -> None:
    """A child loads one, and executes a program that has markers of its own."""
    source = tmp_path / "prog.c"
    source.write_text(
        "#include <unistd.h>\n"
        'int main(void) { for (int n = 0; n < 2000; n++) { __asm__ volatile ("9: nop\\n'
        '.pushsection .note.stapsdt, \\"\\", \\"note\\"\\n.balign 4\\n.4byte 8, 2f-1f, 3\\n'
        '.asciz \\"stapsdt\\"\\n1: .8byte 9b, 0, 0\\n'
        '.asciz \\"shop\\", \\"step\\", \\"-4@%0\\"\\n2:\\n.popsection" :: "r" (n));'
        " usleep(500); } }"
    )
    program = tmp_path / "prog"
    subprocess.run(["gcc", "-O1", "-no-pie", "-o", program, source], check=True)
    body = f"""
if not os.fork():
    made = load(content); wait(made.sale); sell(made, 0)
    os.execv({str(program)!r}, ["prog"])
os.wait()
"""
    with lbtrace.trace(command=command(library, body), usdt="shop:*") as session:
        calls = list(session.calls())
    assert sales(calls) == list(range(100))
    steps = [call["arg0"] for call in calls if call.name == "shop:step"]
    assert steps
    assert steps == list(range(steps[0], 2000))  # the first ones may be missed


def test_a_library_that_is_loaded_again(library: str) -> None:
    body = """
import _ctypes
for turn in range(3):
    made = ctypes.CDLL(sys.argv[1]); wait(made.sale); sell(made, 100 * turn)
    _ctypes.dlclose(made._handle)
    assert sys.argv[1] not in open("/proc/self/maps").read()
"""
    with lbtrace.trace(command=command(library, body), usdt="shop:*") as session:
        calls = list(session.calls())
        assert session.wait() == 0
    assert sales(calls) == list(range(300))
    assert [binary.path for binary in session.plan.binaries].count(library) == 1


def test_captures_and_formats(library: str, tmp_path: Path) -> None:
    body = "made = load(content); wait(made.sale); wait(made.text); sell(made, 0)"
    words = [sys.executable, "-m", "lbtrace"]
    capture = tmp_path / "x.lbt"
    done = subprocess.run(
        [*words, "attach", "--usdt", "shop:*", "-o", capture, "--", *command(library, body)],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert "shop:*: no file that is loaded so far has this marker" in done.stderr
    assert "100 points in 1 thread of 1 process, nothing lost" in done.stderr
    with lbtrace.read_capture(str(capture)) as read:
        assert read.complete or sales(list(read.calls())) == list(range(100))

    def export(name: str) -> str:
        return subprocess.run(
            [*words, "export", capture, "--format", name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert export("tree").count("· shop:sale arg0=") == 100
    assert export("racket").count("shop:sale") == 100
    assert len(json.loads(export("chrome"))["traceEvents"]) >= 100
    records = [json.loads(line) for line in export("jsonl").splitlines()]
    points = [record for record in records if record["type"] == "point"]
    assert [point["args"][0]["value"] for point in points] == list(range(100))


def test_files_that_may_not_be_opened(library: str) -> None:
    """A memfd can be opened through the process only, which takes a capability."""
    body = """
other = ctypes.CDLL(sys.argv[1]); wait(other.sale); sell(other, 0)
made = load(content); time.sleep(0.5); assert not is_enabled(made.sale)
"""
    less = ["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore"]
    words = [sys.executable, "-m", "lbtrace", "attach", "--usdt", "shop:*", "--"]
    done = subprocess.run(
        [*less, *words, *command(library, body)], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("shop:sale") == 100
    assert "/memfd:libstapsdt:shop, which cannot be opened: markers in it are not" in done.stderr


def test_what_never_comes() -> None:
    words = [sys.executable, "-m", "lbtrace", "attach", "--usdt", "shop:sole", "--"]
    done = subprocess.run(
        [*words, "/bin/sh", "-c", "/bin/true"], capture_output=True, text=True, check=True
    )
    assert "shop:sole: no file that is loaded so far has this marker" in done.stderr
    assert "\n  shop:sole: no file that was loaded has this marker\n" in done.stderr
    # A program that can load nothing and start nothing else.
    with pytest.raises(NoMatchError, match="has no markers"):
        lbtrace.trace(command=["/bin/true"], usdt="shop:sole")

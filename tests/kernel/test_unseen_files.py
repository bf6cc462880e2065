"""Processes that run what no probe reaches, though the file has probes: this is said."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]

pytestmark = pytest.mark.host

PT_LOAD, PF_X, PF_W = 1, 1, 2
UNSEEN = "has no probes in"

MOVES = """\
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline, aligned(4096))) int leaf(int n) { __asm__(""); return n; }
__attribute__((noinline, aligned(4096))) void after(void) { __asm__(""); }

int main(void)
{
    /* As programs move their code to huge pages. */
    char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, (void *)leaf, 4096);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    mremap(code, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)leaf);
    puts("ready");
    fflush(stdout);
    for (int n = 0; n < 1000; n++) {
        leaf(n);
        after();
        usleep(10000);
    }
    return 0;
}
"""


@pytest.fixture
def overlaid(programs: Path, tmp_path: Path) -> Iterator[Path]:
    """A program in the lower layer of an overlay, as those of a container's image are."""
    lower, upper, work, merged = (tmp_path / each for each in ("lower", "upper", "work", "merged"))
    for each in (lower, upper, work, merged):
        each.mkdir()
    shutil.copy(programs / "loop", lower)
    layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, merged], check=True)
    try:
        yield merged / "loop"
    finally:
        subprocess.run(["umount", "--lazy", merged], check=True)


def test_a_program_that_an_overlay_has_copied(start: Start, lbtrace: Run, overlaid: Path) -> None:
    loop = start(overlaid, 1000)
    loop.wait_for("ready", "stdout")
    words = ("attach", "--func", "tick", "--pid", loop.pid, "--duration", "300ms")
    before = lbtrace(*words)
    assert UNSEEN not in before.stderr
    assert "tick(" in before.stdout
    overlaid.chmod(0o700)
    after = lbtrace(*words)
    assert f"process {loop.pid} {UNSEEN} {overlaid}" in after.stderr
    assert " 0 calls" in after.stderr
    # One that runs the copy is traced.
    newer = lbtrace("attach", "--func", "tick", "--", overlaid, 1000, 9)
    assert "tick(" in newer.stdout


def test_an_overlay_that_copies_during_the_trace(
    start: Start, start_lbtrace: Start, overlaid: Path
) -> None:
    tracer = start_lbtrace("attach", "--func", "tick", "--binary", overlaid)
    tracer.wait_for("Ctrl-C ends")
    start(overlaid, 1000).wait_for("ready", "stdout")
    overlaid.chmod(0o700)
    tracer.wait_for("was changed in an overlay: processes started since may run a copy")
    tracer.process.send_signal(signal.SIGINT)
    status, out, _ = tracer.finish()
    assert status == 0
    assert "tick(" in out


def test_code_that_was_moved(start: Start, lbtrace: Run, tmp_path: Path) -> None:
    source, program = tmp_path / "moves.c", tmp_path / "moves"
    source.write_text(MOVES)
    subprocess.run(["gcc", "-g", source, "-o", program], check=True)
    moves = start(program)
    moves.wait_for("ready", "stdout")
    for names, unseen in (("leaf", True), ("after", False), ("/leaf|after/", True)):
        words = ("attach", "--func", names, "--pid", moves.pid, "--duration", "200ms")
        done = lbtrace(*words, "--returns", "none")
        assert (UNSEEN in done.stderr) == unseen, done.stderr
        assert ("after(" in done.stdout) == ("after" in names)
        assert (" at 1 of 2 places" in done.stderr) == (names == "/leaf|after/")


def test_code_that_is_writable(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    """By the program's header, as linkers make it with ``-N``."""
    image = bytearray((programs / "fib").read_bytes())
    for number in range(int.from_bytes(image[56:58], "little")):
        header = int.from_bytes(image[32:40], "little") + 56 * number
        if image[header] == PT_LOAD and image[header + 4] & PF_X:
            image[header + 4] |= PF_W
    program = tmp_path / "writable"
    program.write_bytes(image)
    program.chmod(0o700)
    assert subprocess.run([program, "3"], check=True, capture_output=True).stdout
    done = lbtrace("attach", "--func", "fib", "--", program, 3)
    assert done.returncode == 1
    assert "the kernel places no probes in writable code" in done.stderr

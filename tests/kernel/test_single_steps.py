"""The summary says where single-stepped exits took most of the program's time."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="arm64 steps no return")

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """
#include <setjmp.h>
jmp_buf place;
__attribute__((noipa)) long step(long n) { return n * 3 + 1; }
int main(int count, char **words)
{
    long sum = 0;
    if (count > 9) LEAVE;
    for (long i = 0; i < 50000; i++) sum += step(i);
    return sum == 42;
}
"""
SAID = re.compile(
    r"  about \d+% of the program's \d\.\d s of processor time went into 50,000"
    r" single-stepped exits, [\d.]+ µs each(; --returns uretprobe would take [\d.]+ s)?\n"
)


@pytest.mark.parametrize(("leave", "output"), [("", "out.jsonl"), ("longjmp(place, 1)", "out.lbt")])
def test_the_cost_of_exits(
    lbtrace: Run, modes: list[str], tmp_path: Path, leave: str, output: str
) -> None:
    """The entry is a nop, the exit a ``ret``; what uretprobes would cost is said if names allow."""
    (tmp_path / "a.c").write_text(SOURCE)
    flags = ["-O2", "-fcf-protection=none", "-fpatchable-function-entry=1", f"-DLEAVE={leave}"]
    subprocess.run(["gcc", *flags, tmp_path / "a.c", "-o", tmp_path / "a"], check=True)
    words = ("attach", "--func", "step", "-o", tmp_path / output, "--ring-size", "64M")
    done = lbtrace(*words, "--", tmp_path / "a")
    found = SAID.search(done.stderr)
    if "multi" not in modes:  # the kernel cannot be tried
        assert not found
        return
    assert found, done.stderr
    assert (found[1] is None) == bool(leave)
    emulated = lbtrace(*words, "--force", "--returns", "none", "--", tmp_path / "a")
    assert emulated.stderr == "lbtrace: 50,000 calls in 1 thread of 1 process, nothing lost\n"

"""Programs whose names are in another file are traced as if they had them."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.host
@pytest.mark.parametrize("way", ["link", "debugdata"])
def test_a_stripped_program_is_traced(lbtrace, tmp_path, way):
    program, debug = tmp_path / "fib", tmp_path / "fib.debug"
    source = ROOT / "tests/programs/fib.c"
    subprocess.run(["gcc", "-O1", "-g", source, "-o", program], check=True)
    whole = lbtrace("attach", "--func", "fib", "--args", "1", "--", program, "4").stdout
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", "-s", program], check=True)
    if way == "link":
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    else:
        subprocess.run(["objcopy", "--strip-debug", debug], check=True)
        packed = tmp_path / "packed"
        packed.write_bytes(lzma.compress(debug.read_bytes()))
        subprocess.run(
            ["objcopy", "--add-section", f".gnu_debugdata={packed}", program], check=True
        )
    traced = lbtrace("attach", "--func", "fib", "--args", "1", "--", program, "4").stdout
    assert traced.count("fib(") == whole.count("fib(") > 8
    if way == "link":
        assert traced.count("fib(n=") == whole.count("fib(n=")


NUMBERS = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int number(long n) { __asm__ volatile("" : "+r"(n)); return n; }
int main(int count, char **words)
{
	for (int i = 1; i < count; i++)
		printf("%d\\n", number(atol(words[i])));
}
"""


@pytest.mark.parametrize("condition", ["== -2", "!= -2", "< 0", "<= -2", ">= 0", "> -3", "> 1"])
def test_results_of_unknown_type_may_be_negative(lbtrace, tmp_path, condition):
    """As the program prints them, whether the kernel compares or a capture is read."""
    program, capture = tmp_path / "numbers", tmp_path / "run.lbt"
    command = ["gcc", "-O2", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=NUMBERS, text=True, check=True)
    numbers = [-2, -1, 0, 1, 2, -3, -(2**31), 2**31 - 1]
    holding = [number for number in numbers if eval(f"{number} {condition}")]
    asked = "--where", f"retval {condition}"
    live = lbtrace(
        *("attach", "--func", "number", *asked, "--format", "racket", "--args", "1", "--quiet"),
        *("--", program, *numbers),
    ).stdout
    shown = [int(line.lstrip("<"), 0) for line in live.splitlines() if line.startswith("<")]
    lbtrace("attach", "--func", "number", "-o", capture, "--", program, *numbers)
    read = lbtrace("export", capture, *asked, "--format", "racket").stdout
    recorded = [int(line.lstrip("<"), 0) for line in read.splitlines() if line.startswith("<")]
    assert [(n + 2**31) % 2**32 - 2**31 for n in shown] == holding
    assert recorded == shown

"""Programs without debug information."""

from __future__ import annotations

import subprocess

import pytest

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

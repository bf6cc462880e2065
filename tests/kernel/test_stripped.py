"""Programs without debug information."""

from __future__ import annotations

import re
import subprocess

import pytest

NUMBERS = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int number(long n) { __asm__ volatile("" : "+r"(n)); return n; }
int main(int count, char **words)
{
	for (int i = 1; i < count; i++)
		printf("%d\n", number(atol(words[i])));
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


TAKING = r"""
#include <stdarg.h>
#include <stdio.h>
#define TRACED __attribute__((noinline)) long
TRACED none(void) { return puts("none()"); }
TRACED one(const char *a) { return printf("one(%#lx)\n", (long)a); }
TRACED three(long a, int b, long c) { return printf("three(%ld, %d, %ld)\n", a, b, c); }
TRACED unread(long a, long b, long c) { return printf("unread(%ld, %ld)\n", a, b); }
TRACED five(long a, long b, long c, long d, long e) { return a + b + c + d * e; }
TRACED passes(long a, long b, long c, long d, long e) { return five(a, b, c, d, e); }
TRACED seven(long a, long b, long c, long d, long e, long f, long g)
{
	return a + b + c + d + e + f * g;
}
TRACED variadic(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	printf("variadic(%#lx, …)\n", (long)format);
	vprintf(format, list);
	va_end(list);
	return 0;
}
int main(int count, char **words)
{
	long n = count - 2;
	none();
	one(words[n]);
	three(n + 1, n + 2, n + 3);
	unread(n + 4, n + 5, n + 6);
	printf("passes(%ld, %ld, %ld, %ld, %ld)\n", 7L, 8L, 9L, 10L, 11L);
	printf("five(%ld, %ld, %ld, %ld, %ld)\n", 7L, 8L, 9L, 10L, 11L);
	long sum = passes(n + 7, n + 8, n + 9, n + 10, n + 11);
	printf("seven(%ld, %ld, %ld, %ld, %ld, %ld, …)\n", 12L, 13L, 14L, 15L, 16L, 17L);
	sum += seven(n + 12, n + 13, n + 14, n + 15, n + 16, n + 17, n + 18);
	variadic(words[n + 1], n + 19);
	return sum == 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc -O1", "gcc -O2", "clang -O2"])
def test_arguments_that_code_reads(lbtrace, tmp_path, compiler):
    """As the program prints them, where nothing declares them."""
    program = tmp_path / "taking"
    command = [*compiler.split(), "-x", "c", "-", "-o", program]
    subprocess.run(command, input=TAKING, text=True, check=True)
    names = "none", "one", "three", "unread", "five", "passes", "seven", "variadic"
    functions = [word for name in names for word in ("--func", name)]
    shown = lbtrace(
        "attach", *functions, "--quiet", "-o", tmp_path / "run.txt", "--", program, "%ld\n"
    )
    calls = re.findall(r"(\w+\(.*\))", (tmp_path / "run.txt").read_text())
    assert "\n".join([*calls, "19", ""]) == shown.stdout

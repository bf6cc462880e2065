"""How often the program comes to a line, by what it counts itself, and by gdb."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import lbtrace

pytestmark = pytest.mark.host

PROGRAM = r"""
#include <stdio.h>
static int tests, calls, bodies;

static inline __attribute__((always_inline)) int twice(int n)
{
	return n * 2 + tests; /* inlined */
}

__attribute__((noinline)) static int work(int n)
{
	int sum = 0;
	int left = n;

	calls++; /* plain */
	while (tests++, left-- > 0) { /* while */
		bodies++; /* body */
		sum += twice(left);
	}
	for (int i = 0; tests++, i < n; i++) /* for */
		bodies++; /* body of for */
	do
		sum ^= twice(sum);
	while (tests++, ++left < n); /* do */
	return sum;
}

int main(void)
{
	int all = 0;

	for (int n = 0; n < 7; n++)
		all += work(n);
	fprintf(stderr, "%d %d %d\n", tests, calls, bodies);
	return all == 7;
}
"""


def line_of(comment: str) -> int:
    lines = PROGRAM.splitlines()
    return next(n for n, text in enumerate(lines, 1) if f"/* {comment} */" in text)


def build(tmp_path: Path, compiler: str) -> Path:
    (tmp_path / "counts.c").write_text(PROGRAM)
    words = [*compiler.split(), "-g", "counts.c", "-o", "counts"]
    subprocess.run(words, cwd=tmp_path, check=True)
    return tmp_path / "counts"


def count(program: Path, lines: list[int]) -> Counter[str]:
    with lbtrace.trace(
        command=[program], binary=program, lines=[f"counts.c:{n}" for n in lines], args=0
    ) as session:
        found = Counter(point.name for point in session.calls())
        assert not session.losses().total
    return found


@pytest.mark.parametrize("compiler", ["gcc -O0", "gcc -O0 -gdwarf-4", "clang -O0"])
def test_loops_count_their_tests(tmp_path: Path, compiler: str) -> None:
    """The head of a loop counts as often as it is tested, whatever rows and jumps it is made of."""
    program = build(tmp_path, compiler)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    tests, calls, bodies = map(int, done.stderr.split())
    names = ("while", "for", "do", "plain", "body", "body of for")
    lines = {name: line_of(name) for name in names}
    found = count(program, list(lines.values()))
    counted = {name: found[f"counts.c:{line}"] for name, line in lines.items()}
    assert counted["while"] + counted["for"] + counted["do"] == tests
    assert counted["while"] == counted["for"]
    assert counted["plain"] == calls
    assert counted["body"] + counted["body of for"] == bodies


@pytest.mark.parametrize("compiler", ["gcc -O0", "clang -O0", "gcc -O2"])
def test_other_lines_count_as_in_gdb(tmp_path: Path, compiler: str) -> None:
    """Where a line is no loop's head, and is one run of rows."""
    program = build(tmp_path, compiler)
    lines = [line_of(name) for name in ("plain", "body")]
    script = tmp_path / "script"
    breaks = [f"break counts.c:{n}\nignore $bpnum 1000000" for n in lines]
    script.write_text("\n".join([*breaks, "run", "info breakpoints"]))
    words = ["gdb", "-q", "-batch", "-nx", "-x", script, program]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    hits = [int(n) for n in re.findall(r"already hit (\d+) time", shown)]
    found = count(program, lines)
    assert [found[f"counts.c:{n}"] for n in lines] == hits


def test_lines_at_one_instruction_come_in_their_order(tmp_path: Path) -> None:
    """The kernel runs first what was attached last."""
    source = tmp_path / "sums.c"
    source.write_text(
        "int main(int c, char **v)\n{\n\tint a = c + 1;\n\tint b = a + 2;\n"
        "\tint d = b * 3;\n\treturn d == 4;\n}\n"
    )
    program = tmp_path / "sums"
    subprocess.run(["gcc", "-g", "-O1", str(source), "-o", str(program)], check=True)
    with lbtrace.trace(command=[str(program)], lines=["sums.c:*"]) as session:
        shown = [call.name for call in session.calls()]
    assert len(shown) > 3
    assert shown == sorted(shown)

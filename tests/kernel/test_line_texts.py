"""Arrays of characters at lines: shown, and compared in the kernel; and hints about lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lbtrace

PROGRAM = r"""
#include <stdio.h>
struct person { int id; char name[12]; char code[4]; };
static struct person people[] = {
	{1, "octi", "abcd"}, {2, "octi2", "abc"}, {3, "oc", "abcd"}, {4, "twelve chars", "x"},
};
__attribute__((noinline)) static void meet(struct person *p)
{
	char first[5] = {p->name[0], p->name[1], 'k', 't', 'q'};

	printf("%d %.5s\n", p->id, first);
}
int main(void)
{
	for (int n = 0; n < 4; n++)
		meet(&people[n]);
	return 0;
}
"""


@pytest.fixture
def people(tmp_path: Path) -> str:
    (tmp_path / "people.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O0", "-g", "people.c", "-o", "people"], cwd=tmp_path, check=True)
    return str(tmp_path / "people")


def test_a_short_text_by_itself(people: str) -> None:
    printed = subprocess.run([people], stdout=-1, text=True, check=True).stdout.splitlines()
    with lbtrace.trace(command=[people], lines="people.c:11", arg="first") as points:
        shown = [str(point.args[0].value) for point in points.calls()]
    assert shown == [line.split()[1] for line in printed]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ('p->name == "octi"', [1]),
        ('p->name != "octi"', [2, 3, 4]),
        ('p->name startswith "octi"', [1, 2]),
        ('not p->name startswith "octi"', [3, 4]),
        ('p->name == "twelve chars"', [4]),
        ('p->code == "abcd"', [1, 3]),
        ('p->code == "abc"', [2]),
        ('p->code != "abc" and p->name startswith "o"', [1, 3]),
        ('p->name == ""', []),
    ],
)
def test_comparisons(people: str, where: str, expected: list[int]) -> None:
    with lbtrace.trace(command=[people], lines="people.c:11", arg="p->id", where=where) as points:
        assert [point.args[0].value for point in points.calls()] == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--line", "people.c:11", "--where", 'p->code == "abcde"'], "the array has 4 characters"),
        (["--line", "/(/:3"], "--line /(/: missing"),
        (["--func", "meet", "--within", "/(/"], "--within /(/: missing"),
        (["--line", "zzzzz.c:3"], "lbtrace list --binary {} shows the source files of functions"),
        (["--at", "zzzzz:0x1149"], "there is no file zzzzz"),
        (["--at", "/bin/sh:0x1149"], "add --binary /bin/sh"),
    ],
)
def test_errors_say_what_to_do(people: str, options: list[str], said: str) -> None:
    words = [sys.executable, "-m", "lbtrace", "attach", *options, "--", people]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert said.format(people) in result.stderr

"""``export --where`` chooses of a capture what ``attach --where`` lets the kernel choose."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., subprocess.CompletedProcess[str]]

WORK = r"""
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define TRACED __attribute__((noinline))
enum kind { SMALL, ODD, LARGE = 40 };
struct item { int id; unsigned char size; const char *name; };
TRACED int work(int n, const char *name, enum kind kind, struct item *item, bool last, char sign) {
	if (n == 13) usleep(20000);
	return n % 7 - 3 + (name[0] == 'z') + (kind == LARGE) + (item != NULL) + last + (sign == '-');
}
TRACED void other(long n) { if (n < 0) abort(); }
int main(void) {
	for (int n = 0; n < 40; n++) {
		char name[100];
		struct item item = {n * n, 250 + n % 12, name};
		snprintf(name, sizeof name, n % 10 ? "key/%d" : "key/%070d", n);
		work(n, name, n < 9 ? SMALL : n % 2 ? ODD : LARGE, n % 5 ? &item : NULL, n == 39,
			n % 4 ? '+' : '-');
		other(n);
	}
}
"""

CONDITIONS = [
    "n > 30",
    'name == "key/7"',
    'name startswith "key/3" and not last',
    "kind == ODD and n < 20",
    "item != NULL and n & 1",
    "item->id == 49",
    "item->size < 3",
    "not (n > 2 or retval > 0)",
    "duration > 15ms",
    "n * 2 - 3 == 7 or n / 9 == 4",
    'comm == "work" and n % 8 == 2',
]


def numbers(text: str) -> list[int]:
    """The first argument of each call of ``work``."""
    records = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    calls = [each for each in records if each["type"] == "call" and each["name"] == "work"]
    return [call["args"][0]["value"] for call in calls]


def test_as_the_kernel_compares(lbtrace: Run, compiled: Any, tmp_path: Path) -> None:
    """Of a function, each condition chooses the same calls, of which none is called `other`."""
    work = compiled("work", ["gcc", "-O0", "-g"], WORK)
    capture = tmp_path / "all.lbt"
    options = ("--depth", "1", "--strings", "90")
    lbtrace("attach", "--func", "work", "--func", "other", *options, "-o", capture, "--", work)
    for condition in CONDITIONS:
        words = ("--func", "work", "--where", condition, "--format", "jsonl")
        live = lbtrace("attach", *words, "--", work)
        later = lbtrace("export", capture, *words)
        assert later.returncode == 0, later.stderr
        assert numbers(later.stdout) == numbers(live.stdout), condition
        assert 0 < len(numbers(live.stdout)) < 40, condition


def test_what_was_not_recorded_is_counted(lbtrace: Run, compiled: Any, tmp_path: Path) -> None:
    work = compiled("work", ["gcc", "-O0", "-g"], WORK)
    capture = tmp_path / "all.lbt"
    both = ("--func", "work", "--func", "other")
    lbtrace("attach", *both, "--strings", "20", "-o", capture, "--", work)
    long = "key/" + "0" * 69 + "1"
    done = lbtrace("export", capture, "--where", f'name == "{long}" or item->id == 4')
    assert "40 calls of which a value that --where names was not recorded whole" in done.stderr
    for wrong, why in {
        "nme == 1": "no call of the capture has a value called nme",
        "duration > 5": "this time has no unit: 5 of what?",
        'reg("ax") == 1': "a capture has no registers",
        'name < "x"': "text and names are compared with ==, != or startswith",
        'n == "x"': "a number is no text",
    }.items():
        done = lbtrace("export", capture, "--where", wrong)
        assert done.returncode == 2, wrong
        assert why in done.stderr

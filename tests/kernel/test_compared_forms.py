"""What a condition means, and what it advises: constants of one enumeration where several have the
name, text behind pointers and references, floats behind pointers and in arrays of arrays."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """
#include <string>
enum class Color { RED, PINK };
namespace ns { enum class Color { RED = 7, GREEN = 1 }; }
struct Point { double x, *y; float m[2][3]; };
#define NI extern "C" __attribute__((noinline))
NI void both(ns::Color c, Color d, int n) { asm volatile(""); }
NI void text(const std::string *p, const std::string &s, const char *const &t, const char **tt)
{
    asm volatile("");
}
NI void point(Point *p) { asm volatile(""); }
int main()
{
    for (int i = 0; i < 4; i++) {
        std::string s = i % 2 ? "octi" : "other";
        const char *t = s.c_str();
        double y = i;
        Point p = {0.5, &y, {{1, 2, 3}, {4, 5, 6.5f * i}}};
        both(i % 2 ? ns::Color::RED : ns::Color(0), i % 2 ? Color::PINK : Color::RED, i ? 7 : 0);
        text(&s, s, t, &t);
        point(&p);
    }
}
"""


@pytest.fixture
def program(compiled: Callable[..., Path]) -> Path:
    return compiled("compared", ["g++", "-g", "-O0", "-xc++"], SOURCE)


CONDITIONS = {
    ("both", "c == RED"): 2,
    ("both", "d == RED"): 2,
    ("both", "n == ns::Color::RED"): 3,
    ("both", "n == ::Color::RED"): 1,
    ("text", '*p == "octi"'): 2,
    ("text", 'str(p) == "octi"'): 2,
    ("text", 's == "octi"'): 2,
    ("text", 'str(s) == "octi"'): 2,
    ("text", 't == "octi"'): 2,
    ("text", 'str(t) == "octi"'): 2,
    ("text", 'str(*t) == "octi"'): 2,
    ("text", 'str(*tt) == "octi"'): 2,
    ("point", "*p->y > 0.5"): 3,
    ("point", "p->m[1][2] > 6.5"): 2,
}


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_conditions(lbtrace: Run, program: Path, tmp_path: Path, step: int) -> None:
    output = tmp_path / "calls.jsonl"
    for (function, condition), expected in islice(CONDITIONS.items(), 0, None, step):
        words = ("attach", "--force", "-o", output, "--func", function, "--where", condition)
        done = lbtrace(*words, "--", program)
        assert done.returncode == 0, (condition, done.stderr)
        records = map(json.loads, output.read_text().splitlines())
        assert sum(record["type"] == "call" for record in records) == expected, condition


REFUSED = {
    ("both", "c == ::Color::RED"): ("::Color::RED is no constant of Color", "ns::Color::RED"),
    ("both", "c == PINK"): ("PINK is no constant of Color", "its constants are RED, GREEN"),
    ("both", "c == Color::PINK"): ("is no constant of Color", "its constants are RED, GREEN"),
    ("both", "n == RED"): ("RED is 7 or 0, as", "write Color::RED, or the number"),
    ("both", "n == Color::RED"): ("7 or 0, as", "write ::ns::Color::RED or ::Color::RED"),
    ("text", 'p == "octi"'): ("this is const string *, not text", "write *p, or name a member"),
    ("text", 'tt == "octi"'): ("this is const char **, not text", "write *tt"),
    ("text", 'str(tt) == "octi"'): ("this is const char **, not text", "write str(*tt)"),
    ("point", "p > 1.5"): ("Point * has no decimals", "write *p, or name a member of it: p->key"),
    ("point", "p->y > 1.5"): ("double * has no decimals", "write *p->y"),
    ("point", "p->m > 1.5"): ("this is float [2][3], which", "name one: p->m[0][0]"),
    ("point", "p->m[1] > 1.5"): ("this is float [3], which has", "name one: p->m[1][0]"),
    ("point", "p->x > 1.5f"): ("1.5f is not a number", "write 12, 0x1f, 1.5,"),
}


def test_advice(lbtrace: Run, program: Path) -> None:
    for (function, condition), (wrong, advice) in REFUSED.items():
        done = lbtrace("attach", "--func", function, "--where", condition, "--", program)
        assert done.returncode == 2, (condition, done.stdout)
        assert wrong in done.stderr, condition
        assert advice in done.stderr, condition

"""Conditions on floats hold for the calls for which they hold in C."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """
#include <math.h>
struct pair { double d; float f; };
#define NI __attribute__((noinline, noipa))
NI double passed(int n, double d, float f) { return d + f; }
NI int pointed(int n, const struct pair *p, float *f) { __asm__(""); return n; }
NI int many(int n, double a, double b, double c, double d, double e, double f, double g, double h,
            double d9) { __asm__(""); return n; }
int main(void)
{
    const double values[] = {0, -0.0, 1.5, 1.6, -2, NAN, INFINITY, -INFINITY, 1e-310, 0.1};
    for (int n = 0; n < 10; n++) {
        struct pair p = {values[n], values[n]};
        float f = values[n];
        passed(n, p.d, f);
        pointed(n, &p, &f);
        many(n, 1, 2, 3, 4, 5, 6, 7, 8, p.d);
    }
}
"""

VALUES = [0, -0.0, 1.5, 1.6, -2, math.nan, math.inf, -math.inf, 1e-310, 0.1]
TESTS: dict[str, Callable[[float], bool]] = {
    "{} > 1.5": lambda d: d > 1.5,
    "1 <= {}": lambda d: d >= 1,
    "{} == 0": lambda d: d == 0,
    "{} != -0.0": lambda d: d != 0,
    "{}": lambda d: d != 0,
    "not {} > -2": lambda d: not d > -2,
    "{} <= -1e-3 or n == 5": lambda d: d <= -1e-3 or math.isnan(d),
    "not ({} < 1 and {} >= -2.0)": lambda d: not -2 <= d < 1,
    "({} < 0 or {} > 1.55) and n != 3": lambda d: d < 0 or d > 1.6,
}


def calls(lbtrace: Run, output: Path, name: str, condition: str, program: Path) -> list[Any]:
    """The first arguments of the calls for which a condition holds."""
    found = arguments(lbtrace, output, name, condition, program)
    return [next(iter(each.values())) for each in found]


def arguments(
    lbtrace: Run, output: Path, name: str, condition: str, program: Path
) -> list[dict[str, Any]]:
    """The arguments of the calls for which a condition holds."""
    words = ("attach", "--force", "-o", output, "--func", name, "--where", condition)
    done = lbtrace(*words, "--", program)
    assert done.returncode == 0, (condition, done.stderr)
    records = map(json.loads, output.read_text().splitlines())
    found = [each["args"] for each in records if each["type"] == "call"]
    return [{a["name"]: a["value"] for a in each} for each in found]


@pytest.mark.parametrize(
    "build",
    ["gcc -O0", *(pytest.param(b, marks=pytest.mark.slow) for b in ("clang -O0", "gcc -O2"))],
)
def test_floats_are_compared(
    lbtrace: Run, compiled: Callable[..., Path], tmp_path: Path, build: str
) -> None:
    compiler, level = build.split()
    program = compiled("floats", [compiler, "-g", level], SOURCE)
    names = {"pointed": ["p->d", "*f", "p->f"], "many": ["d9"]}
    if level == "-O0":  # other code need not store what is passed in registers
        names["passed"] = ["d", "f"]
    for name, values in names.items():
        for value in values:
            some = 9 if value == ("d" if level == "-O0" else "p->d") else 3
            for test, truth in islice(TESTS.items(), some):
                condition = test.replace("{}", value)
                expected = [n for n, each in enumerate(VALUES) if truth(each)]
                if value in ("f", "*f", "p->f"):  # this is zero then
                    expected = [n for n, each in enumerate(VALUES) if truth(each * (n != 8))]
                found = calls(lbtrace, tmp_path / "calls.jsonl", name, condition, program)
                assert found == expected, condition


def test_a_result_that_gcc_leaves_in_a_register(
    lbtrace: Run, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    program = compiled("floats", ["gcc", "-g", "-O0"], SOURCE)
    found = calls(lbtrace, tmp_path / "calls.jsonl", "passed", "retval > 3 and n > 2", program)
    assert found == [3, 6]


NOT_COMPARED = [
    ("d > 1.5", "this cannot be read: float in xmm0", "compare another value"),
    ("d > f", "the kernel does not compute with floats", "with a number: x > 1.5"),
    ("d + 1 > 2", "the kernel does not compute with floats", "with a number: x > 1.5"),
    ("n > 1.5", "int has no decimals", "write a whole number"),
    ("n + 1.5 > 2", "does not compute with decimals", "x > 1.5"),
    ("duration > 1.5", "duration has no decimals", "write a time: 1.5ms"),
    (
        "d > 1.5ms",
        "this is a time, and what it is compared with is none",
        "write the number without",
    ),
    ("d > 1e999", "this number is too large", "a double holds"),
]


def test_what_is_not_compared(lbtrace: Run, compiled: Callable[..., Path]) -> None:
    program = compiled("floats", ["gcc", "-g", "-O2"], SOURCE)
    for condition, wrong, advice in NOT_COMPARED:
        done = lbtrace("attach", "--func", "passed", "--where", condition, "--", program)
        assert done.returncode == 2, condition
        assert wrong in done.stderr, condition
        assert advice in done.stderr, condition


NARROW = """
volatile double z;
#define NI __attribute__((noinline))
NI void narrow(int id, signed char m, double *a, unsigned char n, double y) { z += m + n + y + *a; }
NI void pushed(int id, double y, unsigned char n, long d, long e, long f, long g, long h)
{
    z += y + n + id + d + e + f + g + h;
}
int main()
{
    double d = 2;
    for (int i = 0; i < 4; i++) {
        narrow(i, i, &d, i, i * 0.5);
        pushed(i, i * 0.5, i, 1, 2, 3, 4, 5 + i);
    }
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("condition", ["y > 0.5", "id > 1", "n == 2 or y == 1.5", "id + n > 2"])
def test_floats_stored_after_an_argument_has_moved(
    lbtrace: Run, compiled: Callable[..., Path], tmp_path: Path, compiler: str, condition: str
) -> None:
    """The register of another argument holds something else by then: that one is read from where
    it was stored, unless an expression asks for the register itself."""
    program = compiled("narrow", [compiler, "-g", "-O0"], NARROW)
    for name in ("narrow", "pushed"):
        found = arguments(lbtrace, tmp_path / "calls.jsonl", name, condition, program)
        expected = [(n, n, n * 0.5) for n in (2, 3)]
        assert [(each["id"], each["n"], each["y"]) for each in found] == expected

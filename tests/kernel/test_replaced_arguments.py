"""Parameters to which a function assigns others that it does not use any more: debug information
then has the register in which another is passed, and of that nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

COUNT = 3

DECLARED = """\
struct Two { long x, y; };
typedef const long *From;
#define KEPT __attribute__((noinline SMALL))
KEPT void copied(long a, long b, From from);
KEPT void lost(long a, long b);
KEPT void second(long a, long b, long c);
KEPT void chain(long a, long b, long c);
KEPT void real(double a, double b, From from);
KEPT void record(struct Two p, struct Two r, From from);
KEPT void member(long a, struct Two r, From from);
KEPT void narrow(int a, unsigned char n, From from);
KEPT void later(long a, long b, From from);
KEPT void many(long a, long b, long c, long d, long e, long f, From from);
KEPT void pushed(long a, long b, long c, long d, long e, long f, long g, From from);
KEPT void returned(struct Two r, long b, From from);
KEPT void plain(long a, long b);
"""

DEFINED = """\
#include "declared.h"
extern volatile long sink;
void copied(long a, long b, From from) { b = a; a = *from; sink += b; }
void lost(long a, long b) { long other; b = a; a = other; sink += b; }
void second(long a, long b, long c) { long other; c = b; b = other; sink += c; }
void chain(long a, long b, long c) { long other; c = b; b = a; a = other; sink += c + b; }
void real(double a, double b, From from) { b = a; a = *from; sink += b; }
void record(struct Two p, struct Two r, From from) { r = p; p.x = p.y = *from; sink += r.x + r.y; }
void member(long a, struct Two r, From from) { r.x = a; a = *from; sink += r.x + r.y; }
void narrow(int a, unsigned char n, From from) { n = a; a = *from; sink += n; }
void later(long a, long b, From from) { a = b; b = *from; sink += a; }
void many(long a, long b, long c, long d, long e, long f, From from)
{
    f = e; e = d; d = c; c = b; b = a; a = *from; sink += f + e + d + c + b;
}
void pushed(long a, long b, long c, long d, long e, long f, long g, From from)
{
    g = f; f = *from; sink += g;
}
void returned(struct Two r, long b, From from) { b = r.x; r.x = *from; sink += b; }
void plain(long a, long b) { sink += b; }
"""

MAIN = """\
#include "declared.h"
volatile long sink;
int main()
{
    long at = 5;
    for (long i = 0; i < COUNT; i++) {
        struct Two p = {30 + i, 40 + i}, r = {50 + i, 60 + i};
        copied(10 + i, 20 + i, &at);
        lost(10 + i, 20 + i);
        second(10 + i, 20 + i, 71 + i);
        chain(10 + i, 20 + i, 71 + i);
        real(10 + i, 20 + i, &at);
        record(p, r, &at);
        member(10 + i, r, &at);
        narrow(10 + i, 90 + i, &at);
        later(10 + i, 20 + i, &at);
        many(10 + i, 20 + i, 71 + i, 72 + i, 73 + i, 74 + i, &at);
        pushed(10 + i, 20 + i, 71 + i, 72 + i, 73 + i, 74 + i, 75 + i, &at);
        returned(r, 20 + i, &at);
        plain(10 + i, 20 + i);
    }
    return 0;
}
"""

FUNCTIONS = DECLARED.count("KEPT void")


def list_passed(at: int) -> dict[str, Any]:
    """What the functions are passed when they are called for the nth time, by the names of their
    parameters."""
    numbers = {"a": 10, "b": 20, "c": 71, "d": 72, "e": 73, "f": 74, "g": 75, "n": 90}
    pairs = {"p": {"x": 30 + at, "y": 40 + at}, "r": {"x": 50 + at, "y": 60 + at}}
    return {name: number + at for name, number in numbers.items()} | pairs


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        ("clang", ("-O1",)),
        ("clang", ("-O2",)),
        ("clang++", ("-Oz",)),
        ("gcc", ("-O2",)),
    ],
)
def test_what_is_assigned_to_a_parameter_is_not_taken_for_it(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]],
    tool: Callable[[str], str],
    tmp_path: Path,
    compiler: str,
    options: tuple[str, ...],
    shared: bool,
) -> None:
    kind = "cc" if compiler.endswith("++") else "c"
    sources = [tmp_path / f"defined.{kind}", tmp_path / f"main.{kind}"]
    (tmp_path / "declared.h").write_text(DECLARED)
    for source, text in zip(sources, (DEFINED, MAIN), strict=True):
        source.write_text(text)
    library, made = tmp_path / "libdefined.so", tmp_path / "main"
    words = [tool(compiler), "-g", "-w", "-DSMALL=", f"-DCOUNT={COUNT}", *options]
    if shared:
        subprocess.run([*words, "-fPIC", "-shared", sources[0], "-o", library], check=True)
        subprocess.run([*words, sources[1], library, "-o", made], check=True)
    else:
        subprocess.run([*words, "-Wl,--export-dynamic", *sources, "-o", made], check=True)
    output = tmp_path / "out.jsonl"
    names = {
        line.partition("(")[0].split()[-1] for line in DECLARED.splitlines() if "KEPT v" in line
    }
    pattern = f"/^({'|'.join(sorted(names))})([(]|$)/"
    binary = ("--binary", library) if shared else ()
    done = lbtrace(*("attach", *binary, "--func", pattern, "--quiet", "-o", output, "--", made))
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line) for line in output.read_text().splitlines()]
    calls = [each for each in reported if each["type"] == "call"]
    assert len(calls) == FUNCTIONS * COUNT
    for number, call in enumerate(calls):
        name = call["name"].partition("(")[0]
        passed = list_passed(number // FUNCTIONS)
        for argument in call["args"]:
            value, wanted = argument["value"], passed.get(argument["name"])
            if isinstance(value, dict):
                known = {key: each for key, each in value.items() if each is not None}
                assert known.items() <= wanted.items(), call
            elif isinstance(value, int):
                assert value == wanted, call
        if name == "plain" and shared:  # nothing of this is lost
            assert [each["value"] for each in call["args"]] == [passed["a"], passed["b"]], call

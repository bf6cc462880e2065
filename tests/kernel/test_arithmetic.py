"""Expressions against a C compiler: random ones, over the arguments of a program's calls.

The program evaluates each expression itself, and prints what it makes of it.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

TYPES = {
    "signed char": (1, True),
    "unsigned char": (1, False),
    "short": (2, True),
    "unsigned short": (2, False),
    "int": (4, True),
    "unsigned int": (4, False),
    "long": (8, True),
    "unsigned long": (8, False),
    "bool": (0, False),
}
COUNT = 40
"""Calls of the program."""

HOLDS_ALWAYS = "it holds for every call, or for none"

HIDDEN = "optimised out"
UNREADABLE = f"this cannot be read: {HIDDEN}"
"""clang may not tell where a ``bool`` that is passed on the stack lies in optimised code. Alone
it is shown as such, within an expression refused."""


class Generator:
    """A program of one function with eight parameters, one of them a struct with bit fields."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.types = [self.random.choice(list(TYPES)) for _ in range(7)]
        # gcc computes with bit fields wider than an int in their own width, as no other does.
        self.fields = [("int", 5), ("unsigned int", 7), ("unsigned int", 32), ("long", 20)]

    def names(self) -> list[str]:
        return [*(f"p{n}" for n in range(7)), *(f"s->b{n}" for n in range(4))]

    def constant(self) -> str:
        size = self.random.choice([7, 8, 15, 16, 31, 32, 62])
        value = (1 << size) + self.random.randint(-2, 2)
        if self.random.random() < 0.5:
            value = self.random.randint(0, 20)
        if self.random.random() < 0.2:
            return f"{value:#x}"
        return str(value) if self.random.random() < 0.7 else f"-{value}"

    def term(self) -> str:
        name = self.random.choice(self.names())
        form = self.random.randrange(9)
        if form == 0:
            return f"-{name}"
        if form == 1:
            kind = self.random.choice([t for t in TYPES if t != "bool"])
            return f"({kind}){name}"
        if form == 2:
            return f"{name} * {self.random.randint(-9, 9)}"
        if form == 3:
            return f"~{name}"
        return self.combined(name) if form > 5 else name

    def combined(self, name: str) -> str:
        """Two values by one of the other operators, none of whose results C leaves undefined."""
        other = self.random.choice(self.names())
        # By no less than 2: gcc negates a divisor, and INT_MIN / -1 is a fault.
        positive, bits = f"(({other} & 127) + 2)", f"({other} & 31)"
        by = self.random.choice(
            [
                *(f"& {other}", f"| {other}", f"^ {other}", f"* {other}", f"<< {bits}"),
                *(f">> {bits}", f"/ {positive}", f"% {positive}"),
                *(
                    f"/ {self.random.randint(2, 99)}",
                    f"% -{self.random.randint(2, 99)}",
                    f"/ (-1 - {positive})",
                ),
                *(f">> {self.random.randint(0, 31)}", f"<< {self.random.randint(0, 31)}"),
            ]
        )
        return f"({name} {by})"

    def sum(self) -> str:
        if self.random.random() < 0.1:
            return f"({self.constant()} {self.random.choice('/%')} (({self.term()} & 63) - 99))"
        text = self.term()
        for _ in range(self.random.choice([0, 0, 1, 2])):
            other = self.constant() if self.random.random() < 0.4 else self.term()
            text += f" {self.random.choice('+-')} {other}"
        return f"({text}) * 3" if self.random.random() < 0.1 else text

    def test(self) -> str:
        operator = self.random.choice(["==", "!=", "<", "<=", ">", ">="])
        other = self.constant() if self.random.random() < 0.6 else self.sum()
        left = self.random.choice(self.names()) if self.random.random() < 0.4 else self.sum()
        return f"{left} {operator} {other}"

    def value(self, kind: str, bits: int = 0) -> int:
        size, signed = TYPES[kind]
        bits = bits or 8 * size or 1
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        near = self.random.choice([low, high, 0, 1 if bits > 1 else 0])
        if self.random.random() < 0.4:
            return self.random.randint(low, high)
        return min(max(near + self.random.randint(-3, 3), low), high)

    def source(self, sums: list[str], tests: list[str]) -> str:
        def literal(value: int, kind: str) -> str:
            suffix = "" if TYPES[kind][1] else "u"
            return f"({value + 1}L - 1)" if value < 0 else f"{value}{suffix}L"

        parameters = ", ".join(f"{t} p{n}" for n, t in enumerate(self.types))
        fields = " ".join(f"{t} b{n} : {bits};" for n, (t, bits) in enumerate(self.fields))
        shown = " ".join(f'printf("%llu ", (unsigned long long)({s}));' for s in sums)
        held = " ".join(f'printf("%d ", ({t}) != 0);' for t in tests)
        lines = []
        for _ in range(COUNT):
            given = ", ".join(literal(self.value(t), t) for t in self.types)
            inside = ", ".join(literal(self.value(t, bits), t) for t, bits in self.fields)
            lines.append(f"f(&(struct s){{ {inside} }}, {given});")
        return (
            "#include <stdbool.h>\n#include <stdio.h>\n"
            f"struct s {{ {fields} }};\n"
            f"__attribute__((noinline)) void f(struct s *s, {parameters})\n"
            f'{{ __asm__ volatile("" ::: "memory"); {shown} {held} puts(""); }}\n'
            f"int main(void) {{ {' '.join(lines)} return 0; }}\n"
        )


def traced(lbtrace: Run, program: Path, *options: str) -> tuple[list[dict[str, Any]], str]:
    words = ("attach", "--func", "f", "--quiet", "--strict", "--format", "jsonl", *options)
    done = lbtrace(*words, "-o", "/dev/stderr", "--", program)
    if done.returncode:
        assert done.returncode == 2 or "verifier gives up" in done.stderr, done.stderr[-3000:]
        assert "Traceback" not in done.stderr
        return [], done.stderr
    records = map(json.loads, done.stderr.splitlines())
    return [record for record in records if record["type"] == "call"], ""


def is_outside(test: str, error: str) -> bool:
    """Whether ``test`` compares with a number that no value is. C may convert the value, as
    it takes 0x80000001 for unsigned; here numbers are what they say."""
    bounds = re.search(r"from (-?\d+) to (\d+)", error)
    number = re.search(r"(?:[<>=]=?|!=) (0x[0-9a-f]+|-?\d+)", test)
    if not bounds or not number:
        return False
    return not int(bounds[1]) <= int(number[1], 0) <= int(bounds[2])


def check(lbtrace: Run, compiled: Callable[..., Path], seed: int, compiler: str, count: int) -> int:
    """Compares; returns how many expressions were refused."""
    made = Generator(seed)
    sums, tests = [made.sum() for _ in range(count)], [made.test() for _ in range(count)]
    name = f"arithmetic-{compiler}-{seed}"
    flags = ["-g", made.random.choice(["-O0", "-O1", "-O2"]), "-fwrapv", "-w"]
    hides = compiler == "clang" and "-O0" not in flags
    program = compiled(name, [compiler, *flags], made.source(sums, tests))
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    answers = [list(map(int, line.split())) for line in printed.splitlines()]
    refused = 0
    for number, expression in enumerate(sums):
        calls, error = traced(lbtrace, program, f"--arg=v={expression}")
        refused += bool(error) and not (UNREADABLE in error and hides)
        if error:
            continue
        shown = [call["args"][0] for call in calls]
        if hides and expression in made.names() and shown[0].get("unreadable") == HIDDEN:
            assert {value["value"] for value in shown} == {None}, (seed, expression)
            continue
        values = [value["value"] % (1 << 64) for value in shown]
        assert values == [row[number] for row in answers], (seed, made.types, expression)
    for number, test in enumerate(tests, count):
        calls, error = traced(lbtrace, program, "--arg=p0", f"--where={test}", "--arg=s")
        holding = sum(row[number] for row in answers)
        if error:
            if UNREADABLE in error and hides:
                continue
            refused += 1
            # A negative number is refused beside an unsigned value, which C would convert.
            if "verifier gives up" in error or "too many values" in error:
                continue
            assert HOLDS_ALWAYS in error, error[-2000:]
            negative = "from 0 to" in error
            assert holding in (0, COUNT) or negative or is_outside(test, error), (seed, test, error)
        else:
            assert len(calls) == holding, (seed, made.types, test)
    return refused


def test_expressions_compute_as_c_does(lbtrace: Run, compiled: Callable[..., Path]) -> None:
    assert check(lbtrace, compiled, 7, "gcc", 8) <= 4


def test_what_has_no_result(lbtrace: Run, compiled: Callable[..., Path]) -> None:
    source = """
        __attribute__((noinline)) int f(int a, int b)
        { __asm__ volatile("" :: "r"(a), "r"(b) : "memory"); return a; }
        int main(void) { f(-7, 2); f(7, 0); f(1, 32); return f(9, -3) - 9; }
    """
    program = compiled("no-result", ["gcc", "-g", "-O1"], source)
    words = ("attach", "--func", "f", "--arg", "a")
    done = lbtrace(*words, "--where", "a / b == -3", "--", program)
    assert (done.stdout.count("f(a=-7)"), done.stdout.count("f(a=9)")) == (1, 1)
    assert "1 computation without a result, divided by 0 or shifted too far" in done.stderr
    done = lbtrace(*words, "--where", "1 << b != 0", "--strict", "--", program)
    assert "2 calls in" in done.stderr
    assert "2 computations without" in done.stderr
    errors = {"a & 4 == 4": "this is compared before &", "a / 0 == 1": "divided by 0"}
    for where, wrong in errors.items():
        refused = lbtrace(*words, "--where", where, "--", program)
        assert refused.returncode == 2
        assert wrong in refused.stderr


def test_numbers_below_0(lbtrace: Run, programs: Path) -> None:
    """BPF divides numbers without signs; guests run this, too."""
    where = "(n - 9) / 4 == -1 and n % 2 == 1 and n << 1 != 10"
    done = lbtrace("attach", "--func", "fib", "--where", where, "--", programs / "fib", 8)
    assert done.stdout.count("fib(n=3)") == 8
    assert "8 calls in" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("run", range(4))
def test_more_expressions(
    lbtrace: Run, compiled: Callable[..., Path], compiler: str, run: int
) -> None:
    seed = random.randrange(1 << 32)
    assert check(lbtrace, compiled, seed, compiler, 25) <= 20

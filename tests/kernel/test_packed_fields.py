"""Bit fields of packed records: each is what the program says, or is shown as unknown."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]
Compile = Callable[[str, list[str], str], Path]

TYPES = {
    "unsigned char": 8,
    "signed char": 8,
    "unsigned short": 16,
    "int": 32,
    "unsigned": 32,
    "long": 64,
    "unsigned long": 64,
}
RECORDS = 60
REASONS = (
    "debug information leaves out at which bit it begins",
    "spread over two registers",
    "how it is passed is unknown",
    "not read",
    "optimised out",
)


def declare(dice: random.Random, *, unnamed: bool) -> tuple[list[str], list[str], list[str]]:
    """The members of a packed record, their names, and values for them."""
    members, names, values = [], [], []
    for n in range(dice.randrange(1, 7)):
        type, width = dice.choice(list(TYPES.items()))
        bits = dice.choice([0, width, width, dice.randrange(1, width), dice.randrange(1, width)])
        if unnamed and dice.random() < 0.1:
            members.append(f"unsigned : {dice.randrange(1, 8)};")
        members.append(f"{type} f{n}" + (f" : {bits};" if bits else ";"))
        names.append(f"f{n}")
        values.append(f"({type}){dice.randrange(1 << 63)}L")
    return members, names, values


def source(seed: int, *, unnamed: bool) -> str:
    """A program with functions that take packed records, and print their members as JSON."""
    dice = random.Random(seed)
    lines, calls = ["#include <stdio.h>"], []
    for n in range(RECORDS):
        members, names, values = declare(dice, unnamed=unnamed)
        form = ", ".join(f'\\"{name}\\": %ld' for name in names)
        sides = ", ".join(f"(long)a.{name}" for name in names)
        lines.append(
            f"struct __attribute__((packed)) s{n} {{ {' '.join(members)} }};\n"
            f"__attribute__((noinline)) struct s{n} show_{n}"
            f"(int before, struct s{n} a, struct s{n} *b, int after)\n{{\n"
            f'    printf("{{\\"args\\": [%d, {{{form}}}, %d]}}\\n", before, {sides}, after);\n'
            f'    __asm__ volatile("" : : "m"(a), "m"(*b) : "memory");\n    return *b;\n}}'
        )
        calls.append(f"    struct s{n} v{n} = {{{', '.join(values)}}};")
        calls.append(f"    show_{n}({n}, v{n}, &v{n}, {n + 1});")
    return "\n".join([*lines, "int main(void)\n{", *calls, "    return 0;\n}"])


def reasons(argument: dict[str, Any]) -> set[str]:
    parts = [part.get("unreadable", "") for part in argument.get("parts", {}).values()]
    return {argument.get("unreadable", ""), *parts} - {""}


def compare(argument: dict[str, Any], truth: dict[str, int]) -> int:
    """How many members are shown, all of which are true."""
    if argument["value"] is None:
        return 0
    shown = {k: ord(v) if isinstance(v, str) else v for k, v in argument["value"].items()}
    assert list(shown) == list(truth)
    for name, value in shown.items():
        same = value is None or value & (1 << 64) - 1 == truth[name] & (1 << 64) - 1
        assert same, f"{argument} {truth}"
    return sum(value is not None for value in shown.values())


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "clang -gdwarf-4"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_members_of_packed_records(
    lbtrace: Run, compiled: Compile, tmp_path: Path, compiler: str, level: str, seed: int
) -> None:
    """clang up to 15 does not say of a bit field as wide as its type that it is one, and rounds its
    offset down to a byte. Fields without a name, of which it says nothing, may hide that."""
    words = [*compiler.split(), "-g", level, "-w"]
    program = compiled(
        f"packed-{seed}-{'-'.join(words)}", words, source(seed, unnamed=compiler == "gcc")
    )
    capture, live, later = (tmp_path / name for name in ("run.lbt", "live.jsonl", "later.jsonl"))
    attach = ("attach", "--func", "show_*", "--depth", "1", "--quiet")
    done = lbtrace(*attach, "-o", live, "--", program)
    assert done.returncode == 0, done.stderr
    assert lbtrace(*attach, "-o", capture, "--", program).returncode == 0
    lbtrace("export", capture, "-o", later)
    truth = [json.loads(line)["args"] for line in done.stdout.splitlines()]
    agreed, hidden = 0, set()
    for path in (live, later):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        calls = [record for record in records if record["type"] == "call"]
        for call, (before, members, after) in zip(calls, truth, strict=True):
            first, record, pointed, last = call["args"]
            assert first["value"] in (before, None), call
            assert last["value"] in (after, None), call
            agreed += compare(record, members)
            agreed += compare(pointed, members) if isinstance(pointed["value"], dict) else 0
            result = {key: call[key] for key in ("value", "unreadable", "parts") if key in call}
            agreed += compare({"value": call["result"], **result}, members)
            hidden |= reasons(record) | reasons(pointed) | reasons(last)
    assert agreed > 250
    assert all(reason.startswith(REASONS) for reason in hidden), hidden


FIELDS = r"""
struct __attribute__((packed)) record { unsigned char a : 3; unsigned b : 32; int c : 29; };
__attribute__((noinline)) int show(struct record x, struct record *y)
{
    __asm__ volatile("" : : "m"(x), "m"(*y));
    return 0;
}
int main(void)
{
    struct record y = {5, 3000000000, -7};
    return show(y, &y);
}
"""


def test_expressions_read_all_bits(compiled: Compile, lbtrace: Run, tmp_path: Path) -> None:
    """The bytes of a number of its type do not hold all of a field that begins within a byte."""
    program = compiled("fields", ["gcc", "-g", "-O0", "-w"], FIELDS)
    output = tmp_path / "out.jsonl"
    where = "y.b == 3000000000 and y->c == -7 and x.b == 3000000000"
    shown = ("--arg", "y.b", "--arg", "y.c", "--arg", "x.b", "--arg", "y.a")
    done = lbtrace(
        *("attach", "--func", "show", "--where", where, *shown, "-o", output, "--", program)
    )
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in output.read_text().splitlines()]
    (call,) = [record for record in calls if record["type"] == "call"]
    assert [a["value"] for a in call["args"]] == [3000000000, -7, 3000000000, 5]

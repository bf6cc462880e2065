"""Parameters, and parts of them, that are assigned to each other before anything else happens:
each value that is shown is what the caller passes in the source."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

pytestmark = pytest.mark.host

Value: TypeAlias = int | str | dict[str, int]
Formals: TypeAlias = list[tuple[str, str]]
"""The names and types of parameters."""

HEAD = """\
#ifndef OPT
#define OPT
#endif
typedef __int128 wide;
typedef const char *text;
typedef struct { long a, b; } two;
typedef struct { int a, b; } half;
typedef struct { long a; int b; } short_end;
typedef struct { double x; long a; } mixed;
#define KEPT __attribute__((noinline))
#ifdef __cplusplus
extern "C" {
#endif
extern volatile long sink, zero;
void fill(long, long, long, long, long, long, long, long, long);
long more(long);
"""

CLOSED = """\
#ifdef __cplusplus
}
#endif
"""

COMMON = """
volatile long sink = 0, zero = 0;
KEPT void fill(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
    sink += a + b + c + d + e + f + g + h + i;
}
KEPT long more(long a) { sink += a; return 3; }
"""

FILL = "fill(0x1111, 0x2222, 0x3333, 0x4444, 0x5555, 0x6666, 0x7777, 0x8888, 0x9999);"

MAIN = """
KEPT void clear()  // what the loader left would be passed for structs that are not read
{
    volatile char left[1 << 16];
    for (int n = 0; n < sizeof(left); n++) left[n] = 0;
}
int main() { clear(); call(); return 0; }
"""

MEMBERS = {
    "two": ("a", "b"),
    "half": ("a", "b"),
    "short_end": ("a", "b"),
    "mixed": ("a",),
}
NUMBERS = ("long", "int", "unsigned char", "wide")
TYPES = (*(*NUMBERS, "long", "int", "long", "int"), "text", *MEMBERS, "two", "half")

FUNCTIONS, CALLS = 40, 2


def list_numbers(formals: Formals) -> list[tuple[str, str]]:
    """The parameters and members that are numbers, and their types."""
    found = [(name, kind) for name, kind in formals if kind in NUMBERS]
    return found + [
        (f"{name}.{m}", "long") for name, kind in formals for m in MEMBERS.get(kind, ())
    ]


def write_assignment(dice: random.Random, formals: Formals) -> str:
    """A statement that assigns to a parameter, or to a member of it."""
    name, kind = dice.choice(formals)
    same = [other for other, its in formals if its == kind and other != name]
    numbers = list_numbers(formals)
    if same and dice.random() < 0.4:
        other = dice.choice(same)
        if dice.random() < 0.3:
            return f"{{ {kind} kept = {name}; {name} = {other}; {other} = kept; }}"
        return f"{name} = {other};"
    if not numbers or kind == "text":
        return f"{name} = {name} + zero;" if kind == "text" else ""
    to, its = dice.choice(numbers)
    if dice.random() < 0.15:
        return f"{to} = {dice.randrange(99)} + zero;"
    source, _ = dice.choice(numbers)
    return f"{to} = ({its}){source};"


def write_use(dice: random.Random, formals: Formals) -> str:
    """A statement that reads a parameter, or a member of it."""
    name, kind = dice.choice(formals)
    if kind in MEMBERS:
        return f"sink += {name}.{dice.choice(MEMBERS[kind])};"
    return f"sink += *{name};" if kind == "text" else f"sink += (long){name};"


def write_value(dice: random.Random, kind: str) -> tuple[str, Value]:
    """A value of a type in C or C++, not known to the compiler, and as it is shown."""
    if kind in MEMBERS:
        values = {member: dice.randrange(10, 10**6) for member in MEMBERS[kind]}
        parts = [f"{value} + (int)zero" for value in values.values()]
        return f"({kind}){{{', '.join(['1.5'] * (kind == 'mixed') + parts)}}}", values
    if kind == "text":
        text = f"t{dice.randrange(10**5)}"
        return f'&"{text}"[zero]', text
    if kind == "wide":
        high, low = dice.randrange(10, 10**6), dice.randrange(10, 10**6)
        return f"(((wide)({high} + zero) << 64) + {low} + zero)", (high << 64) + low
    value = dice.randrange(10, 250 if kind == "unsigned char" else 10**6)
    return f"({kind})({value} + zero)", value


def write_program(
    seed: int, *, local: bool = False
) -> tuple[str, str, dict[str, list[dict[str, Value]]]]:
    """Functions, what calls them, and what they are passed."""
    dice = random.Random(seed)
    defined, called = [], []
    passed: dict[str, list[dict[str, Value]]] = {}
    for number in range(FUNCTIONS):
        kinds = [dice.choice(TYPES) for _ in range(dice.choice([1, 2, 2, 3]))]
        count = dice.choice([2, 2, 3, 3, 4, 5, 6, 8])
        formals = [(f"p{n}", dice.choice(kinds)) for n in range(count)]
        body = ["sink += 1;"] if dice.random() < 0.2 else []
        body += [write_assignment(dice, formals) for _ in range(dice.choice([1, 1, 2, 3, 4]))]
        body += [write_use(dice, formals) for _ in range(dice.choice([1, 2, 3, 4, 6]))]
        if dice.random() < 0.3:
            body.insert(dice.randrange(len(body)), "more(7);")
        body.append(f"sink += {1000 + number};")  # no two have the same code
        name = f"f{number}"
        list_ = ", ".join(f"{kind} {each}" for each, kind in formals)
        head = f"{'static ' if local else ''}KEPT OPT void {name}({list_})"
        defined.append(f"{head} {{ {' '.join(body)} }}")
        for _ in range(CALLS):
            written = [(each, write_value(dice, kind)) for each, kind in formals]
            called.append(f"    {FILL} {name}({', '.join(v for _, (v, _) in written)});")
            passed.setdefault(name, []).append({each: value for each, (_, value) in written})
    main = "\n".join(["KEPT void call()", "{", *called, "}", MAIN])
    return HEAD + "\n".join(defined) + "\n" + CLOSED + main, HEAD + COMMON + CLOSED, passed


CLANG, CPP, GCC = ("clang",), ("clang++", "-std=c++20"), ("gcc",)
ZIG = (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=all")
LEAST = {"clang": 0.35, "gcc": 0.6}
"""Which part of the values is shown, at least."""


@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        (CLANG, ("-O1",)),
        (CLANG, ("-O2", "-gdwarf-4")),
        (CPP, ("-Os",)),
        (ZIG, ("-O2",)),
        (GCC, ("-O2",)),
        (GCC, ("-O0", '-DOPT=__attribute__((optimize("O2")))')),
    ],
)
@pytest.mark.parametrize("seed", [17, 21])
def test_no_value_is_that_of_another(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    compiler: tuple[str, ...],
    options: tuple[str, ...],
    seed: int,
) -> None:
    if compiler is ZIG:
        pytest.importorskip("ziglang")  # it brings a newer clang with it
    kind = "cc" if compiler is CPP else "c"
    functions, common, passed = write_program(seed)
    sources = [tmp_path / f"functions.{kind}", tmp_path / f"common.{kind}"]
    for source, text in zip(sources, (functions, common), strict=True):
        source.write_text(text)
    made = tmp_path / "made"
    words = [tool(compiler[0]), *compiler[1:], "-g", "-w", *options, *sources, "-o", made]
    subprocess.run(words, check=True)
    turns: dict[str, int] = {}
    shown = every = 0
    for call in traced(made, "/^f[0-9]+([.]|$)/"):
        function = call["name"].partition(".")[0]
        number = turns[function] = turns.get(function, -1) + 1
        for argument in call["args"]:
            value, wanted = argument["value"], passed[function][number][argument["name"]]
            whole = {"": wanted} if not isinstance(wanted, dict) else wanted
            found = value if isinstance(value, dict) else dict.fromkeys(whole, value)
            every += len(whole)
            for name, each in whole.items():
                # Callers need not write a member in memory that the function does not read.
                if found[name] is not None and (isinstance(wanted, dict) <= (found[name] != 0)):
                    assert found[name] == each, (call, argument["name"], wanted)
                    shown += 1
    assert turns == dict.fromkeys(passed, CALLS - 1)
    assert shown >= every * LEAST["gcc" if compiler is GCC else "clang"], (shown, every)

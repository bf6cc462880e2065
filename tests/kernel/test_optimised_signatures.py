"""What compilers make of parameters that they see all callers of: values come from where no
optimiser can see them, functions read some of their parameters, or members of those, callers use
some results. Callers log what they pass and get; lbtrace is to show that, or why it cannot."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernel import test_signatures as SIGNATURES

PRINTERS: dict[str, str] = {
    **SIGNATURES.PRINTERS,
    "struct large *": r'"\"%p\"", (void *)x',
    "struct mixed *": r'"\"%p\"", (void *)x',
    "struct single": r'"{\"v\": %ld}", x.v',
    "struct real": r'"{\"v\": %.17g}", x.v',
    "struct wide": 'x.v < 0 ? "{\\"v\\": -" : "{\\"v\\": "); print_wide(x.v < 0 ? -x.v : x.v); '
    'printf("}"',
    "struct half": r'"{\"a\": %.9g, \"b\": %d, \"c\": %.17g}", x.a, x.b, x.c',
    "struct packed": r'"{\"a\": %ld, \"b\": %d, \"c\": %ld}", x.a, x.b, x.c',
}

MEMBERS = {
    "struct pair": "xy",
    "struct mixed": "dl",
    "struct reals": "ab",
    "struct triple": "xyz",
    "struct small": "cs",
    "struct large": "w",
    "struct bits": "abc",
    "struct named": ("name", "age"),
    "struct nested": ("s.s", "u.i"),
    "struct exact": "vn",
    "struct single": "v",
    "struct real": "v",
    "struct wide": "v",
    "struct half": "abc",
    "struct packed": "abc",
    "struct large *": ("->w", "->v[1]"),
    "struct mixed *": ("->d", "->l"),
}
"""What a function may read of a parameter instead of all of it."""

HEADER = r"""
struct single { long v; };
struct real { double v; };
struct wide { __int128 v; };
struct half { float a; int b; double c; };
struct packed { long a; signed char b; long c; } __attribute__((packed));
static struct large larges[2] = {{{1, 2}, 3}, {{4, 5}, 6}};
static struct mixed mixeds[2] = {{1.5, 3}, {2.5, 4}};
#define OPAQUE(type, ...) ({ type o_ = __VA_ARGS__; __asm__ volatile("" : "+m"(o_)); o_; })
#define READ(value) { volatile __typeof__(value) s_ = value; (void)s_; }
#define READ_MEMBER(value) { volatile __typeof__(value + 0) s_ = value; (void)s_; }
"""


def literal(type: str, dice: random.Random) -> str:
    number, real = dice.randrange(-(1 << 30), 1 << 30), round(dice.uniform(-1e6, 1e6), 3)
    own = {
        "struct large *": f"&larges[{number % 2}]",
        "struct mixed *": f"&mixeds[{number % 2}]",
        "struct single": f"(struct single){{{number}}}",
        "struct real": f"(struct real){{{real!r}}}",
        "struct wide": f"(struct wide){{((__int128){number}) << {number % 60}}}",
        "struct half": f"(struct half){{{real!r}f, {number}, {real!r}}}",
        "struct packed": f"(struct packed){{{number}, {number % 100}, {number // 2}}}",
    }
    return own[type] if type in own else str(SIGNATURES.literal(type, dice))


class Made:
    """A function: its parameters, and those that others pass on to it."""

    def __init__(self, number: int, dice: random.Random, former: list[Made]) -> None:
        self.number, self.dice = number, dice
        self.types = dice.choices(list(PRINTERS), k=dice.choice([1, 2, 3, 4, 6, 8, 10]))
        self.result = dice.choice([*PRINTERS, "void"])
        self.constants = {n for n in range(len(self.types)) if dice.random() < 0.15}
        self.always = [literal(type, dice) for type in self.types]
        self.inner = dice.choice(former) if former and dice.random() < 0.3 else None

    def call(self, given: Callable[[str], str | None] = lambda type: None) -> str:
        """Statements that log what is passed, call the function, and log what it returns."""
        dice, lines = self.dice, []
        for n, type in enumerate(self.types):
            constant = self.always[n] if n in self.constants else None
            value = constant or given(type) or f"OPAQUE({type}, {literal(type, dice)})"
            lines.append(f"{type} a{n} = {value};")
        lines.append(f'printf("{{\\"call\\": \\"traced_{self.number}\\", \\"args\\": [");')
        for n, type in enumerate(self.types):
            comma = 'printf(", "); ' if n else ""
            lines.append(f"{comma}print_{numbers()[type]}(a{n});")
        lines.append('printf("]}\\n");')
        names = ", ".join(f"a{n}" for n in range(len(self.types)))
        call = f"traced_{self.number}({names});"
        if self.result == "void" or dice.random() < 0.3:
            lines.append(call)
            lines.append('printf("{\\"result\\": null}\\n");')
        else:
            lines.append(f"{self.result} r = {call}")
            print_it = f"print_{numbers()[self.result]}(r);"
            lines.append(f'printf("{{\\"result\\": "); {print_it} printf("}}\\n");')
        return "{ " + " ".join(lines) + " }"

    def begin(self) -> list[str]:
        """Statements before parameters are read."""
        return []

    def source(self, storage: str) -> str:
        dice, lines = self.dice, self.begin()
        formals = ", ".join(f"{type} p{n}" for n, type in enumerate(self.types))
        for n, type in enumerate(self.types):
            chance = dice.random()
            member = dice.choice(MEMBERS[type]) if type in MEMBERS else ""
            if chance < 0.4 and member:
                lines.append(f"READ_MEMBER(p{n}{member if '>' in member else '.' + member})")
            elif chance < 0.75:
                lines.append(f"READ(p{n})")
        if self.inner:
            # Its own parameters are passed on where they fit.
            own = {type: f"p{n}" for n, type in enumerate(self.types)}
            lines.append(self.inner.call(own.get))
        if self.result != "void":
            value = literal(self.result, dice)
            value = value if dice.random() < 0.2 else f"OPAQUE({self.result}, {value})"
            same = [n for n, type in enumerate(self.types) if type == self.result]
            value = f"p{same[0]}" if same and dice.random() < 0.7 else value
            lines.append(f"return {value};")
        inside = "\n    ".join(lines)
        return (
            f"{storage}__attribute__((noinline)) {self.result} traced_{self.number}({formals})\n"
            f'{{\n    __asm__ volatile("");\n    {inside}\n}}'
        )


NUMBERS = ("long", "int", "unsigned char", "__int128")
FEW = (
    *NUMBERS,
    "long",
    "int",
    "long",
    "const char *",
    "struct pair",
    "struct large",
    "struct mixed",
)
"""Types of parameters that are assigned to each other."""


class Exchanging(Made):
    """A function that assigns its parameters, and parts of them, to each other at first."""

    def __init__(self, number: int, dice: random.Random, former: list[Made]) -> None:
        super().__init__(number, dice, former)
        kinds = dice.choices(FEW, k=dice.choice([1, 2, 2, 3]))
        self.types = dice.choices(kinds, k=dice.choice([2, 2, 3, 3, 4, 5, 6, 8]))
        self.constants = set()

    def begin(self) -> list[str]:
        return [self._assign() for _ in range(self.dice.choice([1, 1, 2, 3, 4]))]

    def _assign(self) -> str:
        dice, types = self.dice, self.types
        to = dice.randrange(len(types))
        same = [n for n, type in enumerate(types) if type == types[to] and n != to]
        if same and dice.random() < 0.4:
            other = dice.choice(same)
            if dice.random() < 0.3:
                return f"{{ {types[to]} k = p{to}; p{to} = p{other}; p{other} = k; }}"
            return f"p{to} = p{other};"
        parts = [(f"p{n}", type) for n, type in enumerate(types) if type in NUMBERS]
        parts += [
            (f"p{n}.{m}", "int") for n, t in enumerate(types) if t == "struct pair" for m in "xy"
        ]
        parts += [(f"p{n}.l", "long") for n, t in enumerate(types) if t == "struct mixed"]
        if not parts:
            return ""
        (to_part, its), (source, _) = dice.choice(parts), dice.choice(parts)
        return f"{to_part} = ({its}){source};"


def numbers() -> dict[str, int]:
    return {type: n for n, type in enumerate(PRINTERS)}


def source(seed: int, many: int, kind: type[Made], *, static: bool) -> str:
    """A program that calls ``many`` functions of a kind, some from several places."""
    dice = random.Random(seed)
    lines = [SIGNATURES.HEADER, HEADER]
    for n, (type, printer) in enumerate(PRINTERS.items()):
        lines.append(f"static void print_{n}({type} x) {{ printf({printer}); }}")
    functions: list[Made] = []
    for n in range(many):
        functions.append(kind(n, dice, functions[-20:]))
    for made in functions:
        lines.append(made.source("static " if static else ""))
    calls = []
    for made in functions:
        for _ in range(dice.choice([1, 1, 2, 3])):
            name = f"run_{len(calls)}"
            lines.append(f"__attribute__((noinline)) static void {name}(void)\n{made.call()}")
            calls.append(f"    {name}();")
    return "\n".join([*lines, "int main(void)\n{", *calls, "    return 0;\n}"])


def differing(shown: Any, reported: Any) -> bool:
    """Whether what is shown is wrong. What is null is unreadable."""
    if isinstance(shown, str) and reported in SIGNATURES.FUNCTIONS:
        shown = shown.split(".")[0]  # linkers rename what is static
    try:
        SIGNATURES.agree(shown, reported, "")
    except AssertionError:
        return True
    return False


def compare(program: Path, words: list[str], into: Path, counts: Counter[str]) -> list[str]:
    """Traces a program, counts its values by what became of them, and returns the wrong ones."""
    output = into / "out.jsonl"
    options = ["--func", "traced_*", "--force", "--quiet", "--strict", "-o", output]
    command = [*words, "attach", *options, "--", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in output.read_text().splitlines()]
    ended = [record for record in records if record["type"] == "call"]
    begun = iter(sorted(ended, key=lambda call: call["start"]))
    ends, wrong = iter(ended), []
    for reported in map(json.loads, done.stdout.splitlines()):
        if "call" not in reported:
            call = next(ends)
            pairs = [("result", call["result"], call, reported["result"])]
            pairs = [] if reported["result"] is None or call["end"] != "returned" else pairs
        else:
            call = next(begun)
            assert call["name"].split(".")[0] == reported["call"], (call, reported)
            given = {argument["name"]: argument for argument in call["args"]}
            pairs = []
            for n, value in enumerate(reported["args"]):
                argument = given.get(f"p{n}")
                if argument is None:
                    counts["absent"] += 1
                else:
                    pairs.append((f"p{n}", argument["value"], argument, value))
        for name, shown, record, value in pairs:
            counts["tried"] += 1
            if shown is None:
                reason = str(record.get("unreadable"))
                counts[f"unreadable: {reason.partition(' in ')[0]}"] += 1
            elif differing(shown, value):
                counts["wrong"] += 1
                wrong.append(f"{call['name']} {name}: {shown!r}, but is {value!r}")
            else:
                counts["right"] += 1
    assert next(ends, None) is None
    return wrong


def build(seed: int, many: int, command: list[str], into: Path, kind: type[Made] = Made) -> Path:
    """The program of a seed."""
    text, program = into / "optimised.c", into / "optimised"
    static = "-flto" not in command and kind is Made
    text.write_text(source(seed, many, kind, static=static))
    subprocess.run([*command, "-w", text, "-o", program], check=True)
    return program


LEVELS = ("-O1", "-O2", "-O3", "-Os", "-Og", "-O2 -flto", "-O3 -flto")
COMMANDS = (
    *(f"gcc -g {level}" for level in LEVELS),
    *(
        f"{clang} -g {level}{' -fuse-ld=lld' * ('-flto' in level)}"
        for clang in ("clang", "clang++ -x c++")
        for level in LEVELS
    ),
)


@pytest.mark.host
@pytest.mark.parametrize(
    ("seed", "many", "command"),
    [
        (1, 60, "gcc -g -O2"),
        (2, 60, "clang -g -O2 -flto -fuse-ld=lld"),
        (7002, 60, "clang -g -O2"),  # passes one half of a struct
        (8, 60, "clang++ -x c++ -g -O2"),  # copies no struct that is not read
        # Loads a parameter into the register it names.
        pytest.param(328949755, 230, "clang -g -Os", marks=pytest.mark.slow),
        *(pytest.param(None, 250, command, marks=pytest.mark.slow) for command in COMMANDS),
    ],
)
def test_what_optimisers_make_of_parameters(
    tool: Callable[[str], str], tmp_path: Path, seed: int | None, many: int, command: str
) -> None:
    check(tool, tmp_path, seed, many, command)


def check(
    tool: Callable[[str], str],
    into: Path,
    seed: int | None,
    many: int,
    command: str,
    kind: type[Made] = Made,
    least: float = 0.2,
) -> None:
    """No value of the program of a seed is wrong, and of those at ``least`` such a part is right.
    None stands for the seed of the commit."""
    words = shlex.split(command)
    tool(words[0])
    seed = int(os.environ["LBTRACE_SEED"]) if seed is None else seed
    counts: Counter[str] = Counter()
    program = build(seed, many, words, into, kind)
    wrong = compare(program, [sys.executable, "-m", "lbtrace"], into, counts)
    assert not wrong, f"seed {seed}, {command}: {wrong}"
    assert counts["right"] > least * counts["tried"], f"seed {seed}, {command}: {counts}"
    reasons = {name for name in counts if name.startswith("unreadable")}
    assert not reasons & {"unreadable: None", "unreadable: "}, f"seed {seed}, {command}"


ZIG = f"{sys.executable} -m ziglang cc -fno-sanitize=all"
"""It brings a newer clang with it."""


@pytest.mark.host
@pytest.mark.parametrize(
    ("seed", "many"), [(2, 80), pytest.param(None, 200, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "command",
    [
        *("clang -g -O1", "clang -g -O2 -gdwarf-4", "clang++ -x c++ -g -Os"),
        *(f"{ZIG} -g -O2", "gcc -g -O2"),
    ],
)
def test_parameters_that_are_assigned_to_each_other(
    tool: Callable[[str], str], tmp_path: Path, seed: int | None, many: int, command: str
) -> None:
    """Debug information says where each is after that."""
    check(tool, tmp_path, seed, many, command, Exchanging, least=0.4)

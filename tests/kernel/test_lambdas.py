"""Lambdas that are passed and returned by value show what they captured, or why they cannot."""

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

from tests.kernel import test_cpp_signatures as SIGNATURES

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("g++ -g -O0", "g++ -g -O1", "g++ -g -O2", "clang++ -g -O0", "clang++ -g -O2")


REFERRED = ("int", "double", "Pair", "Copied")

HELPERS = """
inline void key(bool &first, const char *name)
{
	printf(first ? "\\"%s\\": " : ", \\"%s\\": ", name);
	first = false;
}
struct Picky {
	Picky(long a) : a(a) {}
	Picky(const Picky &) = default;
	template <class T> Picky(T &&) : a(-1) {}
	long a;
};
STRUCT(Picky, M(a))
struct HoldsPicky { Picky p; int n; };
STRUCT(HoldsPicky, M(p) M(n))
"""

MORE = {
    "Picky": lambda d: f"Picky({d.randrange(1 << 40)}L)",
    "HoldsPicky": lambda d: f"HoldsPicky{{Picky({d.randrange(1 << 40)}L), 3}}",
}
"""One with a template that is preferred to its own constructors where it is copied."""

COMMON = ("int", "long", "double", "const char *", "Pair", "Mixed", "std::string")


def capture(dice: random.Random, depth: int) -> tuple[list[str], str]:
    """What makes a lambda's captures, and the lambda, which prints them."""
    before, captured, printed = [], [], []
    for n in range(dice.choice([0, 1, 1, 2, 2, 3, 5])):
        name = f"c{n}"
        if depth and dice.random() < 0.15:
            inner, made = capture(dice, depth - 1)
            before.append(f"auto {name} = [&] {{ {' '.join(inner)} return {made}; }}();")
            captured.append(f"{name} = std::move({name})")
            printed.append(f'key(first, "{name}"); {name}();')
            continue
        if dice.random() < 0.2 and depth:
            type = dice.choice(REFERRED)
            before.append(f"static {type} {name} = {SIGNATURES.literal(type, dice)};")
            captured.append(f"&r{n} = {name}")
            printed.append(f'key(first, "r{n}"); address(&r{n});')
            continue
        type = dice.choice((*SIGNATURES.TYPES, *COMMON * 3, *MORE))
        value = MORE[type](dice) if type in MORE else SIGNATURES.literal(type, dice)
        before.append(f"{type} {name} = {value};")
        plain = type not in SIGNATURES.UNCOPIED and dice.random() < 0.6
        captured.append(name if plain else f"{name} = std::move({name})")
        printed.append(f'element(first, "{name}", {name});')
    body = f"bool first = true; (void)first; putchar('{{'); {' '.join(printed)} putchar('}}');"
    return before, f"[{', '.join(captured)}]() {{ {body} }}"


def source(seed: int, many: int) -> str:
    """A program with functions that take and return lambdas, and print what these hold."""
    dice = random.Random(seed)
    lines = [
        '#include "signatures.hh"',
        "static Defaulted defaulted(int a, float b) { Defaulted d; d.a = a; d.b = b; return d; }",
        HELPERS,
    ]
    calls = []
    for number in range(many):
        name = f"traced_{number:03}"
        before, made = capture(dice, 2)
        sides = [dice.choice(COMMON[:-1]) for _ in range(2)]
        values = [f"opaque<{side}>({SIGNATURES.literal(side, dice)})" for side in sides]
        log = f'Log log("{name}"); log("a", a);'
        if dice.random() < 0.4:
            lines.append(
                f'NOINLINE auto {name}({sides[0]} a, {sides[1]} b)\n{{ {log} log("b", b); '
                f'{" ".join(before)} auto made = {made}; printf("}}, \\"result\\": "); made(); '
                f"return made; }}"
            )
            calls.append(f"{{ auto got = {name}({', '.join(values)}); (void)got; }}")
            continue
        lines.append(
            f"template <class F> NOINLINE long {name}({sides[0]} a, F f, {sides[1]} b)\n"
            f'{{ {log} key(log.first, "f"); f(); log("b", b); long r = {dice.randrange(999)}; '
            f"log.result(r); return r; }}"
        )
        lines.append(
            f"static void run_{number}() {{ {' '.join(before)} auto made = {made}; "
            f"{name}({values[0]}, std::move(made), {values[1]}); }}"
        )
        calls.append(f"run_{number}();")
    return "\n".join([*lines, "int main()\n{", *calls, "}\n"])


def plain(value: Any) -> Any:
    """A value with its captures named as in the source: gcc adds underscores."""
    if isinstance(value, dict):
        return {k.removeprefix("__"): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


def run(seed: int, many: int, command: list[str], into: Path, counts: Counter[str]) -> list[str]:
    """The values of a seed's program that are shown wrong."""
    text, program, output = into / "lambdas.cc", into / "lambdas", into / "out.jsonl"
    text.write_text(source(seed, many))
    options = ["-std=c++20", "-w", "-Wno-psabi", f"-I{ROOT}/tests/programs", text, "-o", program]
    subprocess.run([*command, *options], check=True)
    words = ["attach", "--func", "/^(long |auto )?traced_[0-9]+/", "--force", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "lbtrace", *words, "-o", output, "--", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in output.read_text().splitlines()]
    # What is inside of lambdas has no such parameter; nor have clones one that they do not take.
    calls = [
        call
        for call in seen
        if call["type"] == "call"
        and ("." in call["name"] or "a" in [each["name"] for each in call["args"]])
    ]
    for call in calls:
        call["result"] = plain(call["result"])
        for argument in call["args"]:
            argument["value"] = plain(argument["value"])
    truth = [json.loads(line) for line in done.stdout.splitlines()]
    return list(SIGNATURES.compare(calls, truth, counts))


@pytest.mark.host
@pytest.mark.parametrize(
    ("seed", "command"),
    [
        pytest.param(1, "g++ -g -O0", marks=pytest.mark.slow),
        (2, "g++ -g -O2"),
        *(pytest.param(None, command, marks=pytest.mark.slow) for command in COMMANDS),
    ],
)
def test_random_lambdas(
    tool: Callable[[str], str], tmp_path: Path, seed: int | None, command: str
) -> None:
    words = shlex.split(command)
    tool(words[0])
    many = 60 if seed is not None else 250
    seed = int(os.environ["LBTRACE_SEED"]) if seed is None else seed
    counts: Counter[str] = Counter()
    wrong = run(seed, many, words, tmp_path, counts)
    assert not wrong, f"seed {seed}, {command}: {wrong}"
    unknown = counts["unreadable: how it is passed is unknown"]
    assert unknown < 0.1 * counts["tried"], f"seed {seed}, {command}: {counts}"
    assert counts["right"] > 0.5 * counts["tried"], f"seed {seed}, {command}: {counts}"

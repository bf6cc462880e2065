"""Functions are called with random values of types of C++'s library, within each other, and log
them; lbtrace is to show the same, or why it cannot: ``std::optional``, ``std::variant``,
``std::map`` and its kin, ``absl::string_view``."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.kernel import test_cpp_signatures as SIGNATURES

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/programs"


LEAVES = {
    "bool": lambda d: d.choice(["true", "false"]),
    "char": lambda d: f"'{d.choice('abcXYZ019')}'",
    "unsigned char": lambda d: str(d.randrange(256)),
    "short": lambda d: str(d.randrange(-(1 << 15), 1 << 15)),
    "int": lambda d: str(d.randrange(-(1 << 30), 1 << 30)),
    "long": lambda d: f"{d.randrange(-(1 << 62), 1 << 62)}L",
    "double": lambda d: repr(round(d.uniform(-1e6, 1e6), 3)),
    "Pair": lambda d: f"Pair{{{d.randrange(999)}, {d.randrange(-(1 << 40), 1 << 40)}L}}",
    "Small": lambda d: f"Small{{'q', {d.randrange(-999, 999)}}}",
    "std::string": lambda d: f'std::string("{word(d)}")',
    "std::string_view": lambda d: f'std::string_view("{word(d)}")',
    "absl::string_view": lambda d: f'absl::string_view("{word(d)}")',
}
"""How the source writes values of types that are not made of others."""

KEYS = ("char", "unsigned char", "short", "int", "long", "double", "Pair", "std::string")
"""Types that are sorted."""

SHAPES = ("optional", "variant", "map", "set", "multimap", "multiset", "vector")


PATTERN = r"/^traced_[0-9]+(\[abi:cxx11\])?$/"


def word(dice: random.Random) -> str:
    return "".join(dice.choices("abcdef ghi", k=dice.choice([0, 1, 3, 9, 15, 16, 22, 23, 40])))


def random_type(dice: random.Random, depth: int) -> tuple[str, Callable[[], str]]:
    """A type, and what makes literals of it."""
    if not depth or dice.random() < 0.15:
        name = dice.choice([*LEAVES])
        return name, lambda: str(LEAVES[name](dice))
    shape = dice.choice(SHAPES)
    if shape == "variant":
        names = dice.sample([n for n in LEAVES if "view" not in n], dice.randrange(1, 5))
        parts = {name: (lambda n=name: str(LEAVES[n](dice))) for name in names}
        if dice.random() < 0.4:
            inner, make = random_type(dice, depth - 1)
            if "string_view" not in inner and "variant" not in inner:
                parts.setdefault(inner, make)
        name = f"std::variant<{', '.join(parts)}>"

        def variant() -> str:
            number = dice.randrange(len(parts))
            made = [*parts.values()][number]()
            return f"{name}(std::in_place_index<{number}>, {made})"

        return name, variant
    if shape in ("optional", "vector"):
        inner, make = random_type(dice, depth - 1)
        if shape == "vector" and inner == "bool":
            inner, make = "int", lambda: str(LEAVES["int"](dice))
        name = f"std::{shape}<{inner}>"

        def wrapped() -> str:
            if shape == "vector":
                return f"{name}{{{', '.join(make() for _ in range(dice.randrange(4)))}}}"
            return f"{name}(std::in_place, {make()})" if dice.random() < 0.7 else f"{name}()"

        return name, wrapped
    return _tree(dice, shape, depth)


def _tree(dice: random.Random, shape: str, depth: int) -> tuple[str, Callable[[], str]]:
    key = dice.choice(KEYS)
    order = dice.choice(["", "", ", Backwards", ", Turned"]) if key == "int" else ""
    held, make = random_type(dice, depth - 1) if "map" in shape else ("", lambda: "")
    name = f"std::{shape}<{key}{', ' + held if held else ''}{order}>"

    def tree() -> str:
        count = dice.choice([0, 1, 2, 3, 4, 5, 6, 7, 9, 20])
        entries = [f"all.insert({{{LEAVES[key](dice)}, {make()}}});" for _ in range(count)]
        if not held:
            entries = [f"all.insert({LEAVES[key](dice)});" for _ in range(count)]
        erased = "if (!all.empty()) all.erase(all.begin());" if dice.random() < 0.2 else ""
        return f"[&] {{ {name} all; {' '.join(entries)} {erased} return all; }}()"

    return name, tree


def source(seed: int, many: int) -> str:
    """A program that calls ``many`` functions, each of which logs its values."""
    dice = random.Random(seed)
    lines, calls = ['#include "library_values.hh"'], []
    for number in range(many):
        declared, given, logged = [], [], []
        for n in range(dice.choice([1, 1, 2, 3])):
            name, make = random_type(dice, 2)
            form = dice.choice(["{}", "{}", "const {} &", "{} &&"])
            declared.append(f"{form.format(name)} p{n}")
            given.append(f"opaque<{name}>({make()})")
            through = form == "{}" or name not in LEAVES or "str" in name
            logged.append(f'log("p{n}", p{n});' if through else f"(void)p{n};")
        result, make = random_type(dice, 2)
        body = (
            f'Log log("traced_{number}"); {" ".join(logged)} {result} r = {make()}; log.result(r);'
        )
        lines.append(
            f"NOINLINE {result} traced_{number}({', '.join(declared)}) {{ {body} return r; }}"
        )
        calls.append(f"traced_{number}({', '.join(given)});")
    return "\n".join([*lines, "int main() {", *calls, "}\n"])


def build(seed: int, many: int, command: list[str], into: Path) -> Path:
    """The program of a seed."""
    text, program = into / "library.cc", into / "library"
    text.write_text(source(seed, many))
    options = ["-std=c++17", "-w", f"-I{PROGRAMS}", text, "-o", program]
    subprocess.run([*command, *options], check=True)
    return program


COMMANDS = (
    *("g++ -g -O0", "g++ -g -O2", "clang++ -g -O0", "clang++ -g -O2"),
    *("clang++ -g -O0 -stdlib=libc++", "clang++ -g -O2 -stdlib=libc++"),
)


def trace(
    words: list[str], program: Path, into: Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The calls that lbtrace reads back from a capture, and what the program logs of them."""
    capture = into / "library.lbt"
    options = ["attach", "--func", PATTERN, "--force", "--quiet", "-o", capture]
    done = subprocess.run(
        [*words, *options, "--", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    export = [*words, "export", capture, "--format", "jsonl"]
    shown = subprocess.run(export, capture_output=True, text=True, check=True).stdout
    # gcc has its own names for numbers
    named = shown.replace('"short int":', '"short":').replace('"long int":', '"long":')
    seen = [json.loads(line) for line in named.splitlines()]
    return [call for call in seen if call["type"] == "call"], [
        json.loads(line) for line in done.stdout.splitlines()
    ]


def check(words: list[str], program: Path, into: Path, counts: Counter[str]) -> list[str]:
    """What is wrong in a run, or is cut where it was not."""
    calls, truth = trace(words, program, into)
    wrong: list[str] = SIGNATURES.compare(calls, truth, counts)
    for call, reported in zip(calls, truth, strict=True):
        for argument in call["args"]:
            full = reported["args"].get(argument["name"])
            shown, length = argument["value"], argument.get("length")
            if isinstance(full, list) and isinstance(shown, list):
                own = len(shown) if length is None else length
                if own != len(full):
                    wrong.append(f"{call['name']}: {own} elements, not {len(full)}")
                counts["elements"] += len(shown)
    return wrong


@pytest.mark.host
@pytest.mark.parametrize(
    ("seed", "command"),
    [
        (1, "g++ -g -O0"),
        pytest.param(2, "clang++ -g -O2 -stdlib=libc++", marks=pytest.mark.slow),
        *(pytest.param(None, command, marks=pytest.mark.slow) for command in COMMANDS),
    ],
)
def test_random_values(
    tool: Callable[[str], str], tmp_path: Path, seed: int | None, command: str
) -> None:
    words = shlex.split(command)
    tool(words[0])
    many = 25 if seed is not None else 80
    seed = int(os.environ["LBTRACE_SEED"]) if seed is None else seed
    counts: Counter[str] = Counter()
    program = build(seed, many, words, tmp_path)
    wrong = check([sys.executable, str(ROOT / "tests/readback.py")], program, tmp_path, counts)
    assert not wrong, f"seed {seed}, {command}: {wrong}"
    assert counts["right"] > 0.7 * counts["tried"], f"seed {seed}, {command}: {counts}"
    assert counts["elements"] > 0.2 * many, f"seed {seed}, {command}: {counts}"


NEWER_TEXTS = """
#include <memory>
#include <string>
#include <vector>
extern "C" __attribute__((noinline)) unsigned long traced_1(
    std::string text, const std::string &other, std::vector<std::string> all)
{
    return text.size() + other.size() + all.size();
}
int main() { return traced_1("short", "a text that is too long for its record", {"x"}) != 44; }
"""


@pytest.mark.host
@pytest.mark.slow
def test_texts_of_newer_libcxx(tmp_path: Path) -> None:
    """From version 20 on they lie in a record without a name."""
    pytest.importorskip("ziglang")  # it brings libc++ with it
    text, program = tmp_path / "x.cc", tmp_path / "x"
    text.write_text(NEWER_TEXTS)
    zig = [sys.executable, "-m", "ziglang", "c++", "-g", "-O0"]
    subprocess.run([*zig, text, "-o", program], check=True)
    lbtrace = [sys.executable, str(ROOT / "tests/readback.py"), "attach", "--func", "traced_1"]
    chosen = subprocess.run(
        [*lbtrace, "--where", 'text == "short"', "--", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not chosen.returncode
    assert "1 call in 1 thread" in chosen.stderr
    done = subprocess.run(
        [*lbtrace, "--format", "jsonl", "-o", tmp_path / "x.jsonl", "--", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    (call,) = [record for record in records if record["type"] == "call"]
    shown = [argument["value"] for argument in call["args"]]
    assert shown == ["short", "a text that is too long for its record", ["x"]]


PROGRAM = """
#include "library_values.hh"
NOINLINE long traced_1(std::map<int, int> counts, std::optional<int> most,
                       const std::variant<int, std::string> &either, absl::string_view name)
{
    Log log("traced_1");
    log("counts", counts), log("most", most), log("either", either), log("name", name);
    log.result(counts.size());
    return counts.size();
}
int main()
{
    for (int n = 0; n < 6; n++) {
        std::map<int, int> counts;
        for (int k = 0; k < n; k++)
            counts[k] = 10 * k;
        std::optional<int> most = n % 2 ? std::optional<int>(n) : std::nullopt;
        std::variant<int, std::string> either = n;
        if (n > 3)
            either = "text";
        traced_1(counts, most, either, n > 2 ? "long name" : "name");
    }
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`PROGRAM`, compiled once by each command."""
    into = tmp_path_factory.mktemp("library")
    (into / "x.cc").write_text(PROGRAM)

    @cache
    def compile(command: str) -> Path:
        program = into / command.partition(" ")[0]
        words = [*shlex.split(command), "-std=c++17", "-w", f"-I{PROGRAMS}", into / "x.cc"]
        subprocess.run([*words, "-o", program], check=True)
        return program

    return compile


@pytest.mark.host
@pytest.mark.parametrize("command", ["g++ -g -O0", "clang++ -g -O0 -stdlib=libc++"])
@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--arg", "counts.size", "--arg", "either.index"], [[n, int(n > 3)] for n in range(6)]),
        (["--arg", "most", "--where", "most.has_value"], [[1], [3], [5]]),
        (["--arg", "n=counts.size + 1", "--where", "counts.size > 3"], [[5], [6]]),
        (["--arg", "either", "--where", "either.index == 1"], [[{"string": "text"}]] * 2),
        (["--arg", "name", "--where", 'name startswith "long"'], [["long name"]] * 3),
        (["--arg", "counts", "--where", "counts.size == 2"], [[[[0, 0], [1, 10]]]]),
    ],
)
def test_expressions(
    tool: Callable[[str], str],
    made: Callable[[str], Path],
    tmp_path: Path,
    command: str,
    options: list[str],
    shown: list[Any],
) -> None:
    tool(command.partition(" ")[0])
    program = made(command)
    lbtrace = [sys.executable, str(ROOT / "tests/readback.py"), "attach", "--format", "jsonl"]
    done = subprocess.run(
        [*lbtrace, "--func", "traced_1", *options, "-o", tmp_path / "x.jsonl", "--", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    assert [[argument["value"] for argument in call["args"]] for call in calls] == shown


LIBRARIES = ("libstdc++", "libc++")
COMPLETE = ("g++", *(f"clang++ -fstandalone-debug -stdlib={library}" for library in LIBRARIES))
DECLARED_ONLY = """
#include <cstdio>
#include <vector>
struct Later;
extern std::vector<Later> none, some;
extern "C" __attribute__((noinline)) bool traced_1(const std::vector<Later> &all)
{
    std::puts(all.empty() ? "none" : "some");
    return all.empty();
}
int main() { return traced_1(none) + traced_1(some) - 1; }
"""
DEFINED = """
#include <vector>
struct Later { char name[40]; };
std::vector<Later> none, some(3);
"""


@pytest.mark.host
@pytest.mark.parametrize("command", COMPLETE)
def test_elements_that_are_only_declared(
    tool: Callable[[str], str], tmp_path: Path, command: str
) -> None:
    words = shlex.split(command)
    tool(words[0])
    for name, text, level in (("x", DECLARED_ONLY, "-g"), ("y", DEFINED, "-g0")):
        (tmp_path / f"{name}.cc").write_text(text)
        subprocess.run([*words, level, "-c", f"{name}.cc"], cwd=tmp_path, check=True)
    subprocess.run([*words, "x.o", "y.o", "-o", "x"], cwd=tmp_path, check=True)
    lbtrace = [sys.executable, str(ROOT / "tests/readback.py"), "attach", "--func", "traced_1"]
    run = [*lbtrace, "-o", tmp_path / "x.txt", "--", tmp_path / "x"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "none\nsome\n"
    shown = (tmp_path / "x.txt").read_text()
    assert "traced_1(all=[]) = true" in shown
    assert "traced_1(all=<elements of a type that is only declared>) = false" in shown

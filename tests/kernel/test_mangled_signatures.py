"""Functions of C++ without debug information: their names tell types, and the values are those that
the program logs."""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernel import test_cpp_signatures as signatures
from tests.kernel.test_cpp_signatures import (
    FUNCTIONS,
    INTEGERS,
    Made,
    build,
    differing,
    pointer_in,
    referred,
    run,
)

USUAL = (
    *(*INTEGERS, "bool", "char", "double", "const char *", "int *", "void *", "Function"),
    *("std::string", "std::string", "std::string_view", "std::vector<int>", "Copied", "Color"),
    *("std::vector<std::string>", "std::unique_ptr<int>", "std::shared_ptr<int>", "long double"),
)
"""Types that programs pass; how a class or an enumeration of theirs is passed is not in a name."""

COMMANDS = tuple(
    f"{compiler} {optimised}"
    for compiler in ("g++", "clang++", "clang++ -stdlib=libc++")
    for optimised in ("-O0", "-O1", "-O2", "-O3", "-Os")
)

NUMBER = re.compile(r"(?:traced|Own)_(\d+)")


def declared_counts(seed: int, many: int) -> dict[str, int]:
    """How many parameters each function of the program has, by its number."""
    dice = random.Random(seed)
    found = {}
    for number in range(many):
        made = Made(number, dice)
        made.source()
        found[str(number)] = len(made.declared)
    return found


def compare(
    calls: list[dict[str, Any]],
    truth: list[dict[str, Any]],
    declared: dict[str, int],
    counts: Counter[str],
) -> list[str]:
    """Counts the arguments of a run by what became of them, and returns the wrong ones."""
    wrong, unread, seen = [], dict[str, Any](), iter(calls)
    for reported in truth:
        if "unread" in reported:
            unread[reported["unread"]] = reported["value"]
            continue
        call = next(seen)
        assert reported["name"].strip("~") in call["name"], (call, reported)
        number = NUMBER.search(call["name"])
        many = declared[number[1]] if number and "~" not in call["name"] else 0
        logged, unread = {**unread, **reported["args"]}, {}
        read = [each["name"] for each in call["args"]]
        if "arg0" in read or (many and not read):  # as many as the code reads
            counts["untyped"] += 1
            continue
        counts["typed"] += 1
        hidden = len(call["args"]) - many
        assert hidden >= 0, call
        places = {f"p{n}": each for n, each in enumerate(call["args"][hidden:])}
        if hidden and call["args"][0]["name"] == "this":
            places["this"] = call["args"][0]
        for name, shown in places.items():
            value = referred(shown, name, logged)
            right = not differing(shown["value"], pointer_in(value))
            code = value in FUNCTIONS and str(shown["value"]).startswith("0x")
            kind = "unreadable" if shown["value"] is None else "right" if right or code else "wrong"
            counts[kind] += 1
            if kind == "wrong":
                wrong.append(f"{call['name']} {name}: {shown['value']!r}, but is {value!r}")
    return wrong


@pytest.mark.host
@pytest.mark.parametrize(
    ("seed", "command", "usual"),
    [
        (1, "g++ -O0", True),
        (2, "g++ -O2", True),
        (3, "clang++ -O2", True),
        *(
            pytest.param(None, command, usual, marks=pytest.mark.slow)
            for command in COMMANDS
            for usual in (True, False)
        ),
    ],
)
def test_random_signatures(
    tool: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int | None,
    command: str,
    usual: bool,
) -> None:
    if usual:
        monkeypatch.setattr(signatures, "TYPES", USUAL)
    words = shlex.split(command)
    tool(words[0])
    many = 60 if seed is not None else 250
    seed = int(os.environ["LBTRACE_SEED"]) if seed is None else seed
    program = build(seed, many, words, tmp_path)
    counts: Counter[str] = Counter()
    calls, truth = run([sys.executable, "-m", "lbtrace"], program, tmp_path)
    wrong = compare(calls, truth, declared_counts(seed, many), counts)
    assert not wrong, f"seed {seed}, {command}: {wrong}"
    # most classes here have one method, which alone does not tell what comes before its parameters
    assert counts["typed"] >= counts["untyped"] * usual / 2, f"seed {seed}, {command}: {counts}"
    assert counts["right"], f"seed {seed}, {command}: {counts}"
    print(counts)


def test_a_number_of_two_is_no_object(lbtrace: Callable[..., Any], tmp_path: Path) -> None:
    """What a function computes into half of a register is not where its result was put."""
    source, program = tmp_path / "add.cc", tmp_path / "add"
    source.write_text(
        "__attribute__((noinline)) int add(int one, int other) { return one + other; }\n"
        "int main(int count, char **) { return add(40, count) != 43; }\n"
    )
    subprocess.run(["g++", "-O2", source, "-o", program], check=True)
    assert "add(40, 3) = 43" in lbtrace("attach", "--func", "add", "--", program, 1, 2).stdout

"""Functions of Rust with random signatures print their values; lbtrace is to show the same.

Rust promises nobody how it passes values, so only its programs can tell.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from math import isclose
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"

INTEGERS = {
    f"{sign}{name}": (sign == "i", bits)
    for name, bits in {"8": 8, "16": 16, "32": 32, "64": 64, "128": 128, "size": 64}.items()
    for sign in "iu"
}
GENERIC = (
    *(f"Option<{t}>" for t in ("i32", "u8", "u64", "bool", "char", "&str", "String", "f64")),
    *(f"Option<{t}>" for t in ("Pair", "Color", "i128", "Small", "Mixed")),
    *("Result<i32, u8>", "Result<String, i64>", "Result<u8, Color>", "Result<i128, u128>"),
    *("Result<(), Color>", "Result<(), u8>", "Result<(), i32>", "Result<bool, Color>"),
    *("(i32, u8)", "(u8, f64)", "(i64, i64, i8)", "(&str, u16)", "(u128, u8)", "(i128, i128)"),
    *("(Word, u16)", "Option<Word>", "Option<Wrapped>", "(Meters, u8)", "(Clear, f32)"),
    *("Vec<i32>", "&[i64]", "&[u8]", "[i32; 3]", "[u8; 5]", "[u16; 2]", "[f64; 2]"),
)
PLAIN = (
    "bool char f32 f64 &str String Pair Mixed Small Large Reals Triple Named Wrapped Color Shape"
    " Real Wide Word Clear Packed Aligned Meters"
)
TYPES = (*INTEGERS, *PLAIN.split(), *GENERIC)


def literal(type: str, dice: random.Random) -> str:
    """A value as the source writes it."""
    number, real = dice.randrange(-100, 100), round(dice.uniform(-1e4, 1e4), 3)
    word = "".join(dice.choices("abcdef ghi", k=dice.randrange(12)))
    if type in INTEGERS:
        signed, bits = INTEGERS[type]
        lowest, highest = (
            (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        )
        value = dice.choice([lowest, highest, dice.randint(lowest, highest), abs(number)])
        return f"{type}::MIN" if value == lowest else f"({value}{type})"
    if type in GENERIC:
        return composed(type, dice)
    return {
        "()": "()",
        "bool": dice.choice(["true", "false"]),
        "char": dice.choice(["'a'", "'é'", "'€'", "'\\''"]),
        "f32": f"({real}f32)",
        "f64": f"({real}f64)",
        "&str": f'"{word}"',
        "String": f'"{word}".to_string()',
        "Pair": f"Pair {{ x: {number}, y: {number * 3} }}",
        "Mixed": f"Mixed {{ d: {real}, l: {number} }}",
        "Small": f"Small {{ c: {number}, s: {number + 200} }}",
        "Large": f"Large {{ v: [{number}, 5], w: {number} }}",
        "Reals": f"Reals {{ a: {real}, b: 2.5 }}",
        "Triple": f"Triple {{ x: {real}, y: -1.25, z: {number}.0 }}",
        "Named": f'Named {{ name: "{word}".to_string(), age: {number + 100} }}',
        "Wrapped": f"Wrapped({number + 100})",
        "Meters": f"Meters({real})",
        "Real": f"Real {{ a: {real} }}",
        "Clear": f"Clear {{ a: {real} }}",
        "Wide": f"Wide {{ a: {number * 10**30} }}",
        "Word": f"Word {{ a: {number + 100} }}",
        "Packed": f"Packed {{ a: {number + 100}, b: {number + 1000} }}",
        "Aligned": f"Aligned {{ a: {number + 100} }}",
        "Color": "Color::" + dice.choice(["Red", "Green", "Blue"]),
        "Shape": dice.choice(
            ["Shape::Dot", f"Shape::Circle({real})", f"Shape::Rect {{ w: {number + 100}, h: 7 }}"]
        ),
    }[type]


def composed(type: str, dice: random.Random) -> str:
    """A value that holds others."""
    inside = type[type.find("<") + 1 : -1].split(", ")
    if type.startswith("Option<"):
        return dice.choice(["None", f"Some({literal(inside[0], dice)})"])
    if type.startswith("Result<"):
        way, held = dice.choice(list(zip(("Ok", "Err"), inside, strict=True)))
        return f"{way}({literal(held, dice)})"
    if type.startswith("("):
        return "(" + ", ".join(literal(part, dice) for part in type[1:-1].split(", ")) + ")"
    if type.startswith("["):
        part, count = type[1:-1].split("; ")
        return "[" + ", ".join(literal(part, dice) for _ in range(int(count))) + "]"
    start, part = ("vec![", inside[0]) if type.startswith("Vec") else ("&[", type[2:-1])
    return start + ", ".join(literal(part, dice) for _ in range(dice.randrange(5))) + "]"


CONVENTIONS = ("fn", "fn", 'pub extern "C" fn', '#[no_mangle] pub extern "C" fn')
"""Rust's own, and that of C."""


def source(seed: int, many: int) -> str:
    """A program that calls ``many`` functions, each of which prints its values."""
    dice = random.Random(seed)
    lines = [(PROGRAMS / name).read_text() for name in ("signatures.rs", "black_box.rs")]
    calls = []
    for n in range(many):
        types = dice.choices(TYPES, k=dice.randrange(1, 8))
        result = dice.choice([t for t in TYPES if not t.startswith("&[")])
        head = dice.choice(CONVENTIONS)
        returned = result.replace("&str", "&'static str")
        formals = ", ".join(f"p{i}: {type}" for i, type in enumerate(types))
        reported = "[" + ", ".join(f"p{i}.show()" for i in range(len(types))) + '].join(", ")'
        form = f'"{{{{\\"name\\": \\"traced_{n}\\", \\"args\\": [{{}}], \\"result\\": {{}}}}}}"'
        lines.append(
            f"#[inline(never)]\n{head} traced_{n}({formals}) -> {returned} {{\n"
            f"\tlet r: {returned} = black_box({literal(result, dice)});\n"
            f"\tprintln!({form}, {reported}, r.show());\n\tr\n}}\n"
        )
        given = ", ".join(f"black_box({literal(type, dice)})" for type in types)
        read = "black_box" if dice.randrange(3) else "drop"  # what is unread may not be returned
        calls.append(f"\t{read}(traced_{n}({given}));\n")
    return "\n".join([*lines, "fn main() {\n" + "".join(calls) + "}\n"])


def agree(shown: Any, reported: Any) -> bool:
    """Whether what is shown is true, as far as it is readable."""
    if shown is None:
        return True
    if isinstance(reported, dict):
        return list(shown) == list(reported) and all(
            agree(shown[key], reported[key]) for key in reported
        )
    if isinstance(reported, list) and isinstance(shown, str):  # bytes
        return list(shown.encode("utf-8", "surrogateescape")) == reported
    if isinstance(reported, list):
        return len(shown) == len(reported) and all(map(agree, shown, reported))
    if isinstance(reported, float):
        return isclose(shown, reported, rel_tol=1e-6)
    return bool(shown == reported and type(shown) is type(reported))


@pytest.mark.parametrize(
    ("seed", "level"),
    [
        (1, "0"),
        (2, "2"),
        *(pytest.param(n, "s02"[n % 3], marks=pytest.mark.slow) for n in range(3, 9)),
    ],
)
def test_random_signatures(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    seed: int,
    level: str,
) -> None:
    text, program = tmp_path / "signatures.rs", tmp_path / "signatures"
    text.write_text(source(seed, 80))
    options = ["-g", "-A", "warnings", "-C", f"opt-level={level}", text, "-o", program]
    subprocess.run([tool("rustc"), *options], check=True)
    truth = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    calls = traced(program, r"/^(signatures::)?traced_\d+$/")
    readable = whole = 0
    for call, line in zip(calls, truth.splitlines(), strict=True):
        reported = json.loads(line)
        values = [*(a["value"] for a in call["args"]), call["result"]]
        assert call["name"].rpartition(":")[2] == reported["name"]
        for shown, value in zip(values, [*reported["args"], reported["result"]], strict=True):
            assert agree(shown, value), (call, reported)
            readable += shown is not None
            whole += 1
    assert readable > 0.5 * whole

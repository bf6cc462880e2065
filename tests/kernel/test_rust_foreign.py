"""Functions of Rust that have the convention of C."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Compile = Callable[[str, str], Path]
Traced = Callable[[Path, str], list[dict[str, Any]]]

PROGRAM = """\
use std::hint::black_box as keep;

#[repr(C)] pub struct Large(u64, u64, u64);
#[repr(C)] pub struct Pair(u64, u64);

#[inline(never)] #[no_mangle]
pub extern "C" fn plain(n: u32, x: Large, m: u32, r: u64) -> u8 { keep((&n, &x.0, &m, &r)); 1 }
#[inline(never)]
pub extern "C" fn mangled(n: u32, x: Large, m: u32, s: Pair, r: u64) -> u8 {
    keep((&n, &x.1, &m, &s.0, &r));
    1
}
#[inline(never)]
pub fn own(n: u32, x: Large, m: u32, s: Pair, r: u64) -> u8 {
    keep((&n, &x.1, &m, &s.0, &r));
    1
}

fn main() {
    plain(1, Large(2, 3, 4), 5, 7);
    mangled(1, Large(2, 3, 4), 5, Pair(8, 9), 7);
    own(1, Large(2, 3, 4), 5, Pair(8, 9), 7);
}
"""

RIGHT = {"n": 1, "x": [2, 3, 4], "m": 5, "s": [8, 9], "r": 7}


@pytest.mark.parametrize("level", ["0", "1", "3"])
def test_structs_by_value(rust: Compile, traced: Traced, tmp_path: Path, level: str) -> None:
    source = tmp_path / "made.rs"
    source.write_text(PROGRAM)
    calls = traced(rust(str(source), level), "/(^|made::)(plain|mangled|own)$/")
    assert len(calls) == 3
    for call in calls:
        for argument in call["args"]:
            assert argument["value"] in (None, RIGHT[argument["name"]]), call
        if level == "0":
            assert all(argument["value"] is not None for argument in call["args"]), call


THREE = """\
use std::hint::black_box as keep;

#[derive(Clone, Copy)] pub struct Three(u64, u32, bool);

#[inline(never)] #[no_mangle]
pub fn own(p: u8, q: i64, r: i64, s: u32, t: i64, x: Three) -> Three {
    keep(&p); keep(&q); keep(&r); keep(&s); keep(&t);
    x
}
#[inline(never)] #[no_mangle]
pub fn alone(p: u8) -> Three { keep(&p); Three(15, 908, true) }
#[inline(never)] #[no_mangle]
pub extern "C" fn foreign(p: u8, q: i64, r: i64, s: u32, t: i64, x: Three) -> Three {
    keep(&p); keep(&q); keep(&r); keep(&s); keep(&t);
    x
}

fn main() {
    let x = Three(15, 908, true);
    keep(own(1, 2, 3, 4, 5, x));
    keep(alone(1));
    keep(foreign(1, 2, 3, 4, 5, x));
}
"""


@pytest.mark.parametrize("level", ["0", "2", "s", "z"])
def test_structs_in_memory(rust: Compile, traced: Traced, tmp_path: Path, level: str) -> None:
    """Rust's own convention has a pointer where that of C has a copy: on the caller's stack."""
    source = tmp_path / "made.rs"
    source.write_text(THREE)
    right = {"p": 1, "q": 2, "r": 3, "s": 4, "t": 5, "x": [15, 908, True]}
    calls = traced(rust(str(source), level), "/^(own|alone|foreign)$/")
    assert len(calls) == 3
    for call in calls:
        for argument in call["args"]:
            assert argument["value"] in (None, right[argument["name"]]), call
        assert call["result"] in (None, right["x"]), call
        if call["name"] != "foreign" or level == "0":
            assert call["result"] == right["x"]
            assert all(argument["value"] is not None for argument in call["args"]), call


KINDS = {
    "u64": "",
    "i32": "",
    "u8": "",
    "f64": "",
    "&str": "",
    "u128": "",
    "Pair": "#[repr(C)] pub struct Pair(pub u64, pub u64);",
    "Halves": "#[repr(C)] pub struct Halves(pub u32, pub i32);",
    "Mixed": "#[repr(C)] pub struct Mixed(pub f64, pub u64);",
    "Bytes": "#[repr(C)] pub struct Bytes(pub u8, pub u8, pub u16);",
    "Three": "#[repr(C)] pub struct Three(pub u64, pub u32, pub u8);",
    "Large": "#[repr(C)] pub struct Large(pub u64, pub u32, pub u64);",
    "Option<u32>": "",
}


def literal(kind: str, dice: random.Random) -> tuple[str, Any]:
    """A value in Rust, and as lbtrace writes it."""
    bits = {"u64": 64, "u32": 32, "u16": 16, "u8": 8, "u128": 128}
    if kind in bits:
        number = dice.getrandbits(bits[kind])
        return f"{number}{kind}", number
    if kind == "i32":
        number = dice.randrange(-1 << 31, 1 << 31)
        return f"({number}i32)", number
    if kind == "f64":
        real = dice.randrange(4000) / 4
        return f"{real}f64", real
    if kind == "&str":
        text = "".join(dice.choices("abcd", k=dice.randrange(1, 9)))
        return f'"{text}"', text
    if kind == "Option<u32>":
        written, value = literal("u32", dice)
        return f"Some({written})", {"Some": value}
    held = KINDS[kind].partition("(C)")[2].partition("(")[2].removesuffix(");")
    members = [literal(each.removeprefix("pub "), dice) for each in held.split(", pub ")]
    written = ", ".join(text for text, _ in members)
    return f"{kind}({written})", [value for _, value in members]


def random_program(seed: int, count: int) -> tuple[str, dict[str, dict[str, Any]]]:
    """A program of functions of both conventions, and what each is called with."""
    dice = random.Random(seed)
    lines = ["#![allow(warnings)]", "use std::hint::black_box as keep;", *KINDS.values()]
    calls, truth = [], {}
    for n in range(count):
        kinds = [*dice.choices(list(KINDS), k=dice.randrange(1, 9)), "u64"]
        returned = dice.choice(list(KINDS))
        head = dice.choice(['pub extern "C" fn', '#[no_mangle] pub extern "C" fn', "pub fn"])
        formals = ", ".join(f"p{i}: {kind}" for i, kind in enumerate(kinds))
        result, value = literal(returned, dice)
        returned = returned.replace("&", "&'static ")
        kept = "".join(f"keep(&p{i});" for i in range(len(kinds)) if dice.random() < 0.8)
        kept += "keep(1);"  # or LLVM removes the call
        lines.append(f"#[inline(never)] {head} t{n}({formals}) -> {returned} {{{kept} {result}}}")
        values = [literal(kind, dice) for kind in kinds]
        calls.append(f"keep(t{n}({', '.join(f'keep({text})' for text, _ in values)}));")
        truth[f"t{n}"] = {f"p{i}": each for i, (_, each) in enumerate(values)} | {"": value}
    lines.append("fn main() {" + "\n".join(calls) + "}")
    return "\n".join(lines), truth


@pytest.mark.parametrize(
    ("seed", "level"),
    [
        (1, "0"),
        (2, "2"),
        (3, "s"),
        *(pytest.param(n, "0123sz"[n % 6], marks=pytest.mark.slow) for n in range(4, 16)),
    ],
)
def test_random_signatures(
    rust: Compile, traced: Traced, tmp_path: Path, seed: int, level: str
) -> None:
    source = tmp_path / "made.rs"
    text, truth = random_program(seed, 60)
    source.write_text(text)
    calls = traced(rust(str(source), level), r"/\bt\d+$/")
    assert len(calls) == len(truth)
    known = whole = 0
    for call in calls:
        right = truth[call["name"].rpartition(":")[2]]
        shown = {each["name"]: each["value"] for each in call["args"]} | {"": call["result"]}
        for name, value in shown.items():
            whole += 1
            known += value is not None
            assert _agrees(value, right[name]), (call, right)
    assert known > (0.85 * whole if level == "0" else 0)


def _agrees(shown: Any, right: Any) -> bool:
    """Whether what is shown is true, as far as it is known."""
    if shown is None or shown == right:
        return True
    if isinstance(shown, list):
        return len(shown) == len(right) and all(map(_agrees, shown, right))
    if isinstance(shown, dict):
        return shown.keys() == right.keys() and all(_agrees(shown[k], right[k]) for k in right)
    return False

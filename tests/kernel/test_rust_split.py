"""Optimised functions of Rust to which parts of their arguments are not passed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Compile = Callable[[str, str], Path]
Traced = Callable[[Path, str], list[dict[str, Any]]]

PROGRAM = """\
use std::hint::black_box as keep;

static WORDS: [&str; 3] = ["one", "three", "seven77"];

// The length alone is passed, in the last register: the tag moves to the first word of the stack.
#[inline(never)]
fn moved(a: u64, b: u64, c: u64, d: u64, e: u64, s: &'static str, tag: u64) -> u64 {
    let r = a + b * 3 + c * 5 + d * 7 + e * 9 + s.len() as u64 + tag;
    if r > 1_000_000 { println!("{}", r); }
    r
}

// The same, where the length is passed in a register in which the convention has the pointer.
#[inline(never)]
fn early(s: &'static str, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, tag: u64) -> u64 {
    let r = a + b * 3 + c * 5 + d * 7 + e * 9 + s.len() as u64 + tag + f * 11;
    if r > 1_000_000 { println!("{}", r); }
    r
}

// All places are as the convention has them, but nothing sets those of the pointers.
#[inline(never)]
fn kept(a: i32, b: i128, s: &'static str, t: &'static str, tag: u64, big: u64) -> u64 {
    let mut r = (b as u64).wrapping_add(tag.wrapping_mul(93)) ^ a as u64 ^ big.rotate_left(9);
    for i in 0..s.len() as u64 { r = keep(r ^ i).wrapping_mul(t.len() as u64 | 1); }
    if r == 77 { println!("{}", t.len()); }
    r
}

// Everything is passed and used.
#[inline(never)]
fn whole(a: u64, b: u64, c: u64, d: u64, e: u64, s: &'static str, tag: u64) -> u64 {
    keep((&a, &b, &c, &d, &e, &s, &tag));
    a
}

fn main() {
    let k = std::env::args().count() as u64;
    for n in 0..3 {
        let (x, s) = (keep(n), keep(WORDS[n as usize]));
        keep(moved(x, x + k, x + 2, x * k, x + 5, s, x + 9));
        keep(early(s, x, x + k, x + 2, x * k, x + 5, x + 6, x + 9));
        keep(kept(-7, x as i128 - 2, s, s, x + 9, x + 1000));
        let called: fn(i32, i128, &'static str, &'static str, u64, u64) -> u64 = keep(kept);
        keep(called(-7, x as i128 - 2, s, s, x + 9, x + 1000));
        keep(whole(x, x + k, x + 2, x * k, x + 5, s, x + 9));
    }
}
"""

WORDS = ("one", "three", "seven77")


def right(n: int) -> dict[str, dict[str, Any]]:
    """What the program passes in its round ``n``."""
    numbers = dict(zip("abcde", (n, n + 1, n + 2, n, n + 5), strict=True))
    moved = numbers | {"s": WORDS[n], "tag": n + 9}
    kept = {"a": -7, "b": n - 2, "s": WORDS[n], "t": WORDS[n], "tag": n + 9, "big": n + 1000}
    return {"moved": moved, "early": moved | {"f": n + 6}, "kept": kept, "whole": moved}


@pytest.mark.parametrize("level", ["1", "3", "s"])
def test_parts_not_passed(rust: Compile, traced: Traced, tmp_path: Path, level: str) -> None:
    source = tmp_path / "split.rs"
    source.write_text(PROGRAM)
    calls = traced(rust(str(source), level), "/split::(moved|early|kept|whole)$/")
    seen: dict[str, int] = {}
    for call in calls:
        name = call["name"].rpartition("::")[2]
        seen[name] = seen.get(name, 0) + 1
        passed = right((seen[name] - 1) // (2 if name == "kept" else 1))[name]
        for argument in call["args"]:
            assert argument["value"] in (None, passed[argument["name"]]), call
        known = {each["name"] for each in call["args"] if each["value"] is not None}
        if name in ("whole", "moved"):
            unread = set() if name == "whole" else {"s"}
            assert known == passed.keys() - unread, call
        if name == "kept":
            assert {"tag", "big"} <= known, call
    assert seen == {"moved": 3, "early": 3, "kept": 6, "whole": 3}

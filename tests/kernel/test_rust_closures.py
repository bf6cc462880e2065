"""Arguments of Rust's closures: what they capture is passed before them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Compile = Callable[[str, str], Path]
Traced = Callable[[Path, str], list[dict[str, Any]]]

PROGRAM = """\
use std::hint::black_box as keep;

type Called = Box<dyn Fn(u64, u32) -> u64>;
fn shared(k: u32) -> Called { Box::new(move |a: u64, b: u32| { keep((k, &a, &b)); a }) }
fn counting(mut k: u32) -> Box<dyn FnMut(u64, u32) -> u64> {
    Box::new(move |a: u64, b: u32| { k += 1; keep((k, &a, &b)); a })
}
fn moved(k: u32) -> Box<dyn FnOnce(u64, u32) -> u64> {
    let s = String::from("abc");
    Box::new(move |a: u64, b: u32| { keep((k, &a, &b)); drop(s); a })
}
fn pair(s: Box<u8>, t: Box<u8>) -> impl FnOnce(u64, u32) -> u64 {
    move |a: u64, b: u32| { keep((&a, &b)); drop(s); drop(t); a }
}
fn float(s: f64, t: String) -> impl FnOnce(u64, u32) -> u64 {
    move |a: u64, b: u32| { keep((&a, &b, s)); drop(t); a }
}
#[inline(never)]
fn called<F: Fn(u64, u32) -> u64>(f: F) -> u64 { f(keep(10), keep(11)) }
#[inline(never)]
fn called_once<F: FnOnce(u64, u32) -> u64>(f: F) -> u64 { f(keep(10), keep(11)) }

fn main() {
    keep(keep(shared(3))(10, 11));
    keep(keep(counting(3))(10, 11));
    keep(keep(moved(3))(10, 11));
    keep(pair(Box::new(1), Box::new(2))(10, 11));
    keep(float(1.5, String::new())(10, 11));
    let (q, r, s) = (keep(5u64), keep(6u64), keep(String::from("x")));
    keep(called(|a, b| { keep((&a, &b)); a + 0 * q }));
    keep(called(|a, b| { keep((&a, &b)); a + 0 * q * r }));
    keep(called(|a, b| { keep((&a, &b)); a }));
    keep(called_once(|a, b| { keep((&a, &b, &s)); a + 0 * q }));
    keep(called_once(move |a, b| { keep((&a, &b)); drop(s); a }));
}
"""

RIGHT = {"a": 10, "b": 11}


@pytest.mark.parametrize("level", ["0", "3", "s"])
def test_arguments_of_closures(rust: Compile, traced: Traced, tmp_path: Path, level: str) -> None:
    source = tmp_path / "made.rs"
    source.write_text(PROGRAM)
    calls = traced(rust(str(source), level), "/^made::.*closure/")
    assert calls
    for call in calls:
        values = {a["name"]: a["value"] for a in call["args"] if a["name"] in RIGHT}
        assert all(value in (None, RIGHT[name]) for name, value in values.items()), call
    if level == "0":
        known = [
            c for c in calls if RIGHT.items() <= {a["name"]: a["value"] for a in c["args"]}.items()
        ]
        assert len(known) >= 5, calls

"""Functions of Rust that have the convention of C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Compile = Callable[[str, str], Path]
Traced = Callable[[Path, str], list[dict[str, Any]]]

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


@pytest.mark.parametrize("level", ["0", "2", "z"])
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


PACKED = """\
use std::hint::black_box as keep;

#[repr(C, packed)] #[derive(Clone, Copy)] pub struct Head { kind: u8, len: u32 }

#[inline(never)] #[no_mangle]
pub fn own(kind: u8, len: u32) -> Head { keep(&kind); Head { kind, len: keep(len) } }
#[inline(never)] #[no_mangle]
pub fn of_own(n: u32, head: Head) -> u32 { keep(&head); keep(&n); n + head.len }
#[inline(never)] #[no_mangle]
pub extern "C" fn foreign(kind: u8, len: u32) -> Head { keep(&kind); Head { kind, len: keep(len) } }
#[inline(never)] #[no_mangle]
pub extern "C" fn of_foreign(head: Head, n: u32) -> u32 { keep(&head); keep(&n); n + head.len }

fn main() {
    keep(of_own(8, keep(own(3, 77))));
    keep(of_foreign(keep(foreign(3, 77)), 8));
}
"""


@pytest.mark.parametrize("level", ["0", "2", "z"])
def test_packed_structs(rust: Compile, traced: Traced, tmp_path: Path, level: str) -> None:
    """Rust's own convention has them in a register, that of C in memory, however small."""
    source = tmp_path / "made.rs"
    source.write_text(PACKED)
    head = {"kind": 3, "len": 77}
    right = {"kind": 3, "len": 77, "n": 8, "head": head}
    calls = traced(rust(str(source), level), "/^(of_)?(own|foreign)$/")
    assert [call["name"] for call in calls] == ["own", "of_own", "foreign", "of_foreign"]
    for call in calls:
        unseen = (None,) if call["name"].endswith("foreign") and level != "0" else ()
        for argument in call["args"]:
            assert argument["value"] in (*unseen, right[argument["name"]]), call
        result = 85 if call["name"].startswith("of_") else head
        assert call["result"] in (*unseen, result), call


COPIED = """\
use std::hint::black_box as keep;

#[repr(C)] #[derive(Clone, Copy, Debug)] pub struct Area { x: i64, y: i64, w: i64, h: i64 }

#[inline(never)] #[no_mangle]
pub extern "C" fn printed(r: Area) -> i64 { println!("{r:?}"); r.w * r.h }
#[inline(never)] #[no_mangle]
pub extern "C" fn grown(r: Area, by: i64) -> Area {
    println!("{r:?}");
    Area { x: r.x - by, y: r.y - by, w: r.w + by, h: r.h + by }
}
#[inline(never)] #[no_mangle]
pub extern "C" fn unread(n: i32, _r: Area, s: i32) -> i32 { keep(n) + keep(s) }

fn main() {
    let r = keep(Area { x: 1, y: 2, w: 30, h: 40 });
    keep(printed(r));
    keep(grown(r, keep(5)));
    keep(unread(keep(7), r, keep(9)));
}
"""


@pytest.mark.parametrize("level", ["0", "2", "s"])
def test_structs_by_value(rust: Compile, traced: Traced, tmp_path: Path, level: str) -> None:
    """What a function prints of its caller's copy is there; what it does not read may not be."""
    source = tmp_path / "made.rs"
    source.write_text(COPIED)
    area = {"x": 1, "y": 2, "w": 30, "h": 40}
    printed, grown, unread = traced(rust(str(source), level), "/^(printed|grown|unread)$/")
    assert [each["value"] for each in (*printed["args"], *grown["args"])] == [area, area, 5]
    assert (printed["result"], grown["result"]) == (1200, {"x": -4, "y": -3, "w": 35, "h": 45})
    assert unread["result"] in (16, None)
    shown = [each["value"] for each in unread["args"]]
    assert all(each in (None, right) for each, right in zip(shown, (7, area, 9), strict=True))

"""Functions of Rust that have the convention of C."""

from __future__ import annotations

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
        if level == "0" and call["name"].endswith("own"):
            assert all(argument["value"] is not None for argument in call["args"]), call

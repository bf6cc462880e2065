"""Values of Rust that take no room: they are known, whatever passes them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

PROGRAM = """\
use std::hint::black_box;
use std::marker::PhantomData;

struct Unit;
enum One { Only }
enum Held { Wraps(One) }
enum Named { Has { m: Unit } }
enum Tagged { Both(i32, Unit), Nothing(()) }
struct Holder { unit: Unit, n: i32, marker: PhantomData<i64>, nothing: () }

#[inline(never)]
fn alone(a: i32, u: Unit, n: (), o: One) -> i32 { black_box((&u, n, &o)); a }
#[inline(never)]
fn inside(h: Holder, t: Tagged, r: Result<(), i32>, o: Option<()>, p: (Unit, i8))
    -> Result<(), i32> {
    black_box((&h.unit, h.n, &h.marker, h.nothing, &t, o, p.1));
    r
}

#[inline(never)]
fn nested(y: Option<Held>, w: Result<Named, ()>, a: Option<[[u64; 0]; 1]>, c: Option<[(); 2]>)
    -> Option<Held> {
    black_box((&w, &a, &c));
    y
}

fn main() {
    nested(Some(Held::Wraps(One::Only)), Ok(Named::Has { m: Unit }), Some([[]]), Some([(); 2]));
    alone(3, Unit, (), One::Only);
    let held = || Holder { unit: Unit, n: 4, marker: PhantomData, nothing: () };
    let _ = inside(held(), Tagged::Both(7, Unit), Ok(()), Some(()), (Unit, 5));
    let _ = inside(held(), Tagged::Nothing(()), Err(9), None, (Unit, 6));
}
"""


def test_values_without_a_size(tmp_path: Path) -> None:
    (tmp_path / "units.rs").write_text(PROGRAM)
    subprocess.run(["rustc", "-g", "-Awarnings", "units.rs"], cwd=tmp_path, check=True)
    program = str(tmp_path / "units")
    names = "/units::(alone|inside|nested)/"
    command = [sys.executable, "-m", "lbtrace", "attach", "--func", names, "--", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    command[4:4] = ["--errors"]
    failed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"units::(\w+)\(.* = (.*)", failed) == [("inside", "Err(9)")]
    shown = re.findall(r"units::((?:alone|inside|nested)\(.*)", done.stdout)
    held = "h={unit={}, n=4, marker={}, nothing=()}"
    wrapped = "Some(Wraps(Only))"
    assert shown == [
        f"nested(y={wrapped}, w=Ok(Has{{m={{}}}}), a=Some([[]]), c=Some([(), ()])) = {wrapped}",
        "alone(a=3, {}, (), Only) = 3",
        f"inside({held}, t=Both(7, {{}}), r=Ok(()), o=Some(()), p=({{}}, 5)) = Ok(())",
        f"inside({held}, t=Nothing(()), r=Err(9), o=None, p=({{}}, 6)) = Err(9)",
    ]

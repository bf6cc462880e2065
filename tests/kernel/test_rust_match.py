"""Rust compares nothing before the jump of an exhaustive ``match``; the returns are seen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

TAIL = "→ tail call"
"""What is shown of a call that ends by going on as another, whose result is its own."""

PROGRAM = """\
pub enum Shape { Point(u64), Named(String), Pair(i32, i32), Empty, Listed(Vec<u8>) }
#[derive(Clone, Copy)] pub enum Six { A, B, C, D, E, F }

#[inline(never)] fn plain(x: u64) -> u64 { std::hint::black_box(x) }

#[inline(never)]
fn shaped(shape: &Shape, k: u64) -> u64 {
    match shape {
        Shape::Point(x) => { println!("point"); *x + k }
        Shape::Named(s) => { println!("named {}", s); s.len() as u64 }
        Shape::Pair(a, b) => { println!("pair"); (*a + *b) as u64 * k }
        Shape::Empty => { println!("empty"); 3 }
        Shape::Listed(v) => { println!("listed"); v.iter().map(|x| *x as u64).sum() }
    }
}

#[inline(never)]
fn one_of(six: Six) -> u64 {
    match six {
        Six::A => plain(1) + 2, Six::B => plain(7) * 3, Six::C => plain(9) ^ 2,
        Six::D => plain(plain(3)), Six::E => plain(1), Six::F => plain(2) / 3,
    }
}

fn main() {
    let shapes = [Shape::Point(1), Shape::Named("x".into()), Shape::Pair(1, 2), Shape::Empty,
                  Shape::Listed(vec![1, 2])];
    let sum: u64 = shapes.iter().enumerate().map(|(i, e)| shaped(e, i as u64)).sum();
    let six: u64 = [Six::A, Six::B, Six::C, Six::D, Six::E, Six::F].map(one_of).iter().sum();
    println!("{sum} {six}");
}
"""


@pytest.mark.parametrize("level", "02s")
def test_all_calls_return(tmp_path: Path, level: str) -> None:
    (tmp_path / "arms.rs").write_text(PROGRAM)
    command = ["rustc", "-g", "-Awarnings", "-C", f"opt-level={level}", "arms.rs"]
    subprocess.run(command, cwd=tmp_path, check=True)
    names = "/^arms::(shaped|one_of)$/"
    command = [sys.executable, "-m", "lbtrace", "attach", "--returns", "sites", "--func", names]
    command += ["--", str(tmp_path / "arms")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shown = re.findall(r"arms::(shaped|one_of)\(.*\) (= \d+|→ tail call)", done.stdout)
    assert [name for name, _ in shown] == ["shaped"] * 5 + ["one_of"] * 6, done.stdout + done.stderr
    results = ["1", "1", "6", "3", "3", "3", "21", "11", "3", "1", "0"]
    for (_, end), result in zip(shown, results, strict=True):
        assert end in (f"= {result}", TAIL), done.stdout
    if level == "0":  # it has no tail calls
        assert TAIL not in done.stdout

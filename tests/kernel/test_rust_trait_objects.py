"""Of pointers of Rust to trait objects the type is shown that the program itself says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

PROGRAM = """\
use std::any::type_name;
pub trait Speak { fn speak(&self) -> usize; fn name(&self) -> &'static str { type_name::<Self>() } }
pub struct Dog { pub age: usize, pub name: String }
pub struct Cat { pub lives: u32 }
pub struct Pair<A, B>(pub A, pub B);
impl Speak for Dog { fn speak(&self) -> usize { self.age + self.name.len() } }
impl Speak for Cat { fn speak(&self) -> usize { self.lives as usize } }
impl<A, B> Speak for Pair<A, B> { fn speak(&self) -> usize { 2 } }
impl Speak for u64 { fn speak(&self) -> usize { *self as usize } }

#[inline(never)] fn lent(it: &dyn Speak) -> usize { println!("lent {}", it.name()); it.speak() }
#[inline(never)] fn changed(it: &mut dyn Speak) -> usize {
    println!("changed {}", it.name()); it.speak()
}
#[inline(never)] fn given(it: Box<dyn Speak>) -> usize {
    println!("given {}", it.name()); it.speak()
}
#[inline(never)] fn perhaps(it: Option<&dyn Speak>) -> usize {
    println!("perhaps {}", it.map_or("None", |it| it.name())); it.map_or(1, |it| it.speak())
}

fn main() {
    let (mut dog, cat) = (Dog { age: 3, name: "rex".to_string() }, Cat { lives: 9 });
    let all = lent(&dog) + lent(&cat) + lent(&7u64) + lent(&Pair(1u8, 2i64)) + changed(&mut dog)
        + changed(&mut Pair(dog.age, ())) + given(Box::new(Cat { lives: 8 }))
        + given(Box::new(Dog { age: 1, name: "ace".to_string() }))
        + perhaps(Some(&cat)) + perhaps(None);
    println!("{all}");
}
"""

FUNCTIONS = "lent|changed|given|perhaps"


@pytest.mark.parametrize("level", "03")
def test_type_is_that_of_the_object(tmp_path: Path, level: str, tool: Callable[[str], str]) -> None:
    (tmp_path / "speak.rs").write_text(PROGRAM)
    command = [tool("rustc"), "-g", "-Awarnings", "-C", f"opt-level={level}", "speak.rs"]
    subprocess.run(command, cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "lbtrace", "attach", "--returns", "none"]
    names, capture = f"/^speak::({FUNCTIONS})$/", str(tmp_path / "speak.lbt")
    command += ["--func", names, "--output", capture, "--", str(tmp_path / "speak")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = re.findall(rf"^({FUNCTIONS}) (.+)$", done.stdout, re.MULTILINE)
    report = [sys.executable, "-m", "lbtrace", "export", capture, "--format", "tree"]
    again = subprocess.run(report, capture_output=True, text=True, check=True)
    shown = re.findall(r" speak::(\w+)\(it=(.*?)\)(?: .*)?$", again.stdout, re.MULTILINE)
    assert [name for name, _ in shown] == [name for name, _ in printed], done.stderr + again.stdout
    for (_, truth), (_, value) in zip(printed, shown, strict=True):
        expected = truth if truth == "None" else rf"(Some\()?0x[0-9a-f]+ \({re.escape(truth)}\)\)?"
        # The optimiser passes other things than the table to functions whose callers it knows.
        hidden = r"<.*>|0x[0-9a-f]+|(Some\()?0x[0-9a-f]+\)?" if level != "0" else expected
        assert re.fullmatch(f"{expected}|{hidden}", value), (truth, value)

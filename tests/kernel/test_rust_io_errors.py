"""Errors of Rust's ``std::io`` are shown as the program itself prints them."""

from __future__ import annotations

import errno
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

PROGRAM = """\
use std::io::{Error, ErrorKind, Read, Result};
struct Failure { attempt: u8, error: Error }
fn made(k: u32) -> Error {
    match k {
        0 => Error::from(ErrorKind::NotFound),
        1 => Error::new(ErrorKind::InvalidData, "bad words"),
        2 => std::fs::File::open("/none").unwrap_err(),
        3 => Error::from_raw_os_error(99999),
        4 => (&b"ab"[..]).read_exact(&mut [0; 4]).unwrap_err(),
        _ => Error::from_raw_os_error(-5),
    }
}
#[inline(never)] fn number(k: u32) -> Result<u64> { if k < 6 { Err(made(k)) } else { Ok(7) } }
#[inline(never)] fn nothing(k: u32) -> Result<()> { number(k).map(|_| ()) }
#[inline(never)] fn text(k: u32) -> Result<String> { number(k).map(|n| n.to_string()) }
#[inline(never)] fn failure(k: u32) -> Failure { Failure { attempt: 1, error: made(k) } }
#[inline(never)] fn behind(error: &Error) -> bool { error.raw_os_error().is_some() }
fn main() {
    let (numbers, nothings): (fn(u32) -> _, fn(u32) -> _) = (number, nothing);
    let (texts, failures, behinds): (fn(u32) -> _, fn(u32) -> _, fn(&_) -> _) =
        (text, failure, behind);
    for k in 0..7 {
        println!("{:?}", std::hint::black_box(numbers)(k));
        println!("{:?}", std::hint::black_box(nothings)(k));
        println!("{:?}", std::hint::black_box(texts)(k));
    }
    for k in 0..6 {
        let Failure { attempt, error } = std::hint::black_box(failures)(k);
        println!("{attempt} {error:?}");
        println!("{error:?} {}", std::hint::black_box(behinds)(&error));
    }
}
"""

OWN = (
    (re.compile(r"Kind\((\w+)\)"), r"Simple(\1)"),
    (re.compile(r"Custom { kind: (\w+), error: [^}]* }"), r"Custom{kind=\1, error=…}"),
    (re.compile(r"Error { kind: (\w+), message: ([^}]*) }"), r"SimpleMessage{kind=\1, message=\2}"),
)
"""How the program writes errors, and how lbtrace does."""


def expected(line: str) -> str:
    for pattern, replacement in OWN:
        line = pattern.sub(replacement, line)

    def name(found: re.Match[str]) -> str:
        known = errno.errorcode.get(int(found[1]))
        return f"Os{{code={found[1]}{f', errno={known}' if known else ''}}}"

    return re.sub(r"Os { code: (-?\d+), [^}]* }", name, line)


@pytest.mark.parametrize("level", "03")
def test_errors_are_those_that_the_program_has(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, level: str
) -> None:
    (tmp_path / "errors.rs").write_text(PROGRAM)
    program = tmp_path / "errors"
    compiler = ["rustc", "-g", "-C", f"opt-level={level}", "-o", program]
    subprocess.run([*compiler, tmp_path / "errors.rs"], check=True)
    names = "number,nothing,text,failure,behind"
    done = lbtrace("attach", "--strict", "--func", names, "--", program)
    # Lines of the tree begin with a space, and may come between those of the program.
    said = [expected(line) for line in done.stdout.splitlines() if line[:1] != " "]
    assert len(said) == 3 * 7 + 2 * 6
    shown = []
    for line in done.stdout.splitlines():
        if found := re.search(r"\d  (?:└ )?errors::(\w+)(?:\((.*)\))? = (.*)", line):
            name, arguments, result = found.groups()
            value = f"{arguments.removeprefix('error=')} {result}" if name == "behind" else result
            value = re.sub("{attempt=1, error=(.*)}$", r"1 \1", value)
            # some builds of the standard library tell the type behind the pointer
            shown.append(re.sub(r"error=0x\w+( \(.*?\))?", "error=…", value))
    assert shown == said, done.stdout

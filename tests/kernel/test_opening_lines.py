"""Arguments at the line with which a function begins, against what the program logs of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import lbtrace as tracer

pytestmark = pytest.mark.host

C = r"""
#include <stdio.h>
struct big { long a, b, c, d; };
struct two { int x; long y; };

__attribute__((noinline)) static long work(int n, const char *text, struct two t, /* opens */
	struct big b, char c, short h, int seventh, int eighth)
{
	long sum = n + t.x + b.a * 3;

	printf("%d %s %d %ld %ld %ld ", n, text, t.x, t.y, b.a, b.d);
	printf("%d %d %d %d\n", c, h, seventh, eighth);
	return sum + eighth;
}

int main(int argc, char **argv)
{
	struct big b = { 1, 2, 3, argc };
	struct two t = { 5, -6 };
	long all = 0;

	setvbuf(stdout, 0, _IONBF, 0);
	for (int i = 1; i < 5; i++) {
		b.a = i;
		t.y = i * -3L;
		all += work(i, "xyz" + i % 3, t, b, 'c', i * 100, 7 * i, 8 * i);
	}
	return all == 7;
}
"""

RUST = r"""
#[derive(Clone, Copy)]
struct Two { x: i32, y: i64 }

#[inline(never)]
fn work(n: i32, text: &str, t: Two, items: &[u16], maybe: Option<u32>, // opens
    pair: (u8, u64), owned: String) -> usize {
    let known = maybe.unwrap_or(0);
    println!("{} {} {} {} {:?} {} {} {}", n, text, t.x, t.y, items, known, pair.1, owned);
    items.len() + text.len()
}

fn main() {
    let mut all = 0;
    for i in 1..5i32 {
        let items: Vec<u16> = (0..i as u16).collect();
        let two = Two { x: i, y: -i as i64 };
        let text = &"abcdef"[..i as usize];
        all += work(i, text, two, &items, Some(i as u32), (1, 2), format!("s{}", i));
    }
    std::process::exit((all == 7) as i32);
}
"""

GO = r"""
package main

import "fmt"

type two struct {
	x int
	y int64
}

//go:noinline
func work(n int, text string, t two, items []uint16) int { // opens
	fmt.Println(n, text, t.x, t.y, len(items))
	return n + len(items)
}

func main() {
	all := 0
	for i := 1; i < 5; i++ {
		all += work(i, "abcdef"[:i], two{i, int64(-i)}, make([]uint16, i))
	}
	if all == 7 {
		panic("seven")
	}
}
"""


def opening(source: str) -> int:
    lines = source.splitlines()
    return next(n for n, text in enumerate(lines, 1) if "opens" in text)


def run(program: Path, line: str) -> tuple[list[tracer.Call], list[list[str]]]:
    """The points at a line, and the lines that the program logs."""
    log = program.with_suffix(".log")
    with tracer.trace(
        command=["sh", "-c", f"exec {program} > {log}"], binary=program, lines=line, locals=True
    ) as session:
        points = list(session.calls())
        assert not session.losses().total
    return points, [line.split() for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    "compiler",
    [
        *("gcc -O0", "gcc -O0 -fstack-protector-all -fcf-protection", "gcc -O0 -gdwarf-4"),
        *("clang -O0", "clang -O0 -fomit-frame-pointer", "clang -O1", "clang -O2 -gdwarf-4"),
    ],
)
def test_c(tmp_path: Path, compiler: str) -> None:
    source = tmp_path / "opens.c"
    source.write_text(C)
    program = tmp_path / "opens"
    subprocess.run([*compiler.split(), "-g", source, "-o", program], check=True)
    first = opening(C)  # or the last line of the head: the compilers do not agree
    points, log = run(program, f"opens.c:{first}-{first + 2}")
    assert len(points) == len(log) == 4
    for point, (n, text, x, y, a, d, c, h, seventh, eighth) in zip(points, log, strict=True):
        numbers = [point[name] for name in ("n", "h", "seventh", "eighth")]
        assert numbers == [int(n), int(h), int(seventh), int(eighth)]
        assert str(point["text"]) == text
        assert ord(str(point["c"])) == int(c)
        assert (point["t"]["x"], point["t"]["y"]) == (int(x), int(y))
        assert (point["b"]["a"], point["b"]["d"]) == (int(a), int(d))


LEAF = r"""
#include <stdio.h>

struct two { int x; long y; };
__attribute__((noinline)) static long leaf(int n, double f, struct two t, char c) { /* opens */
	return n + (long)f + t.y + c;
}

int main(void)
{
	for (int i = 1; i < 5; i++) {
		struct two t = { i, i * -3L };
		printf("%d %d %ld %d\n", i, t.x, t.y, i + 64);
		printf("%s", leaf(i, i * 2, t, i + 64) == 7 ? " " : "");
	}
}
"""


@pytest.mark.parametrize(
    "compiler", ["gcc", "gcc -O0 -gdwarf-4", "gcc -O2 -O0 -fomit-frame-pointer", "g++", "clang"]
)
def test_a_function_that_calls_nothing(tmp_path: Path, compiler: str) -> None:
    """gcc says the same of it as of what it has optimised."""
    source = tmp_path / "leaf.c"
    source.write_text(LEAF)
    program = tmp_path / "leaf"
    subprocess.run([*compiler.split(), "-g", source, "-o", program], check=True)
    points, log = run(program, f"leaf.c:{opening(LEAF)}")
    assert len(points) == len(log) == 4
    for point, row in zip(points, log, strict=True):
        numbers = [point["n"], point["t"]["x"], point["t"]["y"], ord(str(point["c"]))]
        assert numbers == [int(word) for word in row]


def test_rust(tmp_path: Path, tool: Callable[[str], str]) -> None:
    source = tmp_path / "opens.rs"
    source.write_text(RUST)
    program = tmp_path / "opens"
    subprocess.run([tool("rustc"), "-g", source, "-o", program], check=True, capture_output=True)
    points, log = run(program, f"opens.rs:{opening(RUST)}")
    assert len(points) == len(log) == 4
    for point, (n, text, x, y, *_, maybe, second, owned) in zip(points, log, strict=True):
        assert point["n"] == int(n)
        assert str(point["text"]) == text
        assert (point["t"]["x"], point["t"]["y"]) == (int(x), int(y))
        assert list(point["items"]) == [*range(int(n))]
        assert str(point["maybe"]) == f"Some({maybe})"
        assert str(point["pair"]) == f"(1, {second})"
        assert str(point["owned"]) in (owned, "<optimised out>")  # as gdb says


@pytest.mark.parametrize("flags", [(), ("-gcflags=all=-N -l",)])
def test_go(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Registers hold parts of strings, slices and structs there. The code that lets the stack grow
    is of the same line, but not where it begins."""
    from tests import go_toolchains

    source = tmp_path / "opens.go"
    source.write_text(GO)
    program = go_toolchains.build("1.27.3", source, tmp_path / "opens", flags)
    points, log = run(program, f"opens.go:{opening(GO)}")
    assert len(points) == len(log) == 4
    for point, (n, text, x, y, count) in zip(points, log, strict=True):
        assert point["n"] == int(n)
        assert str(point["text"]) == text
        assert (point["t"]["x"], point["t"]["y"]) == (int(x), int(y))
        assert point["items"]["len"] == int(count)

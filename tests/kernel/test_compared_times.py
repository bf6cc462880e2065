"""Values that are spans of time, compared with times: the program says which calls are meant."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType

import pytest

Lbtrace = Callable[..., subprocess.CompletedProcess[str]]
Compiled = Callable[[str, list[str], str], Path]

CPP = """\
#include <chrono>
#include <cstdio>
#include <string>
using namespace std::chrono;
struct Task { int id; milliseconds limit; };
#define TRACED extern "C" __attribute__((noinline)) void
TRACED ms(milliseconds d) { printf("ms %ld\\n", (long)nanoseconds(d).count()); }
TRACED ns(nanoseconds d) { printf("ns %ld\\n", (long)d.count()); }
TRACED reference(const seconds &d) { printf("reference %ld\\n", (long)nanoseconds(d).count()); }
TRACED real(const duration<double> *d) { printf("real %.0f\\n", d->count() * 1e9); }
TRACED task(const Task &t) { printf("task %ld\\n", (long)nanoseconds(t.limit).count()); }
TRACED wide(const std::wstring &w, std::u16string u) { printf("%zu %zu\\n", w.size(), u.size()); }
int main()
{
    for (int i : {-2, 1, 4, 5, 6, 1000}) {
        ms(milliseconds(i)); ns(microseconds(i * 1001)); reference(seconds(i));
        duration<double> some = milliseconds(i); real(&some); task({i, milliseconds(i)});
    }
    wide(L"wide", u"sixteen"); wide(std::wstring(100, L'x'), std::u16string(50, u'y'));
}
"""

RUST = """\
use std::time::Duration;
pub struct Options { pub limit: Duration, pub n: u32 }
#[inline(never)] #[no_mangle]
fn ms(d: Duration) -> u64 { println!("ms {}", d.as_nanos()); d.as_secs() }
#[inline(never)] #[no_mangle]
fn reference(d: &Duration) -> u64 { println!("reference {}", d.as_nanos()); d.as_secs() }
#[inline(never)] #[no_mangle]
fn task(t: &Options) -> u32 { println!("task {}", t.limit.as_nanos()); t.n }
fn main() {
    for i in [0, 1, 4, 5, 6, 999, 1000, 1001, 7_000] {
        ms(Duration::from_millis(i));
        reference(&Duration::from_millis(i * 1000));
        task(&Options { limit: Duration::from_millis(i), n: 1 });
    }
    ms(Duration::MAX);
}
"""

GO = """\
package main

import (
	"fmt"
	"time"
)

type Options struct{ Limit time.Duration }

//go:noinline
func ms(d time.Duration) { fmt.Println("ms", d.Nanoseconds()) }

//go:noinline
func task(t *Options) { fmt.Println("task", t.Limit.Nanoseconds()) }

func main() {
	for _, i := range []int{-1, 1, 4, 5, 6, 1000} {
		ms(time.Duration(i) * time.Millisecond)
		task(&Options{time.Duration(i) * time.Millisecond})
	}
}
"""

MS = [
    ("d > 4ms", lambda n: n > 4_000_000),
    ("d >= 5000us and d < 1s", lambda n: 5_000_000 <= n < 1_000_000_000),
    ("d <= 4.5ms", lambda n: n <= 4_500_000),
    ("not d < 4500us", lambda n: n >= 4_500_000),
    ("d == 5ms or d == 1s", lambda n: n in (5_000_000, 1_000_000_000)),
    ("d != 5ms", lambda n: n != 5_000_000),
]


def check(
    lbtrace: Lbtrace,
    program: Path,
    capture: Path,
    prefix: str,
    function: str,
    where: str,
    holds: object,
) -> None:
    """The calls that are shown are those of which the program says that they are meant; the same of
    a capture."""
    assert callable(holds)
    name = prefix + function
    done = lbtrace("attach", "--func", name, "--where", where, "--quiet", "--", program)
    said = re.findall(rf"^{function} (-?\d+)$", done.stdout, re.MULTILINE)
    meant = sum(map(holds, map(int, said)))
    shown = re.findall(rf" {re.escape(name)}\(", done.stdout)
    assert 0 < meant < len(said)
    assert len(shown) == meant, done.stdout
    if not capture.exists():
        lbtrace("attach", "--func", name, "--quiet", "-o", capture, "--", program)
    if where[0] not in "t*":  # what those lead to is not recorded
        tree = lbtrace("export", capture, "--where", where).stdout
        assert len(re.findall(rf" {re.escape(name)}\(", tree)) == meant, tree


def test_times_of_chrono(lbtrace: Lbtrace, compiled: Compiled, tmp_path: Path) -> None:
    program = compiled("times", ["g++", "-O1", "-g", "-std=c++17"], CPP)
    cases = [("ms", *each) for each in MS] + [
        ("ns", "d > 4004us", lambda n: n > 4_004_000),
        ("ns", "d <= 4004.5us", lambda n: n <= 4_004_500),
        ("reference", "d > 4.5s", lambda n: n > 4.5e9),
        ("reference", "d in (1s, 5s)", lambda n: n in (10**9, 5 * 10**9)),
        ("real", "*d > 4.5ms", lambda n: n > 4_500_000),
        ("task", "t.limit >= 5ms", lambda n: n >= 5_000_000),
    ]
    for function, where, holds in cases:
        check(lbtrace, program, tmp_path / f"{function}.lbt", "", function, where, holds)
    for where, wrong in (
        ("d > 5", "this time has no unit: 5 of what?"),
        ("d == 4500us", "with this time it holds for every call, or for none"),
    ):
        done = lbtrace("attach", "--func", "ms", "--where", where, "--", program)
        assert wrong in done.stderr


RELATED = r"""
#include <chrono>
#include <climits>
#include <cstdio>
#include <initializer_list>
using namespace std::chrono;
using tenths = duration<int, std::ratio<1, 10>>;
using thirds = duration<long, std::ratio<1, 3>>;
#define TRACED(name, one, other) \
    extern "C" __attribute__((noinline)) void name(one d, other o) \
    { \
        __int128 a = (__int128)d.count() * one::period::num * 3000000000 / one::period::den; \
        __int128 b = (__int128)o.count() * other::period::num * 3000000000 / other::period::den; \
        printf(#name " %d\n", a < b ? -1 : a > b); \
    }
TRACED(coarse, seconds, nanoseconds)
TRACED(fine, nanoseconds, seconds)
TRACED(small, tenths, milliseconds)
TRACED(odd, thirds, milliseconds)
extern "C" __attribute__((noinline)) void real(const duration<double> &d, milliseconds o)
{
    printf("real %d\n", d > o);
}
int main()
{
    for (long i : {-3L, -1L, 0L, 1L, 2L, LONG_MAX, LONG_MIN})
        for (long j : {-3000000000L, -2999999999L, -1L, 0L, 100L, 999999999L, 1000000000L,
                       1000000001L, LONG_MAX}) {
            coarse(seconds(i), nanoseconds(j));
            fine(nanoseconds(j), seconds(i));
            small(tenths((int)i), milliseconds(j));
            odd(thirds(i), milliseconds(j));
            real(duration<double>(i), milliseconds(j));
        }
}
"""

RUST_RELATED = """\
use std::time::Duration;
#[inline(never)] #[no_mangle]
fn spans(d: Duration, o: Duration) { println!("spans {}", d.cmp(&o) as i32); }
fn main() {
    let all = [(0, 0), (0, 1), (1, 0), (1, 999_999_999), (2, 5), (u64::MAX, 7), (u64::MAX, 8)];
    for a in all {
        for b in all {
            spans(Duration::new(a.0, a.1), Duration::new(b.0, b.1));
        }
    }
}
"""

GO_RELATED = """\
package main

import (
	"cmp"
	"fmt"
	"time"
)

//go:noinline
func spans(d, o time.Duration) { fmt.Println("spans", cmp.Compare(d, o)) }

func main() {
	for _, a := range []time.Duration{-1, 0, 1, time.Second} {
		for _, b := range []time.Duration{-1, 0, 1, time.Second} {
			spans(a, b)
		}
	}
}
"""

ORDERS: dict[str, tuple[int, ...]] = {
    **{"<": (-1,), "<=": (-1, 0), ">": (1,)},
    **{">=": (0, 1), "==": (0,), "!=": (-1, 1)},
}
"""What a program says of two times of which a comparison holds."""


def check_orders(
    lbtrace: Lbtrace,
    program: Path,
    directory: Path,
    function: str,
    prefix: str = "",
    operators: Collection[str] = ORDERS,
) -> None:
    capture = directory / f"{function}.lbt"
    for operator in operators:
        where, holds = f"d {operator} o", ORDERS[operator].__contains__
        check(lbtrace, program, capture, prefix, function, where, holds)


def test_times_of_chrono_compared_with_each_other(
    lbtrace: Lbtrace, compiled: Compiled, tmp_path: Path
) -> None:
    program = compiled("related_times", ["g++", "-O1", "-g", "-std=c++17"], RELATED)
    some = {"coarse": ("<", "=="), "fine": (">=", "!="), "small": ("<=", ">")}
    for function, operators in some.items():  # each operator where units differ: all take a minute
        check_orders(lbtrace, program, tmp_path, function, operators=operators)
    for function in ("odd", "real"):
        done = lbtrace("attach", "--func", function, "--where", "d > o", "--", program)
        assert "are not compared with each other" in done.stderr


def test_times_of_rust_compared_with_each_other(
    lbtrace: Lbtrace, compiled: Compiled, tmp_path: Path
) -> None:
    program = compiled("related_rust", ["rustc", "-g"], RUST_RELATED)
    check_orders(lbtrace, program, tmp_path, "spans")


def test_times_of_go_compared_with_each_other(
    lbtrace: Lbtrace, go: ModuleType, tmp_path: Path
) -> None:
    source = tmp_path / "related.go"
    source.write_text(GO_RELATED)
    program = go.build(go.VERSIONS[-1], source, tmp_path / "related", ())
    check_orders(lbtrace, program, tmp_path, "spans", "main.", ("<", ">="))


def test_lengths_of_wide_strings(lbtrace: Lbtrace, compiled: Compiled) -> None:
    program = compiled("times", ["g++", "-O1", "-g", "-std=c++17"], CPP)
    asked = ("--arg", "len(w)", "--arg", "u.size()", "--arg", "str(w)", "--quiet")
    done = lbtrace("attach", "--func", "wide", *asked, "--where", "len(w) > 3", "--", program)
    shown = re.findall(r'wide\(len\(w\)=(\d+), u.size=(\d+), str\(w\)="(wide|x{64})', done.stdout)
    said = re.findall(r"^(\d+) (\d+)$", done.stdout, re.MULTILINE)
    assert [(w, u) for w, u, _ in shown] == said
    assert len(said) == 2


@pytest.mark.parametrize("level", [0, 1])
def test_durations_of_rust(
    lbtrace: Lbtrace, compiled: Compiled, tmp_path: Path, level: int
) -> None:
    program = compiled(
        f"durations{level}", ["rustc", "-g", f"-Copt-level={level}", "-Awarnings"], RUST
    )
    cases = [("reference", "d > 4.5s", lambda n: n > 4.5e9)] if not level else []
    cases += [("ms", *each) for each in MS[:3]] if not level else []
    cases += [("ms", "d < 1s", lambda n: n < 10**9)] if not level else []
    cases += [("task", "t.limit >= 1s", lambda n: n >= 10**9)]
    for function, where, holds in cases:
        check(lbtrace, program, tmp_path / f"{function}.lbt", "", function, where, holds)
    if not level:
        shown = lbtrace("export", tmp_path / "ms.lbt").stdout
        assert "ms(d=1.001s)" in shown
        assert "ms(d=18446744073709551615.999999999s)" in shown


def test_durations_of_go(lbtrace: Lbtrace, go: ModuleType, tmp_path: Path) -> None:
    source = tmp_path / "times.go"
    source.write_text(GO)
    program = go.build(go.VERSIONS[-1], source, tmp_path / "times", ())
    for where, holds in MS[:3]:
        check(lbtrace, program, tmp_path / "ms.lbt", "main.", "ms", where, holds)
    check(
        lbtrace,
        program,
        tmp_path / "task.lbt",
        "main.",
        "task",
        "t.Limit > 4ms",
        lambda n: n > 4_000_000,
    )

"""Values that are easily shown wrong, or left out without a mark."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace as api

pytestmark = pytest.mark.host

Calls = list[dict[str, Any]]
Compile = Callable[[str, list[str], str], Path]
Traced = Callable[[Path, str], Calls]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

RECORDS = r"""
#include <stdio.h>
struct many { int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r; };
struct anonymous { int k; union { int i; char c; }; struct { int x; struct many y; }; };
__attribute__((noinline)) int show(struct many *m, struct anonymous a) { return m->r + a.i; }
int main(void)
{
    struct many m = {.a = 1, .r = 2};
    struct anonymous a = {.k = 1, .i = 66, .x = 3};
    return show(&m, a) != 68;
}
"""

REFERENCES = r"""
typedef const char &letter;
__attribute__((noinline)) int show(const char &c, char &&d, letter e, const char *f)
{
    return c + d + e + *f;
}
int main() { char text[] = "abcdef"; return !show(text[1], 'x', text[3], text); }
"""

DEEP = r"""
pub enum A { X(Option<u8>), Y(u64) }
pub enum B { P { f: A }, Q }
pub struct S { b: Option<B>, t: (Option<Option<(u8, Option<bool>)>>, i8) }
#[inline(never)]
fn show(s: &S, z: i32) { std::hint::black_box((s, z)); }
fn main() {
	let n = std::env::args().count() as u8;
	std::hint::black_box((A::Y(3), B::Q));
	show(&S { b: Some(B::P { f: A::X(Some(n)) }), t: (Some(Some((n, Some(n == 1)))), 3) }, 7);
}
"""


def test_members_that_are_left_out_are_marked(
    compiled: Compile, lbtrace: Run, tmp_path: Path
) -> None:
    program = compiled("records", ["gcc", "-g"], RECORDS)
    capture = tmp_path / "run.lbt"
    done = lbtrace("attach", "--func", "show", "--depth", 1, "-o", capture, "--", program)
    assert done.returncode == 0, done.stderr

    def exported(form: str) -> str:
        done = lbtrace("export", capture, "--format", form)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    assert "m=&{a=1, b=0," in exported("tree")
    assert "p=0, … 2 more}" in exported("tree")
    assert exported("racket").count("…)") == 2
    assert json.dumps("p=0, … 2 more}")[1:-1] in exported("chrome")
    first = json.loads(exported("jsonl").splitlines()[2])
    many, anonymous = first["args"]
    assert (len(many["value"]), many["more"]) == (16, 2)
    inside = anonymous["value"]
    assert inside[""] == {"i": 66, "c": "B"}
    assert (inside["k"], inside["#2"]["x"]) == (1, 3)
    assert anonymous["parts"]["/#2/y"] == {"more": 2}
    with api.trace(command=[str(program)], functions=["show"], depth=1) as session:
        (call,) = session.calls()
    pointed = call.args[0].value
    assert isinstance(pointed, api.Referent)
    assert isinstance(pointed.value, api.Fields)
    assert pointed.value.more == 2


def test_references_to_characters_are_no_strings(compiled: Compile, lbtrace: Run) -> None:
    program = compiled("references", ["g++", "-g"], REFERENCES)
    words = ("attach", "--func", "show*", "--format", "jsonl", "--quiet", "--depth")
    for depth in (0, 1):
        done = lbtrace(*words, depth, "--", program)
        (call,) = [json.loads(s) for s in done.stdout.splitlines() if '"call"' in s]
        *letters, text = [argument["value"] for argument in call["args"]]
        assert text == "abcdef"
        for shown, letter in zip(letters, "bxd", strict=True):
            assert shown == letter or (not depth and shown.startswith("0x"))


@pytest.mark.parametrize("command", [["gcc", "-g1"], ["clang", "-gline-tables-only"]])
def test_lines_alone_give_no_types(compiled: Compile, traced: Traced, command: list[str]) -> None:
    text = "__attribute__((noinline)) long add(long a, long b) { return a + b; }\n"
    text += "int main(void) { return add(3, 4) != 7; }"
    (call,) = traced(compiled(f"lines-{command[0]}", [*command, "-O1"], text), "add")
    assert [argument["value"] for argument in call["args"]] == [3, 4]
    assert call["result"] == 7


def test_payloads_of_rust_are_shown_however_deep(
    traced: Traced, tool: Callable[[str], str], lbtrace: Run, tmp_path: Path
) -> None:
    source, program = tmp_path / "deep.rs", tmp_path / "deep"
    source.write_text(DEEP)
    subprocess.run([tool("rustc"), "-g", "-A", "warnings", source, "-o", program], check=True)
    words = ("attach", "--func", "deep::show", "--depth", 1, "--quiet", "--", program)
    done = lbtrace(*words)
    shown = "s=&{b=Some(P{f=X(Some(1))}), t=(Some(Some((1, Some(true)))), 3)}, z=7"
    assert f"deep::show({shown})" in done.stdout, done.stderr


def test_what_is_nested_too_deeply_says_so(compiled: Compile, lbtrace: Run) -> None:
    text = "struct s0 { int v; };\n"
    text += "".join(f"struct s{n} {{ struct s{n - 1} v; int w; }};\n" for n in range(1, 12))
    text += "__attribute__((noinline)) int show(struct s11 *s) { return !s; }\n"
    text += "int main(void) { struct s11 s = {0}; return show(&s); }"
    program = compiled("nested", ["gcc", "-g", "-w"], text)
    done = lbtrace("attach", "--func", "show", "--depth", 1, "--quiet", "--", program)
    assert "v=<nested too deeply>" in done.stdout, done.stderr


COUNTED = r"""
#include <cstddef>
typedef std::nullptr_t null;
struct two { long a, b; };
struct mixed { double d; long l; };
struct wide { __int128 v; };
struct own { own(int v) : v(v) {} own(const own &o) : v(o.v) {} ~own() {} int v; };
#define KEPT __attribute__((noinline))
#define SHOW(n, ...) KEPT int show##n(__VA_ARGS__) { asm volatile(""); return n; }
SHOW(1, long a, long b, long c, long d, null n, two s, long z)
SHOW(2, long a, long b, long c, long d, long e, null n, mixed m, two s, long z)
SHOW(3, null n, null o, null p, null q, null r, null t, two s, mixed m, long z)
SHOW(4, null n, long a, long b, long c, long d, __int128 w, two s, long z)
SHOW(5, null n, null o, long a, long b, long c, wide v, long y, long z)
SHOW(6, null n, long a, long b, long c, long d, __int128 w, mixed m, long z, two s, long y)
KEPT int show7(long a, long b, long c, long d, long e, __int128 w, own x, long z) { return x.v; }
int main()
{
    null n = nullptr;
    two s{51, 52};
    mixed m{1.5, 61};
    __int128 w = 71;
    show1(1, 2, 3, 4, n, s, 99);
    show2(1, 2, 3, 4, 5, n, m, s, 99);
    show3(n, n, n, n, n, n, s, m, 99);
    show4(n, 1, 2, 3, 4, w, s, 99);
    show5(n, n, 1, 2, 3, wide{81}, 98, 99);
    show6(n, 1, 2, 3, 4, w, m, 99, s, 98);
    show7(1, 2, 3, 4, 5, w, own(41), 99);
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_registers_that_clang_miscounts(compiled: Compile, traced: Traced, compiler: str) -> None:
    program = compiled(f"counted-{compiler}", [compiler, "-g", "-w"], COUNTED)
    expected = {"s": {"a": 51, "b": 52}, "m": {"d": 1.5, "l": 61}, "w": 71, "z": 99, "y": 98}
    expected |= {"v": {"v": 81}, "x": {"v": 41}} | dict(zip("abcde", range(1, 6), strict=True))
    calls = traced(program, "show*")
    assert len(calls) == 7
    for call in calls:
        for argument in call["args"]:
            known = expected.get(argument["name"], "nullptr")
            assert argument["value"] in (known, None if compiler == "clang++" else known), call
        assert call["args"][0]["value"] is not None


LEFT_ON_THE_STACK = r"""
struct two { const char *text; long n; };
struct own { own(int v) : v(v) {} own(const own &o) : v(o.v) {} ~own() {} int v; };
static volatile long sink;
#define KEPT __attribute__((noinline)) static void
#define READ sink = a + b + c + d + e;
KEPT show1(long a, long b, long c, long d, long e, two s) { READ sink = s.n + (long)s.text; }
KEPT show2(long a, long b, long c, long d, long e, two s, two t, long z)
{ READ sink = s.n + (long)s.text + t.n + (long)t.text + z; }
KEPT show3(long a, long b, long c, long d, long e, two s, __int128 w)
{ READ sink = s.n + (long)s.text + (long)w + (long)(w >> 64); }
KEPT show4(long a, own x, long c, long d, long e, long b, two s, own y)
{ READ sink = s.n + (long)s.text + x.v + y.v; }
__attribute__((noinline)) long one(long v) { asm volatile("" : "+r"(v)); return v; }
__attribute__((noinline)) two pair(long v) { asm volatile("" : "+r"(v)); return {"text", v}; }
#define LONGS one(1), one(2), one(3), one(4), one(5)
int main()
{
    show1(LONGS, pair(51));
    show2(LONGS, pair(51), pair(52), one(99));
    show3(LONGS, pair(51), ((__int128)one(7) << 64) + one(8));
    show4(one(1), own(one(41)), one(3), one(4), one(5), one(2), pair(51), own(one(42)));
}
"""


@pytest.mark.parametrize("options", ["", "-flto -fuse-ld=lld"])
@pytest.mark.parametrize("level", ["-O1", "-O2"])
def test_parameters_that_llvm_makes_of_structs(
    compiled: Compile, traced: Traced, level: str, options: str
) -> None:
    """LLVM before 16 passes their members, in registers if some are left, and does not say so."""
    words = ["clang++", "-g", "-w", level, *options.split()]
    program = compiled(f"promoted{level}{bool(options)}", words, LEFT_ON_THE_STACK)
    expected: dict[str, Any] = dict(zip("abcde", range(1, 6), strict=True))
    expected |= {"s": {"text": "text", "n": 51}, "t": {"text": "text", "n": 52}, "z": 99}
    expected |= {"w": (7 << 64) + 8, "x": {"v": 41}, "y": {"v": 42}}
    calls = traced(program, "show*")
    assert len(calls) == 4
    for call in calls:
        for argument in call["args"]:
            assert argument["value"] in (None, expected[argument["name"]]), call
        assert call["args"][0]["value"] == 1


METHODS = r"""
use std::hint::black_box;
struct Host { v: i64 }
impl Host {
    #[inline(never)]
    fn unused(p: &Host, q: &i64) -> Option<i64> { println!("{} {}", p.v, q); Some(*q) }
    #[inline(never)]
    fn used(&self, a: i64) -> i64 { println!("{} {}", self.v, a); a + 1 }
}
fn main() {
    let host = Host { v: black_box(7) };
    Host::unused(&host, &black_box(77));
    println!("{}", host.used(black_box(5)));
}
"""


@pytest.mark.parametrize("level", ["0", "1", "3"])
def test_what_llvm_does_not_say_of_methods(
    tool: Callable[[str], str], traced: Traced, tmp_path: Path, level: str
) -> None:
    """It drops results that no caller uses, and says so of functions that are no methods."""
    text, program = tmp_path / "methods.rs", tmp_path / "methods"
    text.write_text(METHODS)
    words = [tool("rustc"), "-g", "-C", f"opt-level={level}", text, "-o", program]
    subprocess.run(words, check=True)
    unused, used = traced(program, "methods::Host::*")
    assert unused["result"] in ((None,) if level != "0" else ({"Some": 77}, [77]))
    assert used["result"] in ((6, None) if level != "0" else (6,))
    assert used["args"][1]["value"] in (5, None)


CHANGED = """\
#[inline(never)]
fn is_odd(number: &u64) -> bool { if *number > 5 { println!("large"); } number % 2 == 1 }
fn main() {
    for n in 1..std::env::args().count() as u64 + 4 { if is_odd(&n) { println!("odd"); } }
}
"""
"""LLVM passes the number instead of its address."""


def test_results_that_are_used_are_not_optimised_out(
    tool: Callable[[str], str], lbtrace: Run, tmp_path: Path
) -> None:
    """Where a function is not called as it is declared, debug information does not say whether that
    concerns the result."""
    text, program = tmp_path / "changed.rs", tmp_path / "changed"
    text.write_text(CHANGED)
    subprocess.run([tool("rustc"), "-g", "-C", "opt-level=3", text, "-o", program], check=True)
    done = lbtrace("attach", "--func", "is_odd", "--", program)
    assert done.stdout.count(") = <passed otherwise than declared>\n") == 4, done.stdout


CONVENTIONS = r"""
#define KEPT __attribute__((noinline))
struct two { long a, b; };
__attribute__((ms_abi)) KEPT long windows(long a, long b, struct two s, int d, long e, long f)
{
    __asm__ volatile("");
    return a + b + s.b + d + e + f;
}
#ifdef __clang__
__attribute__((vectorcall)) KEPT long vectors(long a, double b, long c) { return a + b + c; }
__attribute__((regcall)) KEPT long registers(long a, long b, long c) { return a + b + c; }
__attribute__((swiftcall)) KEPT long swift(long a, __attribute__((swift_context)) void *b, long c)
{
    return a + (b == (void *)2) + c;
}
__attribute__((preserve_most)) KEPT long preserving(long a, long b, long c) { return a + b + c; }
KEPT _BitInt(37) narrow(_BitInt(37) a, long c) { return a - c; }
#endif
int main(int n, char **v)
{
    struct two s = {n + 50, n + 51};
    long sum = windows(n, n + 1, s, n + 3, n + 4, n + 5);
#ifdef __clang__
    sum += vectors(n, 2, 3) + registers(n, n + 1, 3) + swift(n, (void *)2, 3);
    sum += preserving(n, n + 1, 3) + (long)narrow(-n, n + 2);
#endif
    return !sum;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_other_calling_conventions(
    compiled: Compile, traced: Traced, compiler: str, level: str
) -> None:
    """gcc does not say that a function has one: its parameters are in unexpected places."""
    if os.uname().machine != "x86_64":
        return
    program = compiled("conventions", [compiler, "-g", level, "-w"], CONVENTIONS)
    names = "/windows|vectors|registers|swift|preserving|narrow/"
    given = {"a": 1, "b": 2, "s": {"a": 51, "b": 52}, "c": 3, "d": 4, "e": 5, "f": 6}
    calls = {call["name"]: call for call in traced(program, names)}
    assert len(calls) == (6 if compiler == "clang" else 1)
    for name, call in calls.items():
        known = given | {"swift": {"b": "0x2"}, "narrow": {"a": None}}.get(name, {})
        for argument in call["args"]:
            assert argument["value"] in (None, known[argument["name"]]), call
            assert argument["value"] is not None or argument["unreadable"], call
    assert calls["windows"]["result"] == 70
    if compiler == "clang":
        assert [a["value"] for a in calls["preserving"]["args"]] == [1, 2, 3]
        assert calls["narrow"]["result"] is None
        assert calls["narrow"]["args"][1]["value"] == 3


UNFOLLOWED = r"""
struct names { const char *n[8]; };
struct node { long key; };
__attribute__((noinline)) int show(struct names a, struct names b, struct node *p, char **v)
{
    __asm__ volatile("" : : : "memory");
    return 0;
}
int main(void)
{
    struct names s = {{"a", "b", "c", "d", "e", "f", "g", "h"}};
    struct node node = {7};
    for (int n = 0; n < 3; n++)
        show(s, s, &node, (char **)s.n);
    return 0;
}
"""


SHARING = """\
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
using namespace std;
#define KEPT __attribute__((noinline))
KEPT int three(const map<string, int> &a, const unordered_map<int, string> &b,
               const multimap<int, int> &c) { return a.size() + b.size() + c.size(); }
KEPT int four(const map<int, int> &a, const map<int, int> &b, const set<string> &c,
              const list<int> &d) { return a.size() + b.size() + c.size() + d.size(); }
KEPT int short_of(int n, const string &s, const map<string, int> &m, const vector<string> &v,
                  const unordered_map<string, string> &u)
{ return n + s.size() + m.size() + v.size() + u.size(); }
int main()
{
    map<int, int> numbers{{1, 2}, {3, 4}, {5, 6}};
    map<string, int> named{{"a", 1}, {"b", 2}};
    three(named, {{1, "u"}}, {{5, 6}});
    four(numbers, numbers, {"x", "y"}, {7, 8, 9});
    short_of(1, "text", named, {"p", "q", "r"}, {{"k", "v"}});
}
"""

SHARED = """\
three(a={"a": 1, … 1 more}, b={1: "u"}, c={5: 6}) = 4
four(a={1: 2, … 2 more}, b={1: 2, … 2 more}, c=["x", … 1 more], d=[7, … 2 more]) = 11
short_of(n=1, s="text", m={"a": 1, … 1 more}, v=["p", … 2 more], u={… 1 more}) = 11
"""
"""Each container has its first element as far as there is room: the last one has none, as its
element takes five slots of sixteen."""


def test_containers_share_what_room_there_is(compiled: Compile, lbtrace: Run) -> None:
    program = compiled("sharing", ["g++", "-g", "-O0", "-x", "c++"], SHARING)
    done = lbtrace("attach", "--func", "three,four,short_of", "--", program)
    for call in SHARED.splitlines():
        assert f"  {call}\n" in done.stdout, done.stdout


def test_pointers_that_are_not_followed_say_so(
    compiled: Compile, lbtrace: Run, tmp_path: Path
) -> None:
    """A text for which no slot is left would look like a pointer to anything."""
    program = compiled("unfollowed", ["gcc", "-g", "-O0"], UNFOLLOWED)
    attach = ("attach", "--func", "show", "--depth", "1", "--quiet")
    live, capture, later = (tmp_path / name for name in ("live.jsonl", "run.lbt", "later.jsonl"))
    assert lbtrace(*attach, "-o", live, "--", program).returncode == 0
    assert lbtrace(*attach, "-o", capture, "--", program).returncode == 0
    assert lbtrace("export", capture, "-o", later).returncode == 0
    for path in (live, later):
        for call in filter(lambda c: c["type"] == "call", map(json.loads, path.open())):
            record = call["args"][0]
            shown = record["value"]["n"]
            unread = [n for n in range(8) if shown[n] != "abcdefgh"[n]]
            assert unread
            for number in unread:
                assert int(shown[number], 16)
                assert record["parts"][f"/n/{number}"] == {"unfollowed": "too many values"}
            assert len(record["parts"]) == len(unread)
    line = f"{shown[7]} <too many values>"
    tree = lbtrace("export", capture, "--format", "tree").stdout
    assert tree.count(line) == 3
    with api.read_capture(capture) as read:
        found = next(read.calls())["a"]["n"][7]
    assert isinstance(found, api.Address)
    assert str(found) == f"{found:#x}"

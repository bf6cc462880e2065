"""Values as wholes: those that hold nothing by their names, members of tuples, text and floats
behind pointers, constants of one enumeration where several have the name; and the advice where a
value cannot be compared."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """
#include <map>
#include <optional>
#include <string>
#include <vector>
struct Node { int key; long more[12]; };
template <class T> struct Of { enum Part { ONE = 1, TWO }; };
enum class Color { RED, PINK };
namespace ns { enum class Color { RED = 7, GREEN = 1 }; }
struct Point { double x, *y; float m[2][3]; };
#define NI extern "C" __attribute__((noinline))
NI void whole(std::optional<int> o, const std::optional<int> &r, const std::vector<int> &v,
              std::map<int, int> m, Node *n)
{
    asm volatile("");
}
NI void number(__int128 b, bool t, double x, Of<int>::Part p, const char *s, int n)
{
    asm volatile("");
}
NI void both(ns::Color c, Color d, int n) { asm volatile(""); }
NI void text(const std::string *p, const std::string &s, const char *const &t, const char **tt)
{
    asm volatile("");
}
NI void point(Point *p) { asm volatile(""); }
int main()
{
    Node nodes[4];
    for (int i = 0; i < 4; i++) {
        std::optional<int> o;
        if (i)
            o = i;
        nodes[i].key = i;
        whole(o, o, std::vector<int>(i), i % 2 ? std::map<int, int>{{1, 2}} : std::map<int, int>{},
              &nodes[i]);
        number(i, i == 1, i * 0.5, i ? Of<int>::TWO : Of<int>::ONE, i == 2 ? "octi" : "x", i);
    }
    for (int i = 0; i < 4; i++) {
        std::string s = i % 2 ? "octi" : "other";
        const char *t = s.c_str();
        double y = i;
        Point p = {0.5, &y, {{1, 2, 3}, {4, 5, 6.5f * i}}};
        both(i % 2 ? ns::Color::RED : ns::Color(0), i % 2 ? Color::PINK : Color::RED, i ? 7 : 0);
        text(&s, s, t, &t);
        point(&p);
    }
}
"""

SHORT_AND_LONG = """
    #include <string>
    struct Named { int id; std::string name; };
    __attribute__((noinline)) void take(const Named *p) { asm volatile("" : : "r"(p) : "memory"); }
    int main()
    {
        int n = 0;
        for (auto s : {"short", "shorter", "", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "zzz"}) {
            Named named = {n++, s};
            take(&named);
        }
    }
"""


@pytest.mark.parametrize("library", ["libstdc++", "libc++"])
def test_texts_in_their_records(lbtrace: Run, compiled: Callable[..., Path], library: str) -> None:
    """A ``std::string`` of libc++ is short or long."""
    options = ["clang++", "-g", "-O1", f"-stdlib={library}", "-x", "c++"]
    program = compiled(f"texts-{library}", options, SHORT_AND_LONG)
    expected = {
        'p->name == "short"': [0],
        'not p->name startswith "z"': [0, 1, 2],
        f'p->name == "{"z" * 35}"': [3],
        'p->name in ("", "zzz")': [2, 4],
    }
    for where, ids in expected.items():
        words = ("--func", "take", "--arg", "p->id", "--where", where)
        done = lbtrace("attach", *words, "--format", "jsonl", "--", program)
        records = map(json.loads, done.stdout.splitlines())
        assert [r["args"][0]["value"] for r in records if r["type"] == "call"] == ids, where


RUST = """
pub struct Pair { pub t: (i32, (u8, u64)) }
pub enum Shape { Empty, Square(u32), Rect { w: u32, h: u32 } }
#[inline(never)]
pub fn passed(o: Option<u32>, r: Option<&u8>, s: Shape, p: &Pair, t: (i32, u64)) -> i32 {
    std::hint::black_box((o, r, &s, p.t.0)); t.0
}
fn main() {
    for i in 0..4 {
        let o = if i == 0 { None } else { Some(i) };
        let byte = 7; let r = if i < 2 { None } else { Some(&byte) };
        let r2 = Shape::Rect { w: 1, h: 2 };
        let s = match i { 0 => Shape::Square(1), 1 => r2, _ => Shape::Empty };
        let p = Pair { t: (i as i32, (i as u8, 9)) };
        std::hint::black_box(passed(o, r, s, &p, (i as i32 - 1, 2)));
    }
}
"""


def count(lbtrace: Run, output: Path, program: Path, function: str, condition: str) -> int:
    """How many calls of ``function`` a condition shows."""
    words = ("attach", "--force", "-o", output, "--func", function, "--where", condition)
    done = lbtrace(*words, "--", program)
    assert done.returncode == 0, (condition, done.stderr)
    records = map(json.loads, output.read_text().splitlines())
    return sum(record["type"] == "call" for record in records)


CONDITIONS = {
    ("whole", "o == nullopt"): 1,
    ("whole", "std::nullopt != o"): 3,
    ("whole", "not r == nullopt"): 3,
    ("whole", "o.has_value()"): 3,
    ("whole", "m.size() == 1"): 2,
    ("whole", "len(v) > 1 and v[1] == 0"): 2,
    ("whole", "v[2] == 0 and v.size() == 3"): 1,
    ("whole", "len(m) == 0"): 2,
    ("number", "x < .75"): 2,
    ("number", "(double)x < .75"): 2,
    ("number", "(long)b > 1"): 2,
    ("number", "t == true"): 1,
    ("number", "p == Of::ONE"): 1,
    ("number", "s[0] == 'o'"): 1,
    ("both", "c == RED"): 2,
    ("both", "d == RED"): 2,
    ("both", "n == ns::Color::RED"): 3,
    ("both", "n == ::Color::RED"): 1,
    ("text", '*p == "octi"'): 2,
    ("text", 'str(p) == "octi"'): 2,
    ("text", 's == "octi"'): 2,
    ("text", 'str(s) == "octi"'): 2,
    ("text", 't == "octi"'): 2,
    ("text", 'str(t) == "octi"'): 2,
    ("text", 'str(*t) == "octi"'): 2,
    ("text", 'str(*tt) == "octi"'): 2,
    ("point", "*p->y > 0.5"): 3,
    ("point", "p->m[1][2] > 6.5"): 2,
}


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_wholes(lbtrace: Run, compiled: Callable[..., Path], tmp_path: Path, step: int) -> None:
    program = compiled("wholes", ["g++", "-g", "-O0", "-std=c++17", "-xc++"], SOURCE)
    for (function, condition), expected in islice(CONDITIONS.items(), 0, None, step):
        found = count(lbtrace, tmp_path / "calls.jsonl", program, function, condition)
        assert found == expected, condition


REFUSED = {
    ("both", "c == ::Color::RED"): ("::Color::RED is no constant of Color", "ns::Color::RED"),
    ("both", "c == PINK"): ("PINK is no constant of Color", "its constants are RED, GREEN"),
    ("both", "c == Color::PINK"): ("is no constant of Color", "its constants are RED, GREEN"),
    ("both", "n == RED"): ("RED is 7 or 0, as", "write Color::RED, or the number"),
    ("both", "n == Color::RED"): ("7 or 0, as", "write ::ns::Color::RED or ::Color::RED"),
    ("text", 'p == "octi"'): ("this is const string *, not text", "write *p, or name a member"),
    ("text", 'tt == "octi"'): ("this is const char **, not text", "write *tt"),
    ("text", 'str(tt) == "octi"'): ("this is const char **, not text", "write str(*tt)"),
    ("point", "p > 1.5"): ("Point * has no decimals", "write *p, or name a member of it: p->key"),
    ("point", "p->y > 1.5"): ("double * has no decimals", "write *p->y"),
    ("point", "p->m > 1.5"): ("this is float [2][3], which", "name one: p->m[0][0]"),
    ("point", "p->m[1] > 1.5"): ("this is float [3], which has", "name one: p->m[1][0]"),
    ("point", "p->x > 1.5f"): ("1.5f is not a number", "write 12, 0x1f, 1.5,"),
}


def test_advice(lbtrace: Run, compiled: Callable[..., Path]) -> None:
    program = compiled("wholes", ["g++", "-g", "-O0", "-std=c++17", "-xc++"], SOURCE)
    for (function, condition), (wrong, advice) in REFUSED.items():
        done = lbtrace("attach", "--func", function, "--where", condition, "--", program)
        assert done.returncode == 2, (condition, done.stdout)
        assert wrong in done.stderr, condition
        assert advice in done.stderr, condition


def test_a_pointer_and_a_number_are_added_as_in_c(
    lbtrace: Run, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    """Whatever is asked besides, one more leads to the next node."""
    program = compiled("wholes", ["g++", "-g", "-O0", "-std=c++17", "-xc++"], SOURCE)
    output = tmp_path / "calls.jsonl"
    words = ("attach", "-o", output, "--func", "whole", "--arg", "n", "--arg", "m=n + 1")
    assert lbtrace(*words, "--", program).returncode == 0
    records = map(json.loads, output.read_text().splitlines())
    args = [record["args"] for record in records if record["type"] == "call"]
    assert [int(m["value"], 16) - int(n["value"], 16) for n, m in args] == [104] * 4


RUST_CONDITIONS = {
    "o == None": 1,
    "None == r": 2,
    "not s == Empty": 2,
    "p.t.0 > 1": 2,
    "p->t.1.0 == 3": 1,
    "t.0 == -1": 1,
}


def test_wholes_of_rust(lbtrace: Run, compiled: Callable[..., Path], tmp_path: Path) -> None:
    program = compiled("rust_wholes", ["rustc", "-g", "-Copt-level=0"], RUST)
    for condition, expected in RUST_CONDITIONS.items():
        found = count(lbtrace, tmp_path / "calls.jsonl", program, "*passed", condition)
        assert found == expected, condition
    done = lbtrace("attach", "--func", "*passed", "--where", "o == 3", "--", program)
    assert "what can be compared: o == None" in done.stderr

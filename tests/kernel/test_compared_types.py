"""What conditions are about by its type: constants of enumerations by the scopes that they lie in,
arrays and records."""

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
enum class Color { RED, GREEN = 5 };
enum Plain { LOW = -1, HIGH = 2 };
namespace ns {
enum class Color { RED = 7, TEAL };
inline namespace v1 { enum class Mode { OFF, ON }; }
struct Box { enum Kind { OPEN, SHUT = 3 }; Kind k; };
template <class T> struct Of { enum Part { ONE = 1, TWO }; };
enum Loose { L0, L9 = 9 };
}
namespace { enum class Inner { A, B }; }
typedef ns::Color Alias;
struct Point { int x; int at[2]; char name[8]; };
#define NI extern "C" __attribute__((noinline))
NI long global(Color c, int n) { asm volatile(""); return n; }
NI long other(ns::Color c, ns::Box &b) { asm volatile(""); return (long)b.k; }
NI long aliased(Alias c) { asm volatile(""); return (long)c; }
NI long plain(Plain p, ns::Mode m, ns::Of<unsigned int>::Part part, Inner i, ns::Loose l)
{
    asm volatile("");
    return p;
}
NI long referred(const Color &c, int n) { asm volatile(""); return n; }
NI int elements(const int (&v)[3], const char (&text)[6]) { asm volatile(""); return v[0]; }
NI int members(const Point &p, Point *q) { asm volatile(""); return p.x; }
int main()
{
    for (int i = 0; i < 4; i++) {
        Color c = i % 2 ? Color::RED : Color::GREEN;
        ns::Color d = i % 2 ? ns::Color::RED : ns::Color::TEAL;
        ns::Box b{i % 2 ? ns::Box::OPEN : ns::Box::SHUT};
        int v[3] = {i, 2, 3};
        Point p{i, {i, 2}, "abc"};
        global(c, i + 3), other(d, b), aliased(d), referred(c, i + 3), elements(v, "hello");
        plain(i ? LOW : HIGH, i ? ns::Mode::ON : ns::Mode::OFF, ns::Of<unsigned int>::TWO,
              i ? Inner::A : Inner::B, ns::L9);
        members(p, &p);
    }
}
"""


@pytest.fixture(params=["g++", "clang++"])
def program(request: pytest.FixtureRequest, compiled: Callable[..., Path]) -> Path:
    return compiled("compared", [request.param, "-g", "-O0", "-xc++"], SOURCE)


FUNCTIONS = ("global", "other", "aliased", "plain", "referred", "elements", "members")

CONDITIONS = {
    "c == ns::Color::RED": {"other": 2, "aliased": 2},
    "c == Color::RED": {"global": 2, "referred": 2, "other": 2, "aliased": 2},
    "c == ::Color::RED": {"global": 2, "referred": 2},
    "c == Alias::TEAL": {"aliased": 2},
    "b.k == ns::Box::SHUT": {"other": 2},
    "b.k == Box::SHUT": {"other": 2},
    "b.k == ns::Box::Kind::SHUT": {"other": 2},
    "b.k == Kind::SHUT": {"other": 2},
    "p == ::LOW": {"plain": 3},
    "p == Plain::LOW": {"plain": 3},
    "m == ns::Mode::ON": {"plain": 3},
    "m == ns::v1::Mode::ON": {"plain": 3},
    "part == ns::Of::TWO": {"plain": 4},
    "i == Inner::B": {"plain": 1},
    "l == ns::L9": {"plain": 4},
    "l == ns::Loose::L9": {"plain": 4},
    "retval == GREEN": {"global": 1, "referred": 1},
    "v[0] == 3": {"elements": 1},
    'text == "hello"': {"elements": 4},
    "p.at[0] == 3": {"members": 1},
    'p.name == "abc" and p.x > 1': {"members": 2},
    'p->name == "abc" and q->x > 1': {"members": 2},
}


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_conditions_by_type(lbtrace: Run, program: Path, tmp_path: Path, step: int) -> None:
    functions = [f"--func={name}" for name in FUNCTIONS]
    for condition, expected in islice(CONDITIONS.items(), 0, None, step):
        output = tmp_path / "calls.jsonl"
        words = ("attach", "--force", "-o", output, *functions, "--where", condition)
        done = lbtrace(*words, "--", program)
        assert done.returncode == 0, (condition, done.stderr)
        found: dict[str, int] = {}
        for record in map(json.loads, output.read_text().splitlines()):
            if record["type"] == "call":
                found[record["name"]] = found.get(record["name"], 0) + 1
        assert found == expected, condition


REFUSED = {
    "c == ns::Color::GREEN": ("ns::Color::GREEN is no constant of", "write GREEN alone"),
    "b.k == ns::Color::SHUT": ("ns::Color::SHUT is no", "alone or ns::Box::Kind::SHUT, if that"),
    "b.k == ns::SHUT": ("ns::SHUT is no constant of Kind, in other", "write SHUT alone"),
    "c == ns::RED": ("ns::RED is no constant of Color, in", "write RED alone"),
    "b.k == SHUTT": ("SHUTT is no constant of Kind, in other", "its constants are SHUT, OPEN"),
    "SHUTT == b.k": ("SHUTT is no constant of Kind, in other", "its constants are SHUT, OPEN"),
    "n > 1 and b.k == 1": ("b is not known, in", "there are c, n, retval"),
    "v == 3": ("this is const int [3], which has elements, in elements", "name one: v[0]"),
    "p.at == 3": ("this is int [2], which has elements", "name one: p.at[0]"),
    "p == 3 and q->x == 1": ("this is const Point, in members", "a member: node->key"),
    "text == 5": ("this is const char [6], in elements", "name one of its elements"),
    "*q == 3": ("this is Point, in members", "a member"),
}


def test_what_cannot_be_compared_is_refused(lbtrace: Run, program: Path) -> None:
    functions = [f"--func={name}" for name in FUNCTIONS]
    for condition, (wrong, advice) in REFUSED.items():
        done = lbtrace("attach", *functions, "--where", condition, "--", program)
        assert done.returncode == 2, (condition, done.stdout)
        assert wrong in done.stderr, condition
        assert advice in done.stderr, condition

"""Records that travel otherwise than their members suggest at first sight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

Compile = Callable[[str, list[str], str], Path]
Traced = Callable[[Path, str], list[dict[str, Any]]]

CONSTRUCTORS = r"""
#include <cstdio>
struct Picky {
    Picky(long a) : a(a) {}
    Picky(const Picky &) = default;
    template <class T> Picky(T &&) : a(77) {}
    long a;
};
struct Defaulted { Defaulted(long a) : a(a) {} Defaulted(const Defaulted &) = default; long a; };
struct Later { Later(long a) : a(a) {} Later(const Later &); long a; };
Later::Later(const Later &) = default;
template <class F> __attribute__((noinline)) long traced_apply(F f, int k) { return f(k); }
__attribute__((noinline)) long traced_picky(Picky p, int k) { return p.a + k; }
__attribute__((noinline)) long traced_defaulted(Defaulted d, int k) { return d.a + k; }
__attribute__((noinline)) long traced_later(Later d, int k) { return d.a + k; }
int main() {
    Picky p(5L);
    Picky copy = p;
    traced_picky(copy, 1);
    traced_defaulted(Defaulted(6), 2);
    traced_later(Later(7), 3);
    long a = 8;
    traced_apply([a](int n) { return a + n; }, 4);
}
"""


def shown(calls: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of arguments, by the function's name without that of a template's instance."""
    return {c["name"].split("<")[0]: [a["value"] for a in c["args"]] for c in calls}


@pytest.mark.parametrize("dwarf", ["-gdwarf-5", "-gdwarf-4"])
def test_constructors(compiled: Compile, traced: Traced, dwarf: str) -> None:
    """A template is no copy constructor, and one that is defaulted outside of its class is one
    that the program provides."""
    program = compiled("constructors", ["g++", dwarf, "-O0", "-std=c++17"], CONSTRUCTORS)
    assert shown(traced(program, "traced_*")) == {
        "traced_picky": [{"a": 77}, 1],
        "traced_defaulted": [{"a": 6}, 2],
        "traced_later": [{"a": 7}, 3],
        "traced_apply": [{"__a": 8}, 4],
    }

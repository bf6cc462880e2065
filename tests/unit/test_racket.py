"""Racket itself says what is right: it runs the same calls."""

from __future__ import annotations

import subprocess

import pytest

from lbtrace.model import Boolean, Character, Integer, Void

INT = Integer("int", 4, True)
LONG = Integer("long", 8, True)

FIB = "(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))"
DOWN = "(define (down n) (if (= n 0) 0 (+ 1 (down (- n 1)))))"


@pytest.fixture
def racket(tmp_path):
    """What Racket prints for traced definitions and an expression."""

    def run(name, definition, *expressions):
        source = tmp_path / "program.rkt"
        calls = "".join(f"(void {expression})" for expression in expressions)
        source.write_text(
            f"#lang racket/base\n(require racket/trace)\n{definition}\n(trace {name})\n{calls}\n"
        )
        return subprocess.run(
            ["racket", str(source)], check=True, capture_output=True, timeout=60
        ).stdout.decode()

    return run


def test_fib(script, fib_plan, render, racket):
    script.fib(4)
    assert render("racket", fib_plan, script.batch()) == racket("fib", FIB, "(fib 4)")


@pytest.mark.parametrize("depth", [14, 25, 120])
def test_deep_calls(script, make_plan, render, racket, depth):
    for n in reversed(range(depth)):
        script.call(0, n)
    for n in range(depth):
        script.ret(0, n)
    plan = make_plan(("down", (INT,), INT))
    expected = racket("down", DOWN, f"(down {depth - 1})")
    assert render("racket", plan, script.batch()) == expected


def test_long_calls_are_broken_as_racket_breaks_them(script, make_plan, render, racket):
    """Widths around the limit, at every depth of prefix."""
    name = "walk"
    fixed = 1234567890123456789
    lasts = [10**k for k in range(16)]
    for last in lasts:
        for n in reversed(range(13)):
            script.call(0, n, fixed, -fixed, last)
        for _ in range(13):
            script.ret(0, 0)
    plan = make_plan((name, (LONG,) * 4, LONG))
    definition = f"(define ({name} n a b c) (if (= n 0) 0 (+ 0 ({name} (- n 1) a b c))))"
    calls = [f"({name} 12 {fixed} {-fixed} {last})" for last in lasts]
    assert render("racket", plan, script.batch()) == racket(name, definition, *calls)


def test_characters_booleans_and_no_result(script, make_plan, render, racket):
    codes = [*range(256), 0x300, 0x600, 0x200B, 0x2028, 0x1F600, 0x10FFFF]
    for code in codes:
        script.call(0, code, code % 2)
        script.ret(0)
    plan = make_plan(("f", (Character("char32_t", 4, False), Boolean("bool", 1)), Void()))
    calls = [f"(f (integer->char {code}) {'#t' if code % 2 else '#f'})" for code in codes]
    expected = racket("f", "(define (f c b) (void))", *calls)
    assert render("racket", plan, script.batch()) == expected


NAMES = [
    "std::vector<int>::push_back(int&&)", "main.(*T).M", "operator+", "a;b", "a|b", "a|b c", "1",
    "1e3", "e5", "-", "+", "...", "..1", "1a", "-1x", "1/2", "+inf.0", "#a", "#%a", "a#", "a b",
    "core::ops::{{closure}}", "~Foo", "a'b", "a`b", "A", "operator\"\"_x", "µ", "x[abi:cxx11]",
]  # fmt: skip


def test_names_are_written_as_symbols(script, make_plan, render, tmp_path):
    for probe in range(len(NAMES)):
        script.call(probe)
        script.ret(probe, 1)
    source = tmp_path / "names.rkt"
    strings = " ".join('"' + name.replace('"', '\\"') + '"' for name in NAMES)
    source.write_text(
        "#lang racket/base\n"
        f"(for ([name '({strings})])\n"
        '  (printf ">(~s)\\n<1\\n" (string->symbol name)))\n'
    )
    expected = subprocess.run(
        ["racket", str(source)], check=True, capture_output=True, timeout=60
    ).stdout.decode()
    plan = make_plan(*((name, (), INT) for name in NAMES))
    assert render("racket", plan, script.batch()) == expected


def test_what_did_not_return_has_no_result_line(script, fib_plan, render):
    script.call(0, 1)
    assert render("racket", fib_plan, script.batch()) == ">(fib 1)\n"


def test_lines_name_their_thread_once_there_are_two(script, fib_plan, render):
    script.call(0, 1, tid=7)
    script.call(0, 2, tid=8)
    script.ret(0, 1, tid=7)
    assert render("racket", fib_plan, script.batch()) == ">(fib 1)\n8 >(fib 2)\n7 <1\n"

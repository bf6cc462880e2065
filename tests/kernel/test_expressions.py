"""--arg and --where against programs whose calls are known, and against Redis."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace as lbtrace_python

Run = Callable[..., subprocess.CompletedProcess[str]]

LENGTHS = [4, 0, 4, 10000, 4, *range(-5, 5)]
TEXTS = ["octi", "", "fest and more", "x" * 64, None, *["n"] * 10]
"""What values.c passes to take_string; the fifth is no address."""


def calls(text: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in text.splitlines()]
    return [record for record in records if record["type"] == "call"]


def traced(lbtrace: Run, programs: Path, function: str, *options: object) -> list[dict[str, Any]]:
    done = lbtrace(
        *("attach", "--func", function, "--format", "jsonl", *options),
        *("--", programs / "values"),
    )
    assert done.returncode == 0, done.stderr
    return calls(done.stdout)


def values(record: dict[str, Any]) -> dict[str, Any]:
    return {argument["name"]: argument["value"] for argument in record["args"]}


def test_arguments_chosen(lbtrace: Run, programs: Path) -> None:
    seen = traced(
        *(lbtrace, programs, "take_string", "--arg", "str(arg0, arg1)", "--arg", "n=(int)arg1"),
        *("--arg", "(char)retval"),
    )
    assert [values(r)["n"] for r in seen] == LENGTHS
    assert [values(r)["str(arg0, arg1)"] for r in seen[:4]] == ["octi", "", "fest", "x" * 64]
    assert seen[3]["args"][0]["length"] == 10000
    assert seen[4]["args"][0]["unreadable"] == "fault"


@pytest.mark.parametrize(
    ("expression", "of"),
    [
        ("length + length", lambda text, n: 2 * n),
        ("length * 3 - 1", lambda text, n: 3 * n - 1),
        ("-length", lambda text, n: -n),
        ("(int)length - 1", lambda text, n: n - 1),
        ("str(text + 1)", lambda text, n: (text or "")[1:] if text else None),
        (
            "*(text + length - 1)",
            lambda text, n: text[n - 1] if text and 0 < n <= len(text) else None,
        ),
    ],
)
def test_sums(lbtrace: Run, programs: Path, expression: str, of: Callable[..., Any]) -> None:
    seen = traced(lbtrace, programs, "take_string", f"--arg={expression}", "--strings", "63")
    for record, text, n in zip(seen, TEXTS, LENGTHS, strict=True):
        expected = of(text, n)
        if expected is not None:
            assert record["args"][0]["value"] == expected


def test_pointers_followed(lbtrace: Run, programs: Path) -> None:
    seen = traced(
        *(lbtrace, programs, "take_node", "--depth", "1", "--arg", "node", "--arg", "which"),
        *("--arg", "after=node->next->key", "--arg", "str(node->name)"),
    )
    first, second, third = map(values, seen)
    assert (first["node"]["key"], first["node"]["name"]) == (11, "first")
    assert (second["node"]["key"], second["node"]["next"]) == (22, "0x0")
    assert (first["after"], first["str(node->name)"]) == (22, "first")
    assert [v["which"] for v in (first, second, third)] == [1, 2, 3]
    assert third["node"] == "0x0"
    assert (second["after"], third["after"]) == (None, None)


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("arg1 == 4", lambda text, n: n == 4),
        ("length < 0 or length > 4", lambda text, n: n < 0 or n > 4),
        ("not (length < 0 or length > 4)", lambda text, n: 0 <= n <= 4),
        ("length + length == 8", lambda text, n: n == 4),
        ("length * 2 < length", lambda text, n: n < 0),
        ("retval + 5 == 0", lambda text, n: n == -5),
        ('text == "octi"', lambda text, n: text == "octi"),
        ('text != "n"', lambda text, n: text is not None and text != "n"),
        ('text startswith "fest"', lambda text, n: (text or "").startswith("fest")),
        ('text startswith "' + "x" * 62 + '"', lambda text, n: (text or "").startswith("x" * 62)),
        ('str(arg0, arg1) == "fest"', lambda text, n: n == 4 and (text or "")[:4] == "fest"),
        ('comm == "values" and pid > 1 and arg1 == 3', lambda text, n: n == 3),
        ('comm startswith "other"', lambda text, n: False),
        ("retval < 0", lambda text, n: n < 0),
        ("retval < 0 and length > -3", lambda text, n: -3 < n < 0),
        ("duration > 1m", None),
        ("duration < 1000s", lambda text, n: True),
    ],
)
def test_filters(
    lbtrace: Run, programs: Path, mode: str, where: str, holds: Callable[..., bool] | None
) -> None:
    where = where.replace("1m", "60s")
    seen = traced(lbtrace, programs, "take_string", "--mode", mode, "--where", where)
    expected = [n for text, n in zip(TEXTS, LENGTHS, strict=True) if holds and holds(text, n)]
    assert [values(record)["length"] for record in seen] == expected
    assert all(record["end"] == "returned" for record in seen)
    assert all(record["duration"] > 0 for record in seen)


@pytest.mark.parametrize("function", ["fib", "main"])
def test_a_filter_alone(lbtrace: Run, programs: Path, mode: str, function: str) -> None:
    """Where nothing else makes the programs read memory."""
    words = ("attach", "--func", function, "--args", "none", "--mode", mode, "--format", "jsonl")
    where = ("--where", 'comm == "fib-bare"', "--quiet", "-o", "/dev/stderr")
    done = lbtrace(*words, *where, "--", programs / "fib-bare", 3)
    assert done.returncode == 0, done.stderr
    assert len(calls(done.stderr)) == {"fib": 5, "main": 1}[function]


def test_names_without_arguments(lbtrace: Run, programs: Path) -> None:
    words = ("attach", "--func", "fib", "--args", "none", "--format", "racket", "--quiet")
    done = lbtrace(*words, "--where", "n == 3", "-o", "/dev/stderr", "--", programs / "fib", 4)
    assert (done.returncode, done.stderr) == (0, ">(fib)\n<2\n")


def test_redis(
    start_lbtrace: Callable[..., Any], start: Callable[..., Any], tool: Callable[[str], str]
) -> None:
    """Debian's server is stripped, and exports createStringObject."""
    server = tool("redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    start(server, "--port", port, "--save", "", "--bind", "127.0.0.1")
    ping = ["redis-cli", "-p", port, "ping"]
    for _ in range(100):
        if b"PONG" in subprocess.run(ping, check=False, capture_output=True).stdout:
            break
        time.sleep(0.05)
    tracer = start_lbtrace(
        *("attach", "--binary", server, "--func", "createStringObject"),
        *("--arg", "str(arg0, arg1)", "--format", "jsonl"),
    )
    tracer.wait_for("Ctrl-C ends")
    subprocess.run(["redis-cli", "-p", port, "set", "octi", "fest"], check=True)
    subprocess.run(["redis-cli", "-p", port, "get", "octi"], check=True)
    subprocess.run(["redis-cli", "-p", port], input=b"COMMAND\n", check=True, capture_output=True)
    tracer.process.send_signal(2)
    status, out, error = tracer.finish()
    assert status == 0, error
    seen = [record["args"][0]["value"] for record in calls(out)]
    assert [s for s in seen if s in ("set", "octi", "fest", "get")] == [
        *("set", "octi", "fest", "get", "octi")
    ]
    assert "COMMAND" in seen


ROUNDS = """
__attribute__((noinline)) void down(volatile long *n) { do *n -= 3; while (*n > 0); }
__attribute__((noinline)) int once(volatile long *n) { return *n != 30; }
int main(void) { volatile long n = 30; int wrong = once(&n); down(&n); return wrong; }
"""
"""Whose function ``down`` loops to its first instruction, ten times."""


@pytest.mark.host
@pytest.mark.parametrize("condition", ["*n > 15", "*n > 15 and duration >= 0"])
def test_rounds_of_a_call_are_not_asked_again(
    lbtrace: Run, compiled: Callable[..., Path], condition: str
) -> None:
    program = compiled("rounds", ["gcc", "-g", "-Os"], ROUNDS)
    words = ("attach", "--format", "jsonl", "--where", condition)
    done = lbtrace(*words, "--func", "down", "--func", "once", "--", program)
    assert done.returncode == 0, done.stderr
    assert "down: left out because of a loop to the first instruction" in done.stderr
    assert [record["name"] for record in calls(done.stdout)] == ["once"]
    done = lbtrace(*words, "--func", "down", "--", program)
    assert done.returncode == 2
    assert "the condition would be evaluated in each iteration" in done.stderr
    assert "--returns none" in done.stderr
    plain = lbtrace("attach", "--format", "jsonl", "--func", "down", "--", program)
    assert [record["end"] for record in calls(plain.stdout)] == ["returned"]


@pytest.mark.host
def test_rounds_are_asked_where_they_are_calls(lbtrace: Run, compiled: Callable[..., Path]) -> None:
    program = compiled("rounds", ["gcc", "-g", "-Os"], ROUNDS)
    words = ("attach", "--format", "jsonl", "--where", "*n > 15", "--returns", "none")
    done = lbtrace(*words, "--func", "down", "--", program)
    assert done.returncode == 0, done.stderr
    assert len(calls(done.stdout)) == 5


REFERENCES = """
struct point { int x; };
enum class shade : unsigned char { dark, light = 7 };
__attribute__((noinline)) int sum(int &n, const point &p, int (&a)[3], double &d, int *&to,
                                  const shade &s)
{
    asm volatile("" ::: "memory");
    return n + p.x + a[1] + (int)d + *to + (int)s;
}
int main()
{
    int a[3] = {1, 2, 3}, *to = a;
    for (int i = 0; i < 4; i++) {
        int n = i * 4;
        double d = i + 0.5;
        sum(n, point{i}, a, d, to, i % 2 ? shade::light : shade::dark);
    }
}
"""


@pytest.mark.host
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n > 4", 2),
        ("*n > 4", 2),
        ("n + 4 == 8", 1),
        ("p.x * 4 == n", 4),
        ("a[1] == 2 and n == 0", 1),
        ("(*a)[2] <= n", 3),
        ("to[2] == 3 and n == 12", 1),
        ("to == NULL", 0),
        ("s == light and n > 4", 1),
        ("shade::dark == s", 2),
        ("s != 7", 2),
    ],
)
def test_a_reference_is_the_value_that_it_leads_to(
    lbtrace: Run, compiled: Callable[..., Path], condition: str, expected: int
) -> None:
    program = compiled("references", ["g++", "-g", "-O1"], REFERENCES)
    words = ("attach", "--format", "jsonl", "--func", "sum", "--where", condition)
    done = lbtrace(*words, "--arg", "n + 1", "--arg", "a[2]", "--", program)
    assert done.returncode == 0, done.stderr
    found = [[each["value"] for each in record["args"]] for record in calls(done.stdout)]
    assert len(found) == expected
    assert all(third == 3 and (after - 1) % 4 == 0 for after, third in found)


NAMES = """
    #include <cstdio>
    #include <string>
    enum Mode { RED = 1, GREEN = 2 };
    enum { FLAG_A = 4, FLAG_B = 8 };
    namespace n { enum class Kind : unsigned char { X = 3, Y = 5 }; }
    struct Node { Mode mode; const char *path; n::Kind kind; std::string text; };
    __attribute__((noinline)) int f(Node *node, int flags, const std::string &text)
    { __asm__ volatile("" :: "r"(node), "r"(flags), "r"(&text) : "memory"); return flags; }
    volatile int kept = FLAG_A | FLAG_B;
    int main()
    {
        Node one{RED, "/etc/passwd", n::Kind::X, "one"}, two{GREEN, "/tmp", n::Kind::Y, "two"};
        f(&one, FLAG_A, one.text), f(&two, FLAG_B, two.text), f(&two, FLAG_A | FLAG_B, one.text);
    }
"""


def test_constants_texts_and_lists_by_name(lbtrace: Run, compiled: Callable[..., Path]) -> None:
    program = compiled("names", ["g++", "-g", "-O1", "-x", "c++"], NAMES)
    words = ("attach", "--func", "f", "--format", "jsonl", "--arg", "flags")
    expected = {
        "node->mode == RED": [4],
        "node->mode & GREEN": [8, 12],
        "node->kind in (n::Kind::Y)": [8, 12],
        "flags & FLAG_A": [4, 12],
        "(flags & (FLAG_A | 8)) == 12": [12],
        "flags not in (FLAG_A, 12) and duration > 2 * 1ns": [8],
        'text in ("one", "three")': [4, 12],
        'node->path == "/etc/passwd"': [4],
        'node->path not in ("/etc/passwd", "/")': [8, 12],
    }
    for where, flags in expected.items():
        done = lbtrace(*words, "--where", where, "--", program)
        assert [values(record)["flags"] for record in calls(done.stdout)] == flags, where
    wrong = {
        "duration > 5": "write 5ms, 5us or 5ns",
        "duratoin > 5ms": "there are node, flags, text, retval, pid, tid, comm, duration",
        "flags in 5": "startswith or in: n == 5",
    }
    for where, hint in wrong.items():
        done = lbtrace(*words, "--where", where, "--", program)
        assert done.returncode == 2
        assert hint in done.stderr


FAILING = """
    #include <stdexcept>
    __attribute__((noinline)) int step(int n)
    {
        if (n == 3)
            throw std::runtime_error("three");
        return n % 2 ? -n : n;
    }
    __attribute__((noinline)) const char *find(int n)
    { __asm__ volatile("" :: "r"(n) : "memory"); return n ? "x" : nullptr; }
    __attribute__((noinline)) unsigned size(int n)
    { __asm__ volatile("" :: "r"(n) : "memory"); return -n; }
    __attribute__((noinline)) void walk(int n)
    { step(n); __asm__ volatile("" ::: "memory"); }
    int main()
    {
        for (int n = 0; n < 4; n++) {
            try { walk(n); } catch (std::exception &) { }
            find(n), size(n);
        }
    }
"""


def test_calls_that_failed(lbtrace: Run, compiled: Callable[..., Path]) -> None:
    program = compiled("failing", ["g++", "-g", "-O1", "-x", "c++"], FAILING)
    functions = ("--func", "step", "--func", "find", "--func", "size", "--func", "walk")
    words = ("attach", *functions, "--format", "jsonl", "--errors")
    done = lbtrace(*words, "--", program)
    shown = [(call["name"], values(call)["n"], call["result"]) for call in calls(done.stdout)]
    assert shown == [("find", 0, "0x0"), ("step", 1, -1), ("step", 3, None), ("walk", 3, None)]
    thrown = {"type": "std::runtime_error", "what": "three"}
    assert [call.get("exception") for call in calls(done.stdout)] == [None, None, thrown, thrown]
    assert "to compare" not in done.stderr
    both = lbtrace(*words, "--where", "n > 1", "--", program)
    assert [call["name"] for call in calls(both.stdout)] == ["step", "walk"]
    ended = lbtrace(*words[:-1], "--max-events", "13", "--", program)
    assert len(calls(ended.stdout)) == 13 + 1  # the exception ends two at once
    slow = lbtrace(*words, "--where", "duration > 1ns", "--", program)
    assert "2 left by exceptions or still open" in slow.stderr
    bare = compiled("failing-bare", ["g++", "-O1", "-x", "c++"], FAILING)
    refused = lbtrace("attach", "--func", "step", "--errors", "--", bare)
    assert "--errors: the type of its result is not known" in refused.stderr
    trace = lbtrace_python.trace(command=[program], functions="step", where="n > 1", errors=True)
    with trace as found:
        assert [call.end for call in found.calls()] == ["unwound"]

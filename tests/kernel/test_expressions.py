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

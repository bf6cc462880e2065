"""Strings that are hard to show are shown whole, safely, and in every format."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HARD = [
    b"\xff\xfe latin \xe9\0",
    b"before\0behind",
    b"\"quoted\" 'and' \\escaped\\",
    b"\x1b[31mred\x1b[0m\x1b]0;title\a",
    b"tab\tnewline\nreturn\r\b\f\v\x7f\0",
    "\x9b31m \u202e reversed".encode(),
    "héllo 🎉".encode(),
    b"</script>|<b>&amp;",
    b"",
]
"""What strings.c passes, as long as it says; as C strings they end at the NUL."""

LONG = [63, 64, 65, 4095, 4096, 70000, 1 << 20]
LIMIT = 64


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Callable[[str], str]:
    """One trace of the program, in any format."""
    import sys

    capture = tmp_path_factory.mktemp("strings") / "run.lbt"
    command = [sys.executable, "-m", "lbtrace"]
    expressions = ["--arg", "text", "--arg", "counted=str(text, length)"]
    words = ["attach", "--func", "take", *expressions, "--strings", str(LIMIT), "-o", str(capture)]
    subprocess.run([*command, *words, "--", str(programs / "strings")], check=True)

    def exported(name: str) -> str:
        made = [*command, "export", str(capture), "--format", name]
        return subprocess.run(made, check=True, capture_output=True).stdout.decode()

    return exported


def python_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def expected() -> list[tuple[bytes, bytes]]:
    """The two arguments of each of the first calls, as far as they are shown."""
    hard = [(data.partition(b"\0")[0], data) for data in HARD]
    return hard + [(b"x" * min(n, LIMIT),) * 2 for n in LONG]


def test_jsonl(export: Callable[[str], str]) -> None:
    records = [json.loads(line) for line in export("jsonl").splitlines()]
    calls = [record["args"] for record in records if record["type"] == "call"]
    wanted = expected()
    shown = [tuple(a["value"] for a in arguments) for arguments in calls[: len(wanted)]]
    assert shown == [tuple(map(python_text, pair)) for pair in wanted]
    for arguments, size in zip(calls[len(HARD) :], LONG, strict=False):
        assert [a.get("length", size) for a in arguments] == [size, size]
        assert all(("length" in a) == (size > LIMIT) for a in arguments)
    rest = [
        [a["value"] or a["unreadable"] for a in arguments] for arguments in calls[len(wanted) :]
    ]
    # text that runs out of what is there has no known end
    assert rest[:2] == [["fault"] * 2] * 2
    assert rest[2:4] == [["e" * LIMIT] * 2, ["end"] * 2]
    assert (calls[-3][0]["length"], calls[-3][1]["length"]) == (None, 80)


def test_chrome(export: Callable[[str], str]) -> None:
    events = json.loads(export("chrome"))["traceEvents"]
    shown = [e["args"]["counted"] for e in events if e.get("name") == "take" and e["ph"] in "BX"]
    assert shown[: len(HARD)] == [python_text(data) for data in HARD]


def test_tree(export: Callable[[str], str]) -> None:
    """Nothing steers the terminal, and what is escaped can be read back."""
    text = export("tree")
    assert all(c.isprintable() or c == "\n" for c in text)
    lines = re.findall(r'take\(text=("(?:[^"\\]|\\.)*"), counted=("(?:[^"\\]|\\.)*")\)', text)
    assert [read_c(counted) for _, counted in lines[: len(HARD)]] == HARD
    assert "… (1,048,576 bytes)" in text


SIMPLE = {
    **{"a": b"\a", "b": b"\b", "t": b"\t", "n": b"\n", "v": b"\v", "f": b"\f", "r": b"\r"},
    "0": b"\0",
}


def read_c(literal: str) -> bytes:
    """The bytes of a string as C writes it; ``\\x`` stands for a byte, ``\\u`` for a character."""

    def read(piece: re.Match[str]) -> bytes:
        if piece[1]:
            return bytes.fromhex(piece[1])
        if piece[2]:
            return chr(int(piece[2], 16)).encode()
        if piece[3]:
            return SIMPLE.get(piece[3], piece[3].encode())
        return piece[0].encode()

    pieces = re.finditer(r"\\x(..)|\\u(....)|\\(.)|.", literal[1:-1])
    return b"".join(map(read, pieces))


def test_racket(export: Callable[[str], str]) -> None:
    text = export("racket")
    assert all(c.isprintable() or c == "\n" for c in text)
    flat = re.sub(r"\n  +", " ", text)
    assert r'>(take #"\377\376 latin \351" #"\377\376 latin \351\000")' in flat
    assert r'>(take "before" "before\u0000behind")' in flat
    assert r'"\e[31mred\e[0m\e]0;title\a")' in flat
    assert r'"tab\tnewline\nreturn\r\b\f\v\u007F\u0000")' in flat
    assert '"héllo 🎉")' in flat

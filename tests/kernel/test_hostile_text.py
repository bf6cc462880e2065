"""Text of a program that wants to steer the terminal of whoever traces it, in every place
where text is shown. ESC, OSC, CR, LF, bidirectional and invisible characters, bytes that are
no UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from lbtrace.commands import main
from lbtrace.text import is_clean

pytestmark = pytest.mark.host

SOURCE = """
#include <sys/prctl.h>
enum colour { RED_AAAAAAAA = 1 };
struct pt_BBBBBBBB { int mem_CCCCCCCC; int y; };
typedef int (*fn)(int);
__attribute__((noinline)) int called_DDDDDDDD(int a) { __asm__ volatile(""); return a; }
__attribute__((noinline)) enum colour evil_EEEEEEEE(enum colour par_FFFFFFFF,
    struct pt_BBBBBBBB p, const char *s, char c, fn f)
{ __asm__ volatile(""); return p.y + f(par_FFFFFFFF) + s[0] + c ? 1 : 0; }
int main(void)
{
    struct pt_BBBBBBBB p = {1, 2};
    prctl(PR_SET_NAME, "cm_GGGGGGGG");
    return evil_EEEEEEEE(RED_AAAAAAAA, p, "tx_HHHHHHHH", 0x1b, called_DDDDDDDD) - 1;
}
"""

PAYLOADS = (
    b"\x1b[2J\x1b[1m",
    b"\x1b]0;pwn\x07",
    b"a\rb\nc\td\x7f",
    "\u202eab\u2066".encode(),
    "\u200bx\u3164y".encode(),
    "\x9b1m\u061cab".encode(),
    b"\xff\xfe\x9b1m\x85bc",
)
"""Eight bytes each, as what they are put in the place of."""


EVERYDAY = (0, 2, 5)
"""How far the payloads are shifted over the places where text is shown: others are slow."""


@pytest.fixture(
    params=[
        shift if shift in EVERYDAY else pytest.param(shift, marks=pytest.mark.slow)
        for shift in range(len(PAYLOADS))
    ]
)
def hostile(request, tmp_path, compiled):
    """A program all of whose names are hostile, in a folder whose name is, too."""
    assert {len(payload) for payload in PAYLOADS} == {8}
    plain = compiled("hostile", ["gcc", "-g", "-O1", "-w"], SOURCE)
    data, put = plain.read_bytes(), {}
    for number, letter in enumerate(b"ABCDEFGH"):
        put[chr(letter)] = PAYLOADS[(request.param + number) % len(PAYLOADS)]
        data = data.replace(bytes([letter]) * 8, put[chr(letter)])
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/in" + put["A"]))
    folder.mkdir()
    program = folder / os.fsdecode(b"p" + put["B"])
    program.write_bytes(data)
    program.chmod(0o755)
    names = {letter: payload.decode(errors="backslashreplace") for letter, payload in put.items()}
    return program, names, put["A"], put["H"]


@pytest.fixture
def run(capfdbinary):
    """Runs a command in this process; what it prints has to be fit for a terminal."""

    def run(*words, shown=()):
        status = main([str(word) for word in words])
        out, err = capfdbinary.readouterr()
        for stream in (out, err):
            for line in stream.decode("utf-8").split("\n"):
                assert is_clean(line), (words, line)
        for words_ in shown:
            assert words_ in out.decode(), (words, out.decode())
        return status, out.decode(), err.decode()

    return run


def test_nothing_hostile_is_shown_raw(hostile, run, tmp_path):
    program, put, _, text = hostile
    assert run("list", "--binary", program, "--func", "*_*", shown=["evil_", "pt_"])[0] == 0
    assert run("list", "--binary", program, "--func", "*_*", "--sites", shown=["evil_"])[0] == 0
    status, out, _ = run("list", "--binary", program, "--func", "evil_*", "--json")
    (listed,) = json.loads(out)
    assert listed["name"] == "evil_" + put["E"]
    assert listed["parameters"][0]["name"] == "par_" + put["F"]
    status, _, err = run("attach", "--dry-run", "--func", "evil_*", "--", program, shown=["evil_"])
    assert status == 0, err
    capture = tmp_path / "x.lbt"
    words = ("attach", "--func", "evil_*", "--func", "called_*")
    assert run(*words, "-o", capture, "--", program)[0] == 0
    for name in ("tree", "racket", "jsonl", "chrome"):
        status, out, err = run(*words, "--format", name, "--", program)
        assert status == 0, err
        said = run("export", capture, "--format", name)
        assert len(out) in range(len(said[1]) - 200, len(said[1]) + 200)
        if name == "jsonl":
            check_objects([json.loads(line) for line in out.splitlines()], put, text)
        elif name == "chrome":
            names = {event["name"] for event in json.loads(out)["traceEvents"]}
            assert "evil_" + put["E"] in names
        else:
            assert "evil_" in out
            assert "tx_" in out


def check_objects(records, put, text):
    (call,) = (r for r in records if r["type"] == "call" and r["name"].startswith("evil_"))
    values = [argument["value"] for argument in call["args"]]
    assert call["name"] == "evil_" + put["E"]
    assert next(a["name"] for a in call["args"]) == "par_" + put["F"]
    assert values[0] == "RED_" + put["A"]
    assert values[1] == {"mem_" + put["C"]: 1, "y": 2}
    assert values[2].encode(errors="surrogateescape") == b"tx_" + text
    assert values[3] == "\x1b"
    assert values[4] == "called_" + put["D"]
    threads = [record["name"] for record in records if record["type"] == "thread"]
    assert threads[-1].startswith("cm_")


def test_nothing_hostile_is_in_messages(hostile, run, tmp_path):
    program, _, evil, _ = hostile
    evil = os.fsdecode(evil)
    for words in (
        ("list", "--binary", f"{program}{evil}"),
        ("list", "--binary", program, "--func", f"no{evil}"),
        ("attach", "--func", f"no{evil}", "--", program),
        ("attach", "--func", "evil_*", "--", f"{program}{evil}"),
        ("attach", "--func", "evil_*", "--binary", program, "--", f"./no{evil}"),
        ("attach", "--func", "evil_*", "--arg", f"{evil}", "--", program),
        ("attach", "--func", "evil_*", "--where", f"{evil} > 1", "--", program),
        ("attach", "--func", "evil_*", "--args", evil, "--", program),
        ("attach", "--func", "evil_*", "-o", f"{tmp_path}/no{evil}/x.lbt", "--", program),
        ("attach", "--func", "evil_*", "-o", f"x{evil}", "--", program),
        ("attach", "--func", "evil_*", "--format", evil, "--", program),
        ("attach", "--func", "evil_*", "--", program, evil),
        ("attach", f"--{evil}"),
        ("export", f"no{evil}"),
        ("export", program),
        (evil,),
    ):
        status, _, err = run(*words)
        assert status or words[-1] == evil, words
        assert err, words


def test_nothing_hostile_is_said_while_waiting(hostile, start_lbtrace):
    program, _, _, _ = hostile
    tracing = start_lbtrace("attach", "--func", "evil_*", "--binary", program, text=False)
    line = tracing.process.stderr.readline().decode("utf-8")
    assert is_clean(line.rstrip("\n"))
    subprocess.run([program], check=True)
    tracing.process.terminate()
    out, err = tracing.process.communicate(timeout=60)
    for text in (out.decode(), err.decode()):
        assert all(is_clean(line) for line in text.split("\n"))

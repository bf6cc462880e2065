"""On which processor each call begins and returns: ``--cpu``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import lbtrace as api

FUNCTIONS = ("--func", "leaf", "--func", "move", "--func", "outer")


def places() -> list[str]:
    """Two processors, if there are so many."""
    allowed = sorted(os.sched_getaffinity(0))
    return [str(allowed[0]), str(allowed[-1])]


def test_calls(programs: Path, mode: Any) -> None:
    """The program says by its arguments where it is."""
    from lbtrace.session.options import Options

    with api.trace(
        command=[programs / "cpus", *places()],
        functions=["leaf", "move", "outer"],
        options=Options(mode=mode),
    ) as session:
        calls = list(session.calls())
    assert len(calls) == 500
    assert all((call.cpu, call.end_cpu) == (call["from"], call["to"]) for call in calls)


def test_formats(programs: Path, tmp_path: Path, lbtrace: Any) -> None:
    """A capture holds it, and every format shows it if that is asked for."""
    capture = tmp_path / "cpus.lbt"
    words = ("attach", *FUNCTIONS, "--strict", "-o", capture, "--")
    assert lbtrace(*words, programs / "cpus", *places()).returncode == 0

    def shown(*words: str) -> str:
        done = lbtrace("export", capture, *words)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    records = [json.loads(line) for line in shown("--format", "jsonl", "--cpu").splitlines()]
    calls = [each for each in records if each["type"] == "call"]
    assert len(calls) == 500
    for call in calls:
        assert [call["cpu"], call["end_cpu"]] == [each["value"] for each in call["args"]]
    assert '"cpu"' not in shown("--format", "jsonl")

    events = json.loads(shown("--format", "chrome", "--cpu"))["traceEvents"]
    shown_args = [event["args"] for event in events if event["ph"] == "X"]
    assert len(shown_args) == 500
    assert all(args["cpu"] == args["from"] and "end_cpu" in args for args in shown_args)

    racket = shown("--format", "racket", "--cpu")
    entries = re.findall(r"\((?:leaf|move|outer) (\d+) (\d+)\) ; CPU (\d+)", racket)
    assert len(entries) == 500
    assert all(cpu == begun for begun, _, cpu in entries)
    assert "CPU" not in shown("--format", "racket")

    lines = shown("--cpu").splitlines()
    assert lines[0].split() == ["DURATION", "TID", "CPU", "CALL"]
    for line in lines:
        if found := re.search(r" ([\d→]+)  (?:│ )*\w+\(from=(\d+), to=(\d+)\)( = |$)", line):
            cpu, begun, ended, closed = found.groups()
            assert cpu == (f"{begun}→{ended}" if closed.strip() and begun != ended else begun), line

"""System calls, against strace on the same programs, and against what a program does itself."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

THREADS = """
import threading, os
def work(n):
    for _ in range(3):
        os.write(int(os.open("/dev/null", os.O_WRONLY)), b"x" * n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for each in threads: each.start(); each.join()
"""

RUNS = {
    "ls": ["ls", "/usr/share"],
    "cat": ["cat", "/etc/hostname"],
    "python": ["/usr/bin/python3", "-S", "-c", "print(open('/etc/hostname').read())"],
    "sh": ["sh", "-c", "cat /etc/hostname; ls / | wc -l"],
    "threads": ["/usr/bin/python3", "-S", "-c", THREADS],
    "sqlite": ["sqlite3", ":memory:", "select count(*) from (select 1)"],
}
"""Programs that do the same in each run, in the same environment."""

ALONE = ["env", "-i", "PATH=/usr/bin:/bin", "MALLOC_ARENA_MAX=1"]

SILENT: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)

VARYING = {"futex", "restart_syscall", "rt_sigreturn", "getrandom"}
"""Calls that chance decides about."""

LINE = re.compile(r"(\w+)\((.*)\) += (-?\w+|\?)(?: (E[A-Z0-9]+))?.*")
RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
NAMES = re.compile(r"[A-Z_][A-Z0-9_]*(\|[A-Z0-9_x]+)*")


class Seen:
    """A call: its thread, its name, its arguments, what it returned."""

    def __init__(self, pid: Any, name: str, arguments: Sequence[Any], result: Any) -> None:
        self.pid, self.name, self.arguments, self.result = pid, name, arguments, result


def by_strace(tool: Callable[[str], str], words: Sequence[str], log: Path) -> list[Seen]:
    """The calls that strace sees."""
    command = [tool("strace"), "-f", "-q", "-s", "4000", "-o", log, *words]
    subprocess.run(command, **SILENT, check=False)
    return [*read_strace(log.read_text(errors="surrogateescape"))]


def read_strace(text: str) -> Iterator[Seen]:
    unfinished: dict[str, str] = {}
    for line in text.splitlines():
        pid, _, call = line.partition(" ")
        if line.endswith("<unfinished ...>"):
            unfinished[pid] = call.removesuffix("<unfinished ...>").strip()
            continue
        if resumed := RESUMED.fullmatch(call.strip()):
            call = unfinished.pop(pid) + resumed[1]
        if found := LINE.fullmatch(call.strip()):
            result = f"-{found[4]}" if found[4] else found[3]
            yield Seen(pid, found[1], split(found[2]), result)


def split(arguments: str) -> list[str]:
    """The arguments, at the commas outside of what is in brackets or quotation marks."""
    found, depth, quoted, skip = [""], 0, False, False
    for char in arguments:
        if char == '"' and not skip:
            quoted = not quoted
        skip = char == "\\" and not skip
        depth += (char in "[{(") - (char in "]})") if not quoted else 0
        if char == "," and not depth and not quoted:
            found.append("")
        else:
            found[-1] += char
    return [each.strip() for each in found]


def by_lbtrace(lbtrace: Callable[..., Any], words: Sequence[str], into: Path) -> list[Seen]:
    """The calls that lbtrace sees."""
    options = ["--syscall", "*", "--strings", "4000", "--ring-size", "64M", "-o", into]
    lbtrace("attach", *options, "--", *words, capture_output=False, **SILENT)
    rows = [json.loads(line) for line in into.read_text().splitlines()]
    lost = next(row["lost"] for row in rows if row["type"] == "summary")
    assert not any(count for cause, count in lost.items() if cause != "string_fault")
    calls = sorted((row for row in rows if row["type"] == "call"), key=lambda row: row["start"])
    return [read_call(call) for call in calls]


def read_call(call: dict[str, Any]) -> Seen:
    """A call as JSON has it, where what the kernel has filled takes the place of its address."""
    result = call["result"]
    filled = result if isinstance(result, dict) else {}
    values = [filled.get(each["name"], each["value"]) for each in call["args"]]
    return Seen(call["tid"], call["name"], values, filled.get("returned", result))


def differences(mine: Seen, theirs: Seen) -> Iterator[str]:
    """What strace has of a call in other words: numbers, names of constants, texts, errors."""
    for number, (one, other) in enumerate(zip(mine.arguments, theirs.arguments, strict=False)):
        if one is not None and not is_same(one, other):
            yield f"{mine.name} {number}: {one}, {other}"
    if str(mine.result).startswith("-E") and mine.result != theirs.result:
        yield f"{mine.name} returns {mine.result}, {theirs.result}"


def is_same(one: Any, other: str) -> bool:
    """Whether an argument is what strace shows, as far as that is no structure and no address."""
    if other.startswith('"') and isinstance(one, str) and not one.startswith("0x"):
        text = other.removesuffix("...")[1:-1].encode().decode("unicode_escape")
        return text.encode("latin-1") == one.encode("utf-8", "surrogateescape")
    if re.fullmatch(r"-?\d+", other) and isinstance(one, int):
        return int(other) == one
    if NAMES.fullmatch(other) and other != "NULL" and not str(one).startswith("0x"):
        words = {*re.sub(r"(FUTEX_\w+)_PRIVATE", r"\1|FUTEX_PRIVATE_FLAG", other).split("|")}
        return {*str(one).split("|")} == words - {"AT_STATX_SYNC_AS_STAT"}
    return True


def by_thread(seen: Sequence[Seen]) -> dict[str, list[Seen]]:
    """The calls by their name and the number of their thread, in the order in which these come."""
    pids = {pid: number for number, pid in enumerate(dict.fromkeys(each.pid for each in seen))}
    found: dict[str, list[Seen]] = {}
    for each in seen:
        if each.name not in VARYING:
            found.setdefault(f"{pids[each.pid]} {each.name}", []).append(each)
    return found


@pytest.mark.parametrize("name", RUNS)
def test_what_strace_sees(
    lbtrace: Callable[..., Any], tool: Callable[[str], str], tmp_path: Path, name: str
) -> None:
    words = [*ALONE, *RUNS[name]]
    theirs = by_thread(by_strace(tool, words, tmp_path / "strace.log"))
    mine = by_thread(by_lbtrace(lbtrace, words, tmp_path / "calls.jsonl"))
    count = {call: len(seen) for call, seen in theirs.items()}
    assert {call: len(seen) for call, seen in mine.items()} == count
    pairs = [pair for call, seen in mine.items() for pair in zip(seen, theirs[call], strict=True)]
    assert not [each for pair in pairs for each in differences(*pair)]

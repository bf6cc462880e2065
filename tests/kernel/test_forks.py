"""Processes that are forked inside of traced calls, against what the programs log themselves."""

from __future__ import annotations

import json
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import lbtrace as api
from lbtrace.bpf import features
from lbtrace.capture import read_capture
from lbtrace.session.options import Options

FUNCTIONS = {
    "forks": ("one", "two", "simple", "in_signal", "loops"),
}
LOOPS = ("loops",)
ANY = 1 << 62


class Line(NamedTuple):
    """What a program logs: a call by its process, thread and number, as deep as it is, and
    what it returned where it did."""

    pid: int
    tid: int
    number: int
    depth: int
    result: int | None = None


class Truth:
    """What a program has logged: the calls that each process made, those that returned there, and
    those among them that another process had made, all of them ``without`` the calls of some
    functions, and of those after the ``last`` number. ``ends`` are those of the calls it made: a
    call that nothing says to be over is open."""

    def __init__(self, log: Path, without: Container[str] = (), last: int = ANY) -> None:
        self.last = last
        lines = [line.split() for line in log.read_text().splitlines()]
        noted = [(what, Line(*map(int, numbers))) for what, *numbers in lines]
        left_out = {(line.pid, line.number) for what, line in noted if what in without}
        noted = [
            (what, line)
            for what, line in noted
            if what == "caught" or (line.number <= last and (line.pid, line.number) not in left_out)
        ]
        self.ends: dict[tuple[int, int], str] = {}
        for what, line in noted:
            if what == "enter":
                self.ends[line.pid, line.number] = f"open {line.tid}"
            elif what == "leave" and (line.pid, line.number) in self.ends:
                self.ends[line.pid, line.number] = "returned"
            elif what == "caught":
                left = f"open {line.tid}"
                for (pid, number), end in self.ends.items():
                    if pid == line.pid and number > line.number and end == left:
                        self.ends[pid, number] = "unwound"
        self.calls = Counter(line for what, line in noted if what == "enter")
        made = {(line.pid, line.number) for line in self.calls}
        left = [line for what, line in noted if what == "leave"]
        self.returned = Counter(line for line in left if (line.pid, line.number) in made)
        self.inherited = Counter(line for line in left if (line.pid, line.number) not in made)


def check(truth: Truth, rows: list[dict[str, Any]], hint: str) -> None:
    """That the rows of JSON Lines are true."""
    assert not [row for row in rows if row["type"] == "loss"]

    def seen(kind: str) -> list[tuple[Line, dict[str, Any]]]:
        lines = []
        for row in rows:
            if row["type"] == kind:
                number = row["args"][0]["value"]
                lines.append((Line(row["pid"], row["tid"], number, row["depth"]), row))
        return lines

    def results(lines: Iterable[tuple[Line, dict[str, Any]]]) -> Counter[Line]:
        return Counter(
            line._replace(result=row["result"]) for line, row in lines if row["end"] == "returned"
        )

    calls, inherited = seen("call"), seen("inherited")
    assert Counter(line for line, _ in calls) == truth.calls, hint
    assert results(calls) == truth.returned, hint
    assert results(inherited) == truth.inherited, hint
    ends = {(line.pid, line.number): row["end"] for line, row in calls}
    expected = {key: end.partition(" ")[0] for key, end in truth.ends.items()}
    for line, row in calls:  # what is left on a stack known by its mapping alone may wait there
        key = line.pid, line.number
        if row.get("stack") and (expected[key], ends[key]) == ("unwound", "open"):
            expected[key] = "open"
    assert ends == expected, hint
    assert rows[-1]["calls"] == truth.calls.total()
    seen = {line.pid for line in truth.calls + truth.inherited}
    # A condition may exclude all calls of a process in which other probes are hit.
    more = rows[-1]["processes"] - len(seen)
    assert more >= 0 if truth.last < ANY else more == 0, hint
    starts = {(line.tid, line.number, row["start"]) for line, row in calls}
    for line, row in inherited:
        assert (row["maker"], line.number, row["start"]) in starts, hint
        assert row["maker"] != line.pid
        assert (row["until"] is not None) == (row["end"] == "returned")
        assert row["start"] < row["forked"] < (row["until"] or 1 << 64)
    depths = {(row["pid"], row["tid"], row.get("stack")): row["depth"] for row in rows
              if row["type"] == "fork"}  # fmt: skip
    ended = Counter((row["pid"], row["tid"], row.get("stack")) for _, row in inherited)
    assert ended.keys() <= depths.keys()


@pytest.fixture(autouse=True)
def _acts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 5.15 the stack that a handler interrupts after a fiber is not known."""
    if not features.probe().cookie:
        monkeypatch.setenv("FORKS_WITHOUT_FIBERS", "1")


@pytest.fixture
def compare(lbtrace: Any, programs: Path, tmp_path: Path) -> Callable[..., Truth]:
    """Trace a program with random calls and forks, and compare; the fixture `lbtrace` also compares
    all formats with those of a capture."""

    def run(program: str, *options: object, without: Container[str] = (), last: int = ANY) -> Truth:
        seed = random.randrange(1 << 30)
        log, output = tmp_path / f"{seed}.log", tmp_path / f"{seed}.jsonl"
        kind = program.rpartition("-")[0]
        wanted = [name for name in FUNCTIONS[kind] if name not in without]
        names = [word for name in wanted for word in ("--func", name)]
        words = ("attach", *options, *names, "--until-last", "--strict", "-o", output)
        done = lbtrace(*words, "--", programs / program, seed, log)
        assert done.returncode == 0, f"seed {seed}: {done.stderr}"
        truth = Truth(log, without, last)
        rows = [json.loads(line) for line in output.read_text().splitlines()]
        check(truth, rows, f"{program}, seed {seed}")
        return truth

    return run


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_random_forks(compare: Any, mode: str, level: str) -> None:
    """fork, vfork, posix_spawn, clone, threads, execve, exceptions, longjmp, signal handlers."""
    for _ in range(2):
        compare(f"forks-{level}", "--mode", mode)


def test_returns_that_the_kernel_hooks(compare: Any, modes: list[str]) -> None:
    """It hooks them in the child as well."""
    options = ("--returns", "uretprobe", "--unsafe") if "session" in modes else ()
    for _ in range(2):
        compare("forks-harmless", *options)


def test_calls_that_pass_a_filter(compare: Any, mode: str) -> None:
    """The kernel remembers by thread which calls have passed: not those of other threads, which
    may lie on any stack, nor those that left none at the frame of an earlier one."""
    for last in (ANY, random.randrange(1, 40)):
        where = ("--where", f"number <= {last}")
        compare("forks-O2", "--mode", mode, *where, without=LOOPS, last=last)


@pytest.mark.parametrize("options", [("--returns", "uretprobe", "--unsafe"), ()])
def test_every_process_that_runs_a_file(
    start_lbtrace: Any, start: Any, programs: Path, tmp_path: Path, mode: str, options: Any
) -> None:
    """Here only processes are followed that have come by a probe, or may continue calls."""
    program, log, output = programs / "forks-harmless", tmp_path / "log", tmp_path / "out.jsonl"
    seed = random.randrange(1 << 30)
    names = [word for name in FUNCTIONS["forks"] for word in ("--func", name)]
    words = ("attach", "--mode", mode, *options, *names, "--binary", program)
    tracer = start_lbtrace(*words, "--strict", "-o", output)
    tracer.wait_for("Ctrl-C ends")
    assert start(program, seed, log).finish()[0] == 0
    tracer.process.send_signal(signal.SIGINT)
    status, _, said = tracer.finish()
    assert status == 0, said
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    check(Truth(log), rows, f"seed {seed}")


def test_the_library_functions_themselves(lbtrace: Any, programs: Path) -> None:
    """They return twice; what posix_spawn starts has a stack of its own."""
    program = programs / "forking"
    words = ("--returns", "sites", "--func", "fork@libc.so.6", "--func", "vfork@libc.so.6")
    own = ("--func", "posix_spawn@libc.so.6", "--func", "/leaf|.*(fork|spawn)s/@forking")
    both = ("--binary", program, "--binary", "libc.so.6")
    done = lbtrace("attach", *both, *words, *own, "--until-last", "--strict", "--", program)
    lines = [re.sub(r"^.{9}  +(\d+)  ", r"\1 ", line) for line in done.stdout.splitlines()]
    parent = next(line.split()[0] for line in lines if "vforks(" in line)
    children: dict[str, list[str]] = {}
    for tid, _, rest in (line.partition(" ") for line in lines):
        if tid.isdigit() and tid != parent:
            children.setdefault(tid, []).append(rest)
    entered = f"(entered in {parent})"
    assert [*children.values()] == [
        ["── forking", f"│ │ ── forked by {parent}", f"│ └ vfork = 0 {entered}",
         "│ leaf(n=1) = 2"],
        ["── forking", f"│ │ ── forked by {parent}", f"│ └ fork = 0 {entered}",
         "│ leaf(n=3) = 4", f"└ forks = 77 {entered}"],
    ]  # fmt: skip


def test_python_gets_the_calls_of_each_process(programs: Path, tmp_path: Path, mode: Any) -> None:
    """Each call once, as deep as it is, and no inherited one."""
    log = tmp_path / "log"
    command = [programs / "forks-O2", str(random.randrange(1 << 30)), log]
    options = Options(mode=mode, until_last=True)
    with api.trace(
        command=[*map(str, command)], functions=list(FUNCTIONS["forks"]), options=options
    ) as session:
        calls = Counter(Line(c.pid, c.tid, c[0], c.depth) for c in session.calls())
        assert session.losses().events == 0
    assert calls == Truth(log).calls


def test_a_crowd_of_processes(lbtrace: Any, programs: Path, tmp_path: Path, mode: str) -> None:
    """Of those that share a processor one may be preempted while the kernel tells of its fork."""
    width, rounds, output = 5, 10, tmp_path / "out.jsonl"
    names = ("--func", "/forked|executed|rounds/")
    words = ("attach", "--mode", mode, *names, "--until-last", "--strict", "-o", output)
    done = lbtrace(*words, "--", programs / "crowd", width, rounds)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    calls = [row for row in rows if row["type"] == "call"]
    made = Counter(
        (row["name"], row["args"][0]["value"], row["result"], row["end"]) for row in calls
    )
    assert made == {
        ("rounds", rounds, rounds, "returned"): width,
        **{("forked", n, n + 1, "returned"): width for n in range(rounds)},
        **{("executed", n + 1, n + 3, "returned"): width for n in range(rounds)},
    }
    depths = {name: {row["depth"] for row in calls if row["name"] == name} for name, *_ in made}
    assert depths == {"rounds": {0}, "forked": {1}, "executed": {0}}
    pids = Counter(row["pid"] for row in calls)
    assert Counter(pids.values()) == {1: width, 2: width * rounds}


def test_a_ring_that_is_too_small(
    lbtrace: Any, programs: Path, tmp_path: Path, start_lbtrace: Any
) -> None:
    """Forks may be lost, too. What is shown is true, and what is not is counted."""
    log, capture = tmp_path / "log", tmp_path / "out.lbt"
    program, seed = programs / "forks-O2", random.randrange(1 << 30)
    wanted = [name for name in FUNCTIONS["forks"] if name not in LOOPS]  # each round may be lost
    names = [word for name in wanted for word in ("--func", name)]
    words = ("attach", "--ring-size", 4096, *names, "--until-last", "--force", "-o", capture)
    lbtrace(*words, "--", program, seed, log)
    truth = Truth(log, LOOPS)
    with read_capture(str(capture)) as read:
        numbers = Counter((call.pid, call[0]) for call in read.calls())
        losses = read.losses
    made = Counter((line.pid, line.number) for line in truth.calls)
    assert numbers <= made
    assert (made - numbers).total() == losses.ring_full_entry, f"seed {seed}"

"""Call trees of programs that make it hard, compared with the programs' own account."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lbtrace.capture import read_capture
from lbtrace.model import KIND, UNPROBED, wire

Run = Callable[..., subprocess.CompletedProcess[str]]
Rust = Callable[[str, str], Path]

UNSAFE = ("--returns", "uretprobe", "--unsafe")
"""The programs have a copy of longjmp, which speaks against uretprobes, and use it in one mode."""

Lanes = dict[tuple[int, int], list[list[str]]]


def reported(path: Path, unended: str = "open") -> list[list[list[str]]]:
    """What the program says: for each of its stacks, its calls in the order of their ends.

    ``unended`` is how those end of which it saw no end.
    """
    lanes: Lanes = defaultdict(list)
    for line in path.read_text().splitlines():
        pid, lane, *call = line.split()
        lanes[int(pid), int(lane)].append([unended if word == "open" else word for word in call])
    return sorted(lanes.values())


def seen(text: str) -> list[list[list[str]]]:
    """What the trace says, in the same form."""
    lanes: Lanes = defaultdict(list)
    for line in text.splitlines():
        record = json.loads(line)
        if record["type"] != "call":
            continue
        assert (record["duration"] is None) == (record["end"] == "open") or _is_left(record)
        result = str(record["result"]) if record["end"] == "returned" else "-"
        argument = str(record["args"][0]["value"])
        lanes[record["pid"], record.get("stack", record["tid"])].append(
            [record["name"], argument, result, record["end"], str(record["depth"])]
        )
    return sorted(lanes.values())


def _is_left(record: dict[str, Any]) -> bool:
    """Whether no landing probe reported until when a call took that was left."""
    return record["end"] == "unwound" and record["duration"] is None


@pytest.fixture
def agrees(
    lbtrace: Run, programs: Path, tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Traces a program, and compares its account with the trace."""

    def run(
        program: str,
        *words: object,
        options: tuple[str, ...] = (),
        status: int = 0,
        unended: str = "open",
    ) -> subprocess.CompletedProcess[str]:
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        subprocess.run(
            [programs / program, log, *map(str, words)], capture_output=True, check=False
        )
        plain = log.read_text()
        log.unlink()
        done = lbtrace(
            *(
                "attach",
                "--func",
                r"/^traced_\w+$/",
                "--format",
                "jsonl",
                "--strict",
                "--args",
                "1",
            ),
            *(*options, "--", programs / program, log, *words),
        )
        assert done.returncode == status, done.stderr
        expected = reported(log, unended)
        assert [c[2:] for c in map(str.split, log.read_text().splitlines())] == [
            c[2:] for c in map(str.split, plain.splitlines())
        ] or "threads" in words, "tracing changed what the program does"
        assert seen(done.stdout) == expected
        return done

    return run


MODES = [
    ("deep", 300),
    ("mutual", 301),
    ("ackermann", 6),
    ("shapes", 300),
    ("longjmp", 20),
    ("signal", 1),
    ("altsignal", 1),
    ("fork", 3),
]

SHORT = [("shapes", 300), ("longjmp", 5), ("signal", 1), ("contexts", 50)]

CXX_BUILDS = [
    *("exact++-O0", "exact++-O2", "exact++-cet", "exact++-static", "exact++-stripped"),
    "exact++-clang-O2",
]

BUILDS = [
    *("exact-O0", "exact-O2", "exact-cet", "exact-lto", "exact-static-pie"),
    *("exact-stripped", "exact-clang-O2", "exact-clang-Oz"),
]


@pytest.mark.parametrize("words", MODES, ids=lambda words: words[0])
def test_ways_of_attaching(agrees: Run, mode: str, words: tuple[str, int]) -> None:
    agrees("exact-O2", *words, options=("--mode", mode))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("words", SHORT, ids=lambda words: words[0])
def test_builds(agrees: Run, build: str, words: tuple[str, int]) -> None:
    agrees(build, *words)


def test_uretprobes(agrees: Run) -> None:
    agrees("exact-harmless", "shapes", 300, options=UNSAFE)


@pytest.mark.parametrize("build", ["exact-O2", "exact-cet", "exact-stripped", "exact-clang-Oz"])
def test_tail_calls(agrees: Run, build: str) -> None:
    agrees(build, "tail", 50, options=("--returns", "sites"))


@pytest.mark.parametrize(
    ("program", "words"),
    [("fibers", (200,)), ("exact-O2", ("contexts", 200)), ("exact-O2", ("altsignal", 1))],
    ids=["fibers", "contexts", "altsignal"],
)
def test_conditions_leave_stacks_apart(agrees: Run, program: str, words: tuple[object]) -> None:
    agrees(program, *words, options=("--where", "arg0 >= 0"))


@pytest.mark.parametrize("where", ["arg0 >= 3", "arg0 >= 3 and retval >= 0"])
@pytest.mark.parametrize(
    "words",
    [("exact-O2", "longjmp", 9), ("exact++-O2", "throw", 9)],
    ids=lambda words: words[1],
)
def test_what_was_left_does_not_return_later(
    lbtrace: Run, programs: Path, tmp_path: Path, where: str, words: tuple[str, str, int]
) -> None:
    """Calls that conditions let pass and that never return have no result, also where
    another call at their frame, which does not pass, returns."""
    log = tmp_path / "log"
    program, *rest = words
    options = ("--func", r"/^traced_\w+$/", "--args", "1", "--returns", "sites")
    done = lbtrace(
        *("attach", *options, "--where", where, "--format", "jsonl", "--strict", "--"),
        *(programs / program, log, *rest),
    )
    assert done.returncode == 0, done.stderr
    wanted = sorted(
        (name, argument, end, result)
        for _, _, name, argument, result, end, _ in map(str.split, log.read_text().splitlines())
        if int(argument) >= 3
        and ("retval" not in where or (end == "returned" and int(result) >= 0))
    )
    calls = [r for r in map(json.loads, done.stdout.splitlines()) if r["type"] == "call"]
    assert wanted == sorted(
        (
            call["name"],
            str(call["args"][0]["value"]),
            call["end"],
            str(call["result"]) if call["end"] == "returned" else "-",
        )
        for call in calls
    )


@pytest.mark.parametrize("build", ["jumps", "jumps-clang"])
def test_jumps_that_may_leave_the_function(agrees: Run, build: str) -> None:
    agrees(build, "conditions", options=("--returns", "sites"))


@pytest.mark.parametrize("options", [(), UNSAFE], ids=["auto", "uretprobe"])
def test_tail_calls_that_come_back(agrees: Run, options: tuple[str, ...]) -> None:
    """By way of code that is not traced, to the same function at the same frame."""
    agrees("jumps", "again", options=(*options, "--func", "traced_again"))


@pytest.mark.parametrize("build", CXX_BUILDS)
def test_exceptions_through_traced_frames(agrees: Run, build: str) -> None:
    agrees(build, "throw", 13)


def test_uretprobes_and_exceptions_exclude_each_other(lbtrace: Run, programs: Path) -> None:
    """A changed return address is where the unwinder stops, and the program with it."""
    program = programs / "exact++-O2"
    options = ("attach", "--dry-run", "--returns", "uretprobe", "--func", "traced_frame")
    done = lbtrace(*options, "--", program)
    assert "exceptions follow return addresses" in done.stderr


@pytest.mark.parametrize("level", ["0", "2"])
@pytest.mark.parametrize("words", [("catch", 11), ("threads", 3)], ids=lambda words: words[0])
def test_rust_panics(agrees: Run, rust: Rust, level: str, words: tuple[str, int]) -> None:
    """Caught above eleven traced frames, or at the end of their threads."""
    agrees(rust("panics.rs", level), *words)


def test_an_exception_without_a_handler(agrees: Run) -> None:
    agrees("exact++-O2", "terminate", 3, status=134)


@pytest.mark.parametrize("build", CXX_BUILDS)
@pytest.mark.parametrize("words", [("generate", 50), ("play", 100)], ids=lambda words: words[0])
def test_coroutines(agrees: Run, build: str, words: tuple[str, int]) -> None:
    agrees(build, *words)


@pytest.mark.parametrize("what", ["generate", "play", "throw"])
def test_all_functions_of_a_program_with_coroutines(
    lbtrace: Run, programs: Path, tmp_path: Path, what: str
) -> None:
    """The program does what it does without being traced."""
    log = tmp_path / "log"
    program = programs / "exact++-O2"
    subprocess.run([program, log, what, "9"], check=True)
    plain = [line.split()[2:] for line in log.read_text().splitlines()]
    log.unlink()
    done = lbtrace("attach", "--func", "*", "--strict", "--", program, log, what, 9)
    assert done.returncode == 0, done.stderr
    assert [line.split()[2:] for line in log.read_text().splitlines()] == plain


def test_recursion_10_000_deep(agrees: Run) -> None:
    agrees("exact-O2", "deep", 10_000)


def test_uretprobes_say_what_they_cannot_see(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    done = lbtrace(
        *("attach", "--func", "traced_deep", *UNSAFE, "--strict", "--format"),
        *("jsonl", "--", programs / "exact-harmless", tmp_path / "log", "deep", 99),
    )
    assert done.returncode == 3
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    ends = [call["end"] for call in calls if call["type"] == "call"]
    assert sorted(ends) == ["open"] * 36 + ["returned"] * 64
    assert calls[-1]["lost"]["return_depth"] == 36


def test_200_threads(agrees: Run) -> None:
    agrees("exact-O2", "threads", 200)


def test_threads_are_merged_by_time(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    """Each in its own order, and all by time, but for what comes late for a batch."""
    log, capture = tmp_path / "log", tmp_path / "run.lbt"
    words = ("attach", "--func", "traced_*", "-o", capture, "--args", "1")
    options = (*UNSAFE, "--ring-size", "64M")
    done = lbtrace(*words, *options, "--", programs / "exact-harmless", log, "busy", 1500, 16)
    assert "nothing lost" in done.stderr, done.stderr
    late = last = events = 0
    own: dict[int, int] = defaultdict(int)
    with read_capture(str(capture)) as opened:
        batches = list(opened.batches())
    for event in (event for batch in batches for event in wire.decode(batch)):
        if event.kind & KIND == UNPROBED:  # of the whole trace
            continue
        assert event.time >= own[event.tid]
        late += event.time < last
        own[event.tid], last = event.time, max(last, event.time)
        events += 1
    assert events > 100_000
    assert late <= len(batches)


def test_confined_by_seccomp(agrees: Run) -> None:
    agrees("exact-O2", "confined", 97, options=("--func", "traced_returns"))


def test_fibers_that_switch_by_themselves(agrees: Run) -> None:
    """Only their assembly shows their stacks."""
    agrees("fibers", 2000)


ENDS = {"abort": (1, 134), "exec": (2, 0), "exit": (3, 3)}
"""The program's word for each way to end, and its status then."""


@pytest.mark.parametrize("end", ENDS)
def test_ends_inside_a_call(agrees: Run, end: str) -> None:
    how, status = ENDS[end]
    agrees("exact-O2", "ending", how, status=status)


def test_a_thread_ends_inside_a_call(agrees: Run) -> None:
    agrees("exact-O2", "ending-thread")

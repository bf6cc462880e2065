"""Several binaries in one trace: programs that execute each other, programs and libraries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import lbtrace as api

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]


class Made(NamedTuple):
    """A call, in the program's log and in the trace."""

    name: str
    depth: int
    argument: int
    result: int | None


def logged(path: Path) -> dict[int, list[Made]]:
    """The calls of each process, in the order in which they began. What is open when a
    process executes a program never returns."""
    calls: dict[int, list[Made]] = defaultdict(list)
    stacks: dict[int, list[int]] = defaultdict(list)
    for line in path.read_text().splitlines():
        pid, tid, what, name, number = line.split()
        if what == "exec":
            stacks[int(tid)].clear()
        elif what == ">":
            stacks[int(tid)].append(len(calls[int(pid)]))
            depth = len(stacks[int(tid)]) - 1
            calls[int(pid)].append(Made(name, depth, int(number), None))
        else:
            at = stacks[int(tid)].pop()
            calls[int(pid)][at] = calls[int(pid)][at]._replace(result=int(number))
    return calls


def traced(records: Iterable[dict[str, Any]]) -> dict[int, list[Made]]:
    calls: dict[int, list[Made]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record["start"]):
        assert record["end"] == ("open" if record["result"] is None else "returned"), record
        name = record["name"].partition("@")[2] or record["name"].replace("_alone", "")
        assert record["binary"].endswith(name)
        value = record["args"][0]["value"]
        calls[record["pid"]].append(Made(record["name"], record["depth"], value, record["result"]))
    return calls


def of_jsonl(text: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in text.splitlines()]
    return [record for record in records if record["type"] == "call"]


@pytest.fixture
def relay(programs: Path, tmp_path: Path) -> Callable[[str], list[str]]:
    """The words of a relay: ``first exec second fork first``, say."""

    def words(steps: str) -> list[str]:
        places = {name: str(programs / f"relay-{name}") for name in ("first", "second")}
        return ["env", f"RELAY_LOG={tmp_path / 'log'}", *(places.get(w, w) for w in steps.split())]

    return words


BOTH = ("--func", "relay", "--func", "work", "--func", "*_alone", "--func", "wait_here")


@pytest.mark.parametrize(
    "steps",
    [
        "first exec second",
        "first fork second exec first",
        "second vfork first spawn second exec second",
        "first spawn second thread first",
    ],
)
def test_programs_that_execute_each_other(
    lbtrace: Run, programs: Path, tmp_path: Path, relay: Any, steps: str
) -> None:
    check(lbtrace, programs, tmp_path, relay(steps))


def test_ways_of_attaching(
    lbtrace: Run, programs: Path, tmp_path: Path, relay: Any, mode: str
) -> None:
    check(lbtrace, programs, tmp_path, relay("second fork first exec second"), "--mode", mode)


def check(lbtrace: Run, programs: Path, into: Path, relay: list[str], *options: str) -> None:
    binaries = [w for n in ("first", "second") for w in ("--binary", programs / f"relay-{n}")]
    options = (*options, "--format", "jsonl", "--strict")
    done = lbtrace("attach", *binaries, *BOTH, *options, "--", *relay)
    assert done.returncode == 0, done.stderr
    truth = logged(into / "log")
    assert traced(of_jsonl(done.stdout)) == truth
    assert sum(map(len, truth.values())) > 10


def test_a_running_process_that_executes_them(
    start: Start, start_lbtrace: Start, programs: Path, tmp_path: Path, relay: Any
) -> None:
    shell = start("sh", "-c", 'read go; exec "$@"', "sh", *relay("second fork first"), stdin=-1)
    binaries = [w for n in ("first", "second") for w in ("--binary", programs / f"relay-{n}")]
    options = (*binaries, *BOTH, "--format", "jsonl", "--strict")
    tracer = start_lbtrace("attach", "--pid", shell.pid, "--follow", *options)
    tracer.wait_for("Ctrl-C ends")
    shell.process.stdin.write("go\n")
    shell.process.stdin.flush()
    status, out, error = tracer.finish()
    assert status == 0, error
    assert traced(of_jsonl(out)) == logged(tmp_path / "log")


def test_a_capture_and_python(
    lbtrace: Run, programs: Path, tmp_path: Path, relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = tmp_path / "run.lbt"
    files = [str(programs / f"relay-{name}") for name in ("second", "first")]
    binaries = [word for file in files for word in ("--binary", file)]
    command = relay("first fork second")
    assert lbtrace("attach", *binaries, *BOTH, "-o", capture, "--", *command).returncode == 0
    exported = lbtrace("export", capture, "--format", "jsonl", "--strict")
    assert traced(of_jsonl(exported.stdout)) == logged(tmp_path / "log")
    (tmp_path / "log").unlink()
    with api.trace(command=command, binary=files, functions=BOTH[1::2]) as session:
        calls = list(session.calls())
    assert {os.path.basename(call.binary) for call in calls} == {"relay-first", "relay-second"}
    assert sum(map(len, logged(tmp_path / "log").values())) == len(calls)


def test_a_shell_that_runs_two_programs(lbtrace: Run, programs: Path) -> None:
    binaries = ("--binary", programs / "fib", "--binary", programs / "loop")
    shell = f"{programs}/fib 3; {programs}/loop 0 2"
    done = lbtrace(
        *("attach", *binaries, "--func", "fib", "--func", "tick@loop"),
        *("--format", "racket", "--", "sh", "-c", shell),
    )
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" ")[2] for line in done.stdout.splitlines() if "(tick" in line]
    assert lines == [">(tick 0)", ">(tick 1)"]
    assert done.stdout.count("(fib ") == 5


def test_a_program_and_its_library_nest_in_one_tree(lbtrace: Run, programs: Path) -> None:
    done = lbtrace(
        *("attach", "--binary", programs / "fib", "--binary", "libc.so.6"),
        *("--func", "fib", "--func", "main@fib", "--func", "puts", "--func", "/^_?printf$/"),
        *("--func", "write@libc", "--format", "jsonl", "--", programs / "fib", 3),
    )
    assert done.returncode == 0, done.stderr
    printed = next(line for line in done.stdout.splitlines() if line.startswith("fib("))
    calls = of_jsonl("\n".join(s for s in done.stdout.splitlines() if s.startswith("{")))
    by_name = {call["name"]: call for call in calls}
    assert by_name["printf"]["depth"] == 1
    assert by_name["printf"]["binary"].endswith("libc.so.6")
    assert by_name["main"]["depth"] == 0
    assert by_name["main"]["binary"] == str(programs / "fib")
    # What stdio writes at the exit, with the newline.
    assert by_name["write"]["result"] == len(printed) + 1
    assert [c["args"][0]["value"] for c in calls if c["name"] == "fib"] == [1, 0, 2, 1, 3]


def test_two_versions_of_go_and_c(
    lbtrace: Run, programs: Path, go_program: Callable[..., Path]
) -> None:
    """They keep goroutines in different places; a program in C has none."""
    files = [go_program("fib", "1.15"), go_program("fib", "1.27.3"), programs / "fib"]
    done = lbtrace(
        *("attach", *(word for file in files for word in ("--binary", file)), "--strict"),
        *("--func", "main.fib", "--func", f"fib@{files[2]}", "--format", "jsonl", "--"),
        *("sh", "-c", "; ".join(f"{file} 5 >/dev/null" for file in files)),
    )
    assert done.returncode == 0, done.stderr
    calls = of_jsonl(done.stdout)
    for file in files:
        mine = [call for call in calls if call["binary"] == str(file)]
        assert len(mine) == 15
        assert [call["depth"] for call in mine].count(0) == 1
        assert (mine[-1]["depth"], mine[-1]["result"]) == (0, 5)
        assert all(("goroutine" in call) == (file != files[2]) for call in mine)
    assert {call["name"].partition("@")[0] for call in calls} == {"main.fib", "fib"}


def test_a_file_that_is_named_twice_is_one(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    (tmp_path / "same").symlink_to(programs / "fib")
    binaries = ("--binary", tmp_path / "same", "--binary", programs / "fib")
    done = lbtrace("attach", *binaries, "--func", "fib", "--", programs / "fib", 3)
    assert "5 calls" in done.stderr


def test_a_program_that_throws_through_its_library(
    lbtrace: Run, start: Start, start_lbtrace: Start, programs: Path
) -> None:
    """The program itself is not traced, and behaves as it does without."""
    options = ("--binary", "libc.so.6", "--func", "qsort", "--quiet", "-o", "/dev/null")
    done = lbtrace("attach", *options, "--", programs / "thrower")
    assert (done.returncode, done.stdout, done.stderr) == (0, "caught 5\n", "")
    running = start(programs / "thrower", "wait", stdin=-1)
    tracer = start_lbtrace("attach", "--pid", running.pid, *options[:4])
    tracer.wait_for("Ctrl-C ends")
    assert running.process.communicate("\n")[0] == "caught 5\n"
    assert running.process.returncode == 0
    status, out, _ = tracer.finish()
    assert status == 0
    assert "qsort(" in out


def test_any_program_may_throw_through_a_library(
    lbtrace: Run, start_lbtrace: Start, programs: Path
) -> None:
    """The program is unknown, without a target as well as behind a shell."""
    options = ("--binary", "libc.so.6", "--func", "qsort")
    tracer = start_lbtrace("attach", *options)
    tracer.wait_for("Ctrl-C ends")
    done = subprocess.run([programs / "thrower"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "caught 5\n")
    tracer.process.send_signal(signal.SIGINT)
    status, out, _ = tracer.finish()
    assert status == 0
    assert "qsort(" in out
    shell = ("sh", "-c", f"{programs}/thrower; true")
    done = lbtrace("attach", *options, "--quiet", "-o", "/dev/null", "--", *shell)
    assert (done.returncode, done.stdout, done.stderr) == (0, "caught 5\n", "")

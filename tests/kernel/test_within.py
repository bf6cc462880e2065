"""What happens below calls of some functions: ``--within``, against the program's own log."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace.session.options import Options


@pytest.mark.parametrize("forks", [False, True])
def test_random_graphs(programs: Path, tmp_path: Path, mode: Any, forks: bool) -> None:
    """Exceptions, longjmp, handlers on an alternate stack or not, threads, forks."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    level = chance.choice(["O0", "O2"])
    log = tmp_path / "log"
    command = [str(programs / f"within-{level}"), str(seed), str(log), *(["fork"] if forks else [])]
    with lbtrace.trace(
        command=command,
        functions=["one", "two", "in_signal"],
        within="outer*",
        options=Options(mode=mode),
    ) as session:
        calls = list(session.calls())
        assert session.losses().events == 0
    written = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    recorded = Counter((call.pid, call["number"], call.depth) for call in calls)
    assert recorded == Counter(written), f"seed {seed}, {level}"


@pytest.mark.parametrize("action", ["count", "histogram"])
def test_random_graphs_are_counted(programs: Path, tmp_path: Path, mode: Any, action: str) -> None:
    """The kernel decides, so that it can also count: the same calls, but for the durations of those
    that jumps have left. Those that bound what is counted may be counted, too, or not."""
    seed = random.randrange(1 << 30)
    log = tmp_path / "log"

    def counted(*functions: str) -> tuple[Counter[int], Counter[int]]:
        log.unlink(missing_ok=True)
        with lbtrace.trace(
            command=[programs / "within-O0", str(seed), log, "fork"],
            functions=functions,
            within="outer*",
            action=action,
            by="number",
            arg="duration" if action == "histogram" else (),
            options=Options(mode=mode),
        ) as session:
            rows = session.table()
            assert session.losses().events == 0
        numbers = Counter(int(line.split()[1]) for line in log.read_text().splitlines())
        return Counter({row.by["number"]: row.count for row in rows}), numbers

    found, written = counted("one", "two", "in_signal", "outer*")
    (outer, _), (inner, _) = counted("outer*"), counted("one", "two", "in_signal")
    assert found == outer + inner, seed
    if action == "count":
        assert found == written, seed
    else:
        assert found <= written, seed
        assert found.total() > written.total() / 4, seed


def test_goroutines(go_program: Any, tmp_path: Path) -> None:
    """Goroutines that move between threads, and whose stacks grow."""
    seed = random.randrange(1 << 30)
    program = go_program("within", "1.27.3")
    log = tmp_path / "log"
    with lbtrace.trace(
        command=["sh", "-c", f"exec {program} {seed} > {log}"],
        binary=program,
        functions="main.one",
        within="main.outer",
    ) as session:
        recorded = [call["number"] for call in session.calls()]
    assert sorted(recorded) == sorted(int(line) for line in log.read_text().split()), seed


def test_points(programs: Path) -> None:
    """Lines, and places, count where they are inside; the outer function is the root."""
    program = programs / "trace"
    with lbtrace.trace(
        command=[program], binary=program, lines="trace.c:33", within="traceme2"
    ) as session:
        calls = [str(call).partition(" = ")[0] for call in session.calls()]
    assert calls == ["trace.c:33()", "traceme2(n=13)"]


def test_values_and_conditions(programs: Path) -> None:
    """What is asked of values is not about functions that only bound what is recorded."""
    program = programs / "trace"
    with lbtrace.trace(
        command=[program], functions="larger", where="a > 12", arg="a", within="traceme*"
    ) as session:
        calls = [str(call) for call in session.calls()]
    assert [call for call in calls if call.startswith("larger")] == ["larger(a=13) = 36"]
    assert len([call for call in calls if call.startswith("traceme2(n=13)")]) == 1
    assert len([call for call in calls if call.startswith("traceme(n=")]) == 2


@pytest.mark.parametrize("returns", ["none", "sites", "uretprobe"])
def test_every_way_to_see_returns(programs: Path, returns: Any) -> None:
    program = programs / "trace"
    with lbtrace.trace(
        command=[program], functions="*er", within="traceme2", returns=returns
    ) as session:
        calls = [(call.name, call.end) for call in session.calls()]
    end = "open" if returns == "none" else "returned"
    assert sorted(calls) == [("larger", end), ("smaller", end), ("traceme2", "returned")]


def test_tail_calls(programs: Path) -> None:
    """What an outer function jumps to is inside if its return is hooked, else that is said; one
    that others jump to is outermost."""
    program = programs / "tail"

    def run(returns: Any) -> list[tuple[str, int, int, str]]:
        with lbtrace.trace(
            command=[program], functions=["leaf", "last", "jumps"], within="outer", returns=returns
        ) as session:
            calls = [(c.name, c["n"], c.result, c.end) for c in session.calls()]
            assert "tail call" not in " ".join(session.notes)
        return sorted(calls)

    hooked = run("uretprobe")
    assert hooked == sorted(
        (name, base + more, result, "returned")
        for base in (10, 31)
        for name, more, result in (
            *(("outer", 0, 2 * base + 3), ("last", 1, 2 * base + 3)),
            *(("leaf", 1, base + 1), ("leaf", 2, base + 2)),
        )
    )
    assert run("sites") == hooked


def test_the_plan_says_so(programs: Path, lbtrace: Any) -> None:
    words = ("attach", "--dry-run", "--func", "larger", "--within", "traceme2", "--")
    done = lbtrace(*words, programs / "trace")
    assert done.stdout.count("only what happens below its calls is recorded") == 1


MALLOC = """\
#include <stdlib.h>
#include <ucontext.h>
__attribute__((noinline)) void *handle(int size) { return malloc(size); }
int main(void)
{
    ucontext_t unused;
    free(malloc(1));
    free(handle(2));
    free(malloc(3));
    if (SWITCHES)
        makecontext(&unused, (void (*)(void))main, 0);
    return 0;
}
"""


@pytest.mark.host
@pytest.mark.parametrize("switches", [False, True])
@pytest.mark.parametrize("everywhere", [False, True])
def test_the_c_library_inside_of_a_function(
    compiled: Any, lbtrace: Any, start: Any, switches: bool, everywhere: bool
) -> None:
    """It sets up stacks only for programs that ask it to."""
    made = compiled("inside", ["gcc", "-g", "-O1", f"-DSWITCHES={switches:d}"], MALLOC)
    words = ["--within", "handle@inside", "--func", "malloc@libc", "--binary", made]
    command = ["sh", "-c", f"{made}; :"] if everywhere else [made]
    done = lbtrace("attach", *words, "--binary", "libc.so.6", "--format", "racket", "--", *command)
    if switches:
        assert done.returncode == 2
        assert "may set up several stacks in one mapping" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("(malloc ") == 1
        assert "(malloc 2)" in done.stdout


def test_refusals(programs: Path, lbtrace: Any) -> None:
    """A function that is not there."""
    done = lbtrace("attach", "--func", "main", "--within", "tracem3", "--", programs / "trace")
    assert done.returncode == 2
    assert "tracem3" in done.stderr
    assert "traceme" in done.stderr


def test_markers_beside_go(programs: Path, go_program: Any, lbtrace: Any) -> None:
    """They belong to threads, so that none is inside of a function of Go; the plan says so."""
    words = ("attach", "--dry-run", "--within", "main.outer", "--usdt", "shop:sale")
    files = (go_program("within", "1.27.3"), programs / "markers-O2")
    done = lbtrace(*words, *(word for file in files for word in ("--binary", file)))
    assert done.returncode == 0
    assert (done.stdout + done.stderr).count("no marker is inside of these") == 1

"""Calls that end by a jump to another function, compared with what uretprobes see: there both
return, with their results."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace import Options, count
from lbtrace.model import Call

Run = Callable[..., subprocess.CompletedProcess[str]]

GOING_ON = ("first", "second", "third", "leaf", "even", "odd", "text", "raw", "raw_text")
OTHERS = ("same_text", "no_result", "either")
AWAY = ("away", "through", "above")
"""They jump through the PLT or a pointer: what calls them directly is in the same file."""

THROWS = """\
#include <stdexcept>
#include <unistd.h>
#define TRACED __attribute__((noinline, noclone))
static volatile int sink;
TRACED int slow(int n) { usleep(2000); if (n == 7) throw std::runtime_error("7"); return n + 1; }
TRACED int query(int id) { sink = id; return slow(id); }
TRACED int caught(int id) { try { return query(id) - 1; } catch (std::exception &) { return -1; } }
int main() { for (int id = 5; id < 9; id++) sink = caught(id); }
"""


def traced(program: Path, functions: Sequence[str], returns: str = "auto") -> list[Call]:
    with lbtrace.trace(
        command=[str(program), "3"], functions=list(functions), returns=returns
    ) as session:
        return [*session.calls()]


def shown(calls: Sequence[Call]) -> list[tuple[str, str, str, int]]:
    """All calls but addresses, as both ways show them."""
    return [
        (call.name, str(call.args), "" if call.name == "raw" else str(call.result), call.depth)
        for call in calls
        if call.name not in AWAY
    ]


@pytest.mark.parametrize(
    "functions",
    [
        (*GOING_ON, *OTHERS),
        ("first",),
        ("first", "third"),
        ("even",),
        ("raw_text", "text", "same_text", "no_result"),
        ("either", "second"),
        ("raw_text", "same_text", "either"),
    ],
    ids=" ".join,
)
def test_uretprobes_see_the_same(programs: Path, functions: tuple[str, ...]) -> None:
    """Whether the targets are traced or not; where functions that are not traced come between, what
    they jump to is inside of the call that came there."""
    program = programs / "tails"
    calls, truth = (traced(program, functions, returns) for returns in ("auto", "uretprobe"))
    assert truth
    assert shown(calls) == shown(truth)
    assert {call.end for call in calls} == {"returned"}
    assert all(call.duration for call in calls)


def test_a_call_takes_as_long_as_what_it_jumps_to(programs: Path) -> None:
    calls = traced(programs / "tails", ["first"])
    assert max(call.duration or 0 for call in calls) > 6_000_000


@pytest.mark.parametrize("functions", [AWAY, ("away", "above")], ids=" ".join)
def test_returns_are_seen_behind_calls(programs: Path, functions: tuple[str, ...]) -> None:
    """Where the function is called directly, in its own file, though nothing else tells when it
    returns; elsewhere the call ends as it jumps, and so do calls that have jumped to it."""
    calls, truth = (traced(programs / "tails", functions, how) for how in ("auto", "uretprobe"))
    assert len(calls) == len(truth)
    unseen = 0
    for call, true in zip(calls, truth, strict=True):
        assert (call.name, call.depth) == (true.name, true.depth)
        far = call.args and call.args[0].value in (17, 18)
        if call.end == "tail":
            assert call.duration
            assert (call.name, call.leads_to) in {
                *(("away", "free"), ("above", "through"), ("through", "?"), ("above", "?")),
            }
            unseen += 1
        else:
            assert not far
            assert (call.end, call.result) == ("returned", true.result)
    assert unseen == 3 * sum(name in AWAY for name in functions)


def test_where_the_return_is_not_seen(programs: Path, lbtrace: Run) -> None:
    words = ("attach", "--func", "away", "--func", "above", "--func", "through")
    tree = lbtrace(*words, "--", programs / "tails").stdout
    assert tree.count(" → free\n") == 1
    assert "✗" not in tree
    assert "tail call" not in tree
    done = lbtrace(*words, "--format", "jsonl", "--", programs / "tails", 100)
    rows = [r for r in map(json.loads, done.stdout.splitlines()) if r["type"] == "call"]
    assert len(rows) == 600
    assert all(r["duration"] > 0 for r in rows)
    ends = [(r["name"], r["end"], bool(r.get("leads_to"))) for r in rows]
    for name in AWAY:
        assert ends.count((name, "tail", True)) == ends.count((name, "returned", False)) == 100


@pytest.mark.parametrize("functions", [("first", "second", "third"), ("first", "either")])
def test_conditions_on_returns(programs: Path, functions: tuple[str, ...]) -> None:
    program = programs / "tails"
    truth = [c for c in traced(program, functions, "uretprobe") if (c.result or 0) > 14]  # type: ignore[operator]
    with lbtrace.trace(
        command=[str(program), "3"], functions=list(functions), where="retval > 14"
    ) as session:
        calls = [*session.calls()]
        losses = session.losses()
    assert truth
    assert sorted(shown(calls)) == sorted(
        (name, args, result, 0) for name, args, result, _ in shown(truth)
    )
    names = [call.name for call in calls]
    if "third" in functions:  # which returns for the others
        assert names == ["third", "second", "first"] * (len(names) // 3)
        ends = [call.start + (call.duration or 0) for call in calls]
        assert ends == sorted(ends)
    assert (losses.uncompared_tail, losses.uncompared_open) == (0, 0)


BEHIND = """\
#include <unistd.h>
#define TRACED __attribute__((noipa)) int
static volatile long sink;
TRACED waits(int us) { sink++; return usleep(us); }
TRACED after(int us) { waits(us); return 0; }
TRACED loops(int n) { while (n--) waits(n); return 1; }
TRACED checked(int n) { sink += n; if (n > 60) return -1; waits(n); return 0; }
TRACED lines(int n)
{
	sink += n;
	waits(n);
	sink += 2; // line 12
	return waits(n + 1) + 4;
}
int main(void) { after(100); loops(3); checked(50); checked(70); lines(9); return 0; }
"""


def test_what_else_is_behind_a_call(compiled: Any, mode: Any) -> None:
    """Probes of the caller, at the instruction to which the call returns: the call comes first."""
    program = compiled("behind", ["gcc", "-O2", "-g"], BEHIND)
    functions = ["waits", "after", "loops", "checked", "lines"]
    with lbtrace.trace(command=[program], functions=functions, returns="uretprobe") as session:
        truth = [*session.calls()]
    with lbtrace.trace(
        command=[program], functions=functions, lines=["source.c:12"], options=Options(mode=mode)
    ) as session:
        calls = [*session.calls()]
    (point,) = [n for n, call in enumerate(calls) if call.end == "point"]
    assert calls[point].depth == 1
    assert [call.name for call in calls[point - 1 : point + 2]] == ["waits", "source.c:12", "waits"]
    del calls[point]
    assert shown(calls) == shown(truth)
    assert {call.end for call in calls} == {"returned"}


FORKS = """\
#include <sys/wait.h>
#include <unistd.h>
#define TRACED __attribute__((noipa)) int
static volatile long sink;
TRACED spawn(void) { sink++; return fork(); }
TRACED work(int n) { sink += n; return n; }
TRACED both(void) { int pid = spawn(); work(pid > 0); return pid; }
int main(void) { if (both()) wait(0); return 0; }
"""


def test_a_child_returns_from_what_its_parent_jumped_to(compiled: Any, lbtrace: Run) -> None:
    program = compiled("forks_away", ["gcc", "-O2", "-g"], FORKS)
    tree = lbtrace("attach", "--func", "spawn,work,both", "--", program).stdout
    assert re.search(r"│ └ spawn = 0 \(entered in \d+\)\n.* │ work\(n=0\) = 0\n", tree)
    assert "✗" not in tree


def test_what_a_call_jumps_to_is_within_it(programs: Path) -> None:
    with lbtrace.trace(
        command=[str(programs / "tails")], functions=["leaf"], within="above"
    ) as session:
        found = [(call.name, call.args[0].value, call.end, call.depth) for call in session.calls()]
    assert sorted(found) == [
        ("above", 7, "returned", 0),
        ("above", 17, "tail", 0),
        ("leaf", 8, "returned", 1),
    ]


def test_conditions_on_returns_behind_calls(programs: Path) -> None:
    """And aggregation in the kernel: each call has its own result, that which jumped first last."""
    program = programs / "tails"
    with lbtrace.trace(
        command=[str(program), "3"], functions=["above", "through"], where="retval > 14"
    ) as session:
        found = [(call.name, call.result) for call in session.calls()]
        losses = session.losses()
    assert found == [("through", 16), ("above", 16)] * 3
    assert losses.uncompared_tail == 6
    with count(
        command=[str(program), "3"], functions=["above", "through"], by=["func", "retval"]
    ) as made:
        made.wait()
    assert {(r.by["func"], r.by["retval"]): r.count for r in made.rows} == {
        ("above", 16): 3,
        ("through", 16): 3,
    }


def test_what_conditions_cannot_compare_is_counted(programs: Path, lbtrace: Run) -> None:
    words = ("attach", "--func", "above", "--func", "away", "--where", "duration >= 0")
    done = lbtrace(*words, "--", programs / "tails", 5)
    assert "10 calls left out, without a result or duration: 10 tail calls" in done.stderr


def test_exceptions(tmp_path: Path, lbtrace: Run) -> None:
    """What was thrown through took until it was caught."""
    (tmp_path / "throws.cc").write_text(THROWS)
    program = tmp_path / "throws"
    subprocess.run(["g++", "-O2", "-g", tmp_path / "throws.cc", "-o", program], check=True)
    for functions in (["query", "slow"], ["query"]):
        found = {c["id"]: c for c in traced(program, functions) if c.name == "query"}
        assert [found[n].result for n in (5, 6, 8)] == [6, 7, 9]
        assert found[7].end == "unwound"
        assert all((call.duration or 0) > 2_000_000 for call in found.values())
    done = lbtrace("attach", "--func", "query", "--where", "duration > 1ms", "--", program)
    assert done.stdout.count("query(") == 3
    for functions in (["query"], ["query", "slow"]):
        with count(command=[str(program)], functions=functions, by="retval") as made:
            made.wait()
        counted = {row.by["retval"]: row.count for row in made.rows}
        assert counted == {n: len(functions) for n in (6, 7, 9)}
    assert "1 call left out, without a result or duration: 1 left by exc" in done.stderr


WAITS = """\
#include <unistd.h>
__attribute__((noipa)) int waits(int us) { return usleep(us); }
static int (*volatile unseen)(int) = waits;
__attribute__((noipa)) int around(int us) { return unseen(us) + 1; }
int main(void) { for (int i = 0; i < 3; i++) around(20000); return 0; }
"""


def test_a_time_that_is_not_known_is_none(
    tmp_path: Path, lbtrace: Run, compiled: Callable[[str, list[str], str], Path]
) -> None:
    """The return of usleep, to which the library's caller jumps, is not seen."""
    program, into = compiled("waits", ["gcc", "-O2", "-g"], WAITS), tmp_path / "x.lbt"
    live = lbtrace("report", "--func", "waits,around", "--", program)
    lbtrace("attach", "--func", "waits,around", "-o", into, "--", program)
    for done in (live, lbtrace("report", into)):
        assert re.search("\n( +-){5} +3  waits\n", done.stdout)
        assert "\n3 calls jumped to a function whose return is not seen: in CALLS, " in done.stdout
        assert re.search(r"\d ms +3  around\n", done.stdout)
    done = lbtrace("attach", "--func", "waits", "--slow", "10ms", "--", program)
    assert "not slow" not in done.stderr
    assert "\n  not shown: 3 calls that jumped to a function whose return is not" in done.stderr
    done = lbtrace("attach", "--func", "waits,around", "--slow", "10ms", "--", program)
    assert done.stdout.count("└ around = 1\n") == done.stdout.count("waits(us=20000) → usleep") == 3


BUSY = """\
static volatile long sink;
__attribute__((noipa)) long helper(long n) {{ sink = n; return n + 1; }}
__attribute__((noipa)) long query(long n) {{ sink = n; return helper(n); }}
static long (*volatile unseen)(long) = query;
int main() {{ unseen(1); {calls} return 0; }}
"""


@pytest.mark.parametrize(("calls", "end"), [(8, "returned"), (9, "tail")])
def test_busy_target_is_not_watched(tmp_path: Path, calls: int, end: str) -> None:
    """Each call of a function that many others call would pay for its probes."""
    source, program = tmp_path / "busy.c", tmp_path / "busy"
    source.write_text(BUSY.format(calls="sink += helper(2);" * calls))
    subprocess.run(["gcc", "-O2", "-g", str(source), "-o", str(program)], check=True)
    (call,) = traced(program, ("query",))
    assert (call.end, call.leads_to) == (end, "helper" if end == "tail" else "")


SLOTS = """\
#include <stdio.h>
#ifdef TABLE
static long twice(long n) { return 2 * n; }
long (*const through)(long) = twice;
#else
extern long (*const through)(long) __attribute__((visibility("hidden")));
__attribute__((noinline)) long local(long n) { return through(n + 1); }
__attribute__((noinline)) int imported(const char *text) { return puts(text); }
int main() { return local(1) != 4 || imported("said") < 0; }
#endif
"""


def test_jumps_through_words_that_the_loader_sets(tmp_path: Path, lbtrace: Run) -> None:
    """As Rust's compilers make them of all calls into other crates."""
    (tmp_path / "slots.c").write_text(SLOTS)
    program = tmp_path / "slots"
    compiler = ["gcc", "-O2", "-g", "-fno-plt", "-Wl,-z,relro,-z,now"]
    slots, table = tmp_path / "slots.c", tmp_path / "table.o"
    subprocess.run([*compiler, "-DTABLE", "-c", slots, "-o", table], check=True)
    subprocess.run([*compiler, slots, table, "-o", program], check=True)
    done = lbtrace("attach", "--func", "local, imported", "--", program)
    assert "local(n=1) = 4\n" in done.stdout
    assert 'imported(text="said") = 5\n' in done.stdout

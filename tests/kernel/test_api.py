"""Tracing from Python."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Timer
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

import lbtrace


def test_command(programs: Path, mode: str) -> None:
    options = lbtrace.Options(mode=mode)  # type: ignore[arg-type]
    command = [str(programs / "fib"), "4"]
    with lbtrace.trace(command=command, functions=["fib"], options=options) as session:
        calls = list(session.calls())
        assert session.wait() == 0
        assert session.losses().total == 0
    seen = [(call.depth, call.args[0].value, call.result) for call in calls]
    assert seen == [
        *((3, 1, 1), (3, 0, 0), (2, 2, 1), (2, 1, 1), (1, 3, 2)),
        *((2, 1, 1), (2, 0, 0), (1, 2, 1), (0, 4, 3)),
    ]
    assert {call.name for call in calls} == {"fib"}
    assert {call.args[0].name for call in calls} == {"n"}
    assert {call.thread_name for call in calls} == {"fib"}
    assert sum(call.self_time or 0 for call in calls) == calls[-1].duration
    steps = [call.parent["n"] - call["n"] for call in calls if call.parent]
    assert len(steps) == len(calls) - 1
    assert {*steps} == {1, 2}
    assert repr(calls[-1]).startswith(f"<lbtrace.Call {calls[-1]}, ")
    assert len({call.pid for call in calls}) == 1
    assert all(call.end == "returned" and call.duration for call in calls)
    outermost = calls[-1]
    assert all(outermost.start < call.start for call in calls[:-1])


def test_beside_a_timer(programs: Path, mode: str) -> None:
    """A program that samples itself gets more signals than the verifier takes."""
    former = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        command = [str(programs / "fib"), "4"]
        options = lbtrace.Options(mode=mode)  # type: ignore[arg-type]
        with lbtrace.trace(command=command, functions=["fib"], options=options) as session:
            assert len(list(session.calls())) == 9
            assert session.losses().total == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def test_pid_and_stop(programs: Path, start: Callable[..., Any]) -> None:
    loop = start(programs / "loop", 200)
    loop.wait_for("ready", "stdout")
    with lbtrace.trace(pid=loop.pid, functions=["tick"], max_depth=1) as session:
        seen = []
        for call in session.calls():
            seen.append(call)
            if len(seen) == 5:
                session.stop()
        assert session.wait() is None
    assert len(seen) >= 5
    assert [c.args[0].value + 1 for c in seen if c.end == "returned"] == [
        c.result for c in seen if c.end == "returned"
    ]
    assert loop.process.poll() is None


def test_leaving_early_detaches_and_lets_the_command_go_on(programs: Path) -> None:
    command = [str(programs / "loop"), "1000"]
    with lbtrace.trace(command=command, functions=["tick"]) as session:
        next(session.calls())
    done = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "loop"], text=True, capture_output=True, check=True
    )
    subprocess.run(["kill", done.stdout.split()[0]], check=True)
    assert session.wait() == 7


def test_never_entered_or_never_iterated(programs: Path) -> None:
    """A command that was not released does not run."""
    command = ["sh", "-c", "echo ran"]
    with lbtrace.trace(command=command, binary=str(programs / "fib"), functions=["fib"]):
        pass
    lbtrace.trace(command=command, binary=str(programs / "fib"), functions=["fib"])


def test_values_and_filter(programs: Path) -> None:
    """What the command takes with --arg, --where, --args, --depth and --strings."""
    values = str(programs / "values")
    with lbtrace.trace(
        command=[values],
        functions=["take_string"],
        arg=["who=str(arg0, arg1)", "length"],
        where='length == 4 and text startswith "fest"',
        strings=3,
    ) as session:
        calls = list(session.calls())
        assert session.wait() == 0
    seen = [[(a.name, a.value) for a in call.args] for call in calls]
    assert seen == [[("who", lbtrace.Text(b"fes", 4)), ("length", 4)]]
    with lbtrace.trace(command=[values], functions=["take_node"], depth=1) as session:
        node, which = next(iter(session.calls())).args
    assert isinstance(node.value, lbtrace.Referent)
    assert isinstance(node.value.value, lbtrace.Fields)
    assert node.value.value.fields[0] == lbtrace.Argument("key", 11)
    assert which.value == 1
    with lbtrace.trace(command=[values], functions=["take_node"], args=0) as session:
        assert {call.args for call in session.calls()} == {()}


def test_errors(programs: Path) -> None:
    with pytest.raises(lbtrace.LbtraceError, match="matches no function") as raised:
        lbtrace.trace(binary=str(programs / "fib"), functions=["fibber"])
    assert "fib" in raised.value.hint
    with pytest.raises(lbtrace.LbtraceError, match="no argument 9") as raised:
        lbtrace.trace(binary=str(programs / "fib"), functions=["fib"], where="n > 2 and arg9 == 1")
    assert raised.value.detail.splitlines() == ["  n > 2 and arg9 == 1", " " * 12 + "^"]
    with pytest.raises(lbtrace.LbtraceError, match="too small"):
        lbtrace.trace(binary=str(programs / "fib"), functions=["fib"], strings=0)
    with pytest.raises(lbtrace.LbtraceError, match="nothing to trace"):
        lbtrace.trace(functions=["fib"])


def test_names_of_arguments_and_text(programs: Path) -> None:
    """What a program reads of a call; a string stands for a list of one."""
    command = [programs / "fib", "3"]
    with lbtrace.trace(command=command, functions="fib", arg="n") as session:
        assert repr(session).endswith("/fib: running>")
        first, *rest = session.calls()
    assert (first.args["n"], first["n"], dict(first.args)) == (1, 1, {"n": 1})
    assert "n" in first
    assert "m" not in first
    assert [str(call) for call in [first, *rest]] == [
        *("fib(n=1) = 1", "fib(n=0) = 0", "fib(n=2) = 1", "fib(n=1) = 1", "fib(n=3) = 2")
    ]
    values = str(programs / "values")
    with lbtrace.trace(command=[values], functions=["take_node"], depth=1) as session:
        node = next(session.calls())["node"]
    assert isinstance(node, lbtrace.Referent)
    assert node["key"] == 11
    assert f"{node.address}".startswith("0x")


def test_captures_give_the_same_calls(
    programs: Path, tmp_path: Path, start_lbtrace: Callable[..., Any]
) -> None:
    recorded = tmp_path / "fib.lbt"
    words = ("attach", "--func", "fib", "-o", recorded, "--", programs / "fib", "6")
    assert start_lbtrace(*words).finish()[0] == 0
    with lbtrace.trace(command=[programs / "fib", "6"], functions=["fib"]) as session:
        live = [(str(call), call.depth) for call in session.calls()]
    capture = lbtrace.read_capture(recorded)
    assert [(str(call), call.depth) for call in capture.calls()] == live
    assert capture.complete
    assert capture.losses.total == 0
    assert [call["n"] for call in capture.calls(max_depth=1)] == [6]
    assert repr(capture.calls()) == f"<lbtrace.Calls of 1 function of {programs / 'fib'}>"
    assert capture.notes == ()
    with pytest.raises(lbtrace.UsageError, match="max_depth is 'x', not a whole number"):
        capture.calls(max_depth="x")  # type: ignore[arg-type]
    for wrong in (None, b"fib.lbt", 3):
        with pytest.raises(lbtrace.UsageError, match=r"path is .*, not a path"):
            lbtrace.read_capture(wrong)  # type: ignore[arg-type]
    with pytest.raises(lbtrace.UsageError, match="does not count"):
        capture.counts()
    with pytest.raises(lbtrace.UsageError, match="does not aggregate"):
        capture.table()
    assert next(capture.calls())["n"] == 1


def test_calls_are_one_iterator(programs: Path) -> None:
    with lbtrace.trace(command=[programs / "fib", "3"], functions=["fib"]) as session:
        assert [next(session.calls())["n"], next(session.calls())["n"]] == [1, 0]
        assert [call["n"] for call in session.calls()] == [2, 1, 3]
        assert [*session.calls()] == []
    assert [*session.calls()] == []
    assert session.losses().total == 0


def test_calls_of_a_trace_that_counts(programs: Path) -> None:
    """There would be none, without a word."""
    words: dict[str, Any] = {"command": [programs / "fib", "3"], "functions": ["fib"]}
    with lbtrace.trace(**words, action="count") as session:
        with pytest.raises(lbtrace.UsageError, match="sends no calls") as raised:
            session.calls()
        assert raised.value.hint == "use counts()"
        assert [row.count for row in session.counts()] == [5]


def test_wrong_order(programs: Path) -> None:
    """Each step says what it needs before it, and none hangs."""
    session = lbtrace.trace(command=[programs / "loop", "200"], functions=["tick"])
    with pytest.raises(lbtrace.UsageError, match="has not begun"):
        next(session.calls())
    with pytest.raises(lbtrace.UsageError, match="has not begun"):
        session.running()
    assert session.losses() == lbtrace.Losses()
    session = lbtrace.trace(command=[programs / "loop", "200"], functions=["tick"])
    with session:
        with pytest.raises(lbtrace.UsageError, match="held until calls are read"):
            session.wait()
        with pytest.raises(lbtrace.UsageError, match="entered already"):
            session.__enter__()
        calls = session.calls()
        next(calls)
        (loop,) = session.running()
    loop.send(15)
    assert session.wait() in (7, 143)
    with pytest.raises(lbtrace.UsageError, match="the trace is over"):
        for _ in calls:
            pass
    with pytest.raises(lbtrace.UsageError, match="the trace is over"):
        session.running()
    with pytest.raises(lbtrace.UsageError, match="entered already"):
        session.__enter__()


def test_several_at_once_in_threads(programs: Path) -> None:
    """Each sees its own command, and ends when that ends."""

    def count(n: int) -> list[object]:
        command = [programs / "fib", str(n)]
        with lbtrace.trace(command=command, functions=["fib"]) as session:
            outermost = [call["n"] for call in session.calls() if call.depth == 0]
            assert session.losses().total == 0
            return [*outermost, session.wait()]

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(count, range(8, 13))] == [[n, 0] for n in range(8, 13)]


def test_stop_from_another_thread(programs: Path, start: Callable[..., Any]) -> None:
    loop = start(programs / "loop", 400)
    loop.wait_for("ready", "stdout")
    with lbtrace.trace(pid=loop.pid, functions=["tick"]) as session:
        timer = Timer(0.3, session.stop)
        timer.start()
        assert [call.name for call in session.calls()][:1] == ["tick"]


def test_asyncio(programs: Path) -> None:
    """Two traces, and a loop that runs meanwhile."""

    async def count(n: int) -> tuple[int, int | None]:
        command = [programs / "fib", str(n)]
        async with lbtrace.trace(command=command, functions=["fib"]) as session:
            seen = [call async for call in session.calls()]
            assert seen[-1]["n"] == n
            return len(seen), await asyncio.to_thread(session.wait)

    async def both() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        assert await asyncio.gather(count(10), count(12)) == [(177, 0), (465, 0)]
        ticking.cancel()
        return ticks

    assert asyncio.run(both()) > 10


def test_asyncio_cancelled(programs: Path, start: Callable[..., Any]) -> None:
    """A step that is given up loses nothing; a trace that is given up detaches."""
    loop = start(programs / "loop", 400)
    loop.wait_for("ready", "stdout")

    async def give_up() -> None:
        async with lbtrace.trace(pid=loop.pid, functions=["tick"]) as session:
            calls = session.calls()
            first = await anext(calls)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(anext(calls), 0.0001)
            second = await anext(calls)
            assert second["n"] - first["n"] <= 2
            async for _ in calls:
                pass

    async def cancel() -> None:
        task = asyncio.create_task(give_up())
        await asyncio.sleep(0.4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert loop.process.poll() is None

    async def cancel_entering() -> None:
        command = [programs / "fib", "3"]
        task = asyncio.create_task(lbtrace.trace(command=command, functions=["fib"]).__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_entering())
    for thread in enumerate_threads():
        if thread.name.startswith("lbtrace"):
            thread.join(timeout=10)
            assert not thread.is_alive()


def test_asyncio_only_with_async_with(programs: Path) -> None:
    async def wrong() -> None:
        with lbtrace.trace(command=[programs / "fib", "3"], functions=["fib"]) as session:
            async for _ in session.calls():
                pass

    with pytest.raises(lbtrace.UsageError, match="not entered by async with"):
        asyncio.run(wrong())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"functions": []}, "functions is empty"),
        ({"functions": ["fib", ""]}, "functions[1] is empty"),
        ({"functions": 5}, "functions is 5, not a string or a list of strings"),
        ({"functions": None}, "functions is None, not a string or a list of strings"),
        ({"functions": [b"fib"]}, "functions[0] is b'fib', not a string"),
        ({"functions": "/(/"}, 'functions=["/(/"]: '),
        ({"command": "./fib 4"}, "command='./fib 4' is one string"),
        ({"command": ["./fib", 4]}, "command[1] is 4, not a string"),
        ({"pid": 0}, "pid=0 is too small"),
        ({"pid": "1"}, "pid is '1', not a whole number"),
        ({"pid": True}, "pid is True, not a whole number"),
        ({"args": -1}, "args=-1 is too small"),
        ({"args": 65}, "args=65 is too large"),
        ({"strings": 0}, "strings=0 is too small"),
        ({"depth": 1.5}, "depth is 1.5, not a whole number"),
        ({"max_depth": 0}, "max_depth=0 is too small"),
        ({"returns": "maybe"}, "returns='maybe' is unknown"),
        ({"where": None}, "where is None, not a string"),
        ({"where": "nope > 1"}, "where: nope is not known"),
        ({"where": "retval > 1", "returns": "none"}, 'returns="none" sees no return'),
        ({"arg": "nope"}, "arg: nope is not known"),
        ({"follow": "yes"}, "follow is 'yes', not a bool"),
        ({"force": 1}, "force is 1, not a bool"),
        ({"locals": "n"}, "locals is 'n', not a bool"),
        ({"inlined": 1}, "inlined is 1, not a bool"),
        ({"action": "cuont"}, "action='cuont' is unknown"),
        ({"user": "root"}, "a user needs a command to run"),
        ({"binary": 3}, "binary is 3, not a path or a list of paths"),
        ({"binary": ["x", None]}, "binary[1] is None, not a path"),
        ({"binary": "a\0b"}, "NUL"),
        ({"options": {}}, "options is {}, not lbtrace.Options"),
        ({"options": lbtrace.Options(duration=-1)}, "duration=-1 is negative"),
        ({"options": lbtrace.Options(max_events=0)}, "max_events=0 is too small"),
        ({"options": lbtrace.Options(mode="fast")}, "mode='fast' is unknown"),
        ({"options": lbtrace.Options(until_last=True)}, "until_last is about"),
        ({"options": lbtrace.Options(ring_size=1 << 32)}, "ring_size=4294967296 is too large"),
    ],
)
def test_arguments_are_checked(programs: Path, wrong: dict[str, Any], message: str) -> None:
    given = {"functions": ["fib"], "binary": programs / "fib"} | wrong
    with pytest.raises(lbtrace.UsageError) as raised:
        lbtrace.trace(**given)
    assert message in raised.value.message
    assert raised.value.hint
    assert "--" not in f"{raised.value.message} {raised.value.hint}"

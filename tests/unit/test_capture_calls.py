"""The calls of a capture, for programs: every time from the beginning."""

from __future__ import annotations

import gc
import io
import warnings
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace.capture import CaptureWriter
from lbtrace.model import Integer, Losses

INT = Integer("int", 4, True)


@pytest.fixture
def recorded(script: Any, make_plan: Any, tmp_path: Path) -> Path:
    """A capture of three calls in three batches."""
    stream = io.BytesIO()
    writer = CaptureWriter(stream, make_plan(("fib", (INT,), INT)))
    for n in range(3):
        script.call(0, n)
        script.ret(0, 10 * n)
        writer.write(script.batch())
    writer.finish(Losses(nested_miss=2))
    path = tmp_path / "x.lbt"
    path.write_bytes(stream.getvalue())
    return path


def test_each_time_from_the_beginning(recorded: Path) -> None:
    with lbtrace.read_capture(recorded) as capture:
        assert repr(capture).startswith(f"<lbtrace.Capture {str(recorded)!r}: 1 function, ")
        for _ in range(2):
            assert not capture.complete or capture.losses.nested_miss == 2
            assert [call.result for call in capture.calls()] == [0, 10, 20]
            assert capture.complete
            assert capture.losses.nested_miss == 2
        next(capture.calls())
        assert len([*capture.calls()]) == 3
        assert [*capture.calls(max_depth=0)] == []


def test_two_at_the_same_time_are_refused(recorded: Path) -> None:
    capture = lbtrace.read_capture(str(recorded))
    one, other = capture.calls(), capture.calls()
    next(one)
    assert next(other).result == 0
    with pytest.raises(lbtrace.UsageError, match="read from the beginning again"):
        list(one)
    assert len([*other]) == 2


@pytest.mark.parametrize("salvage", [False, True])
def test_a_closed_one_is_refused(recorded: Path, salvage: bool) -> None:
    with lbtrace.read_capture(recorded, salvage=salvage) as capture:
        pass
    with pytest.raises(lbtrace.UsageError, match="closed"):
        list(capture.calls())


def test_a_damaged_one(recorded: Path) -> None:
    data = bytearray(recorded.read_bytes())
    data[-100] ^= 1
    recorded.write_bytes(data)
    capture = lbtrace.read_capture(recorded, salvage=True)
    calls = [call.result for call in capture.calls()]
    left_out = [*capture.left_out]
    assert left_out
    assert [call.result for call in capture.calls()] == calls
    assert capture.left_out == left_out


def test_it_stays_open(recorded: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(1 for _ in lbtrace.read_capture(recorded).calls()) == 3
        gc.collect()

"""Reports, compared with what the program logs of itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lbtrace as public


def test_rows_are_what_the_program_logs(
    programs: Path, tmp_path: Path, lbtrace: Callable[..., Any]
) -> None:
    """A capture of eight threads, and the same live."""
    log, capture = tmp_path / "log", tmp_path / "run.lbt"
    command = ("--func", "traced_*", "--", programs / "truth", log, "threads", 8, 300)
    lbtrace("attach", "-o", capture, *command)
    lines = [line.split() for line in log.read_text().splitlines()]
    threads = Counter((line[2], line[1]) for line in lines)
    functions = Counter(line[2] for line in lines)
    rows = public.report(capture, by="thread")
    assert {(row.name, row.key.split()[-1]): row.timed for row in rows} == threads
    assert (rows.losses.total, rows.unkept, rows.complete) == (0, 0, True)
    for row in rows:
        assert 0 < row.self_time <= row.total
        times = [row.min or 0, row.median or 0, row.p99 or 0, row.max or 0, row.total]
        assert times == sorted(times)
    with public.read_capture(capture) as read:
        calls = [*read.calls()]
    whole = {row.name: row.self_time for row in public.report(str(capture))}
    outermost = sum(call.duration or 0 for call in calls if call.depth == 0)
    assert sum(whole.values()) == outermost
    frame = rows.to_pandas()
    assert frame.groupby("name")["calls"].sum().to_dict() == functions
    exported = lbtrace("report", capture, "--format", "json", "--sort", "calls")
    assert {row["name"]: row["calls"] for row in json.loads(exported.stdout)["rows"]} == functions
    log.unlink()
    done = lbtrace("attach", "--format", "report", *command)
    table = [line.split() for line in done.stdout.splitlines()]
    assert table[0][-1] == "FUNCTION"
    shown = {words[-1]: int(words[-2].replace(",", "")) for words in table[1:]}
    assert shown == Counter(line.split()[2] for line in log.read_text().splitlines())

"""Reports, compared with what the program logs of itself."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import lbtrace as public
from lbtrace.errors import UsageError


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
    for words in (("attach", "--format", "report"), ("report",)):
        log.unlink(missing_ok=True)
        done = lbtrace(*words, *command)
        table = [line.split() for line in done.stdout.splitlines()]
        assert table[0][-1] == "FUNCTION"
        shown = {words[-1]: int(words[-2].replace(",", "")) for words in table[1:]}
        assert shown == Counter(line.split()[2] for line in log.read_text().splitlines())


def test_what_rows_are_by(programs: Path, tmp_path: Path, lbtrace: Callable[..., Any]) -> None:
    """Callers and arguments of the calls that tests/programs/trace.c makes: larger(12, 3) and
    larger(13, 3), each of which calls smaller once; in files, whose names say the format."""
    rows = {}
    for words, name in (
        (("--callers", "smaller"), "callers.csv"),
        (("--callees", "traceme2"), "callees.json"),
        (("--by", "arg:n"), "values.parquet"),
    ):
        path = tmp_path / name
        traced = ("--func", "traceme*,larger,smaller", "-o", path, "--", programs / "trace")
        done = lbtrace("report", *words, *traced)
        assert (done.returncode, done.stdout) == (0, "33\n37\n")
        rows[name] = path
    called = [*csv.DictReader(rows["callers.csv"].open())]
    assert [(row["key"], row["name"], row["calls"]) for row in called] == [
        ("larger", "smaller", "2")
    ]
    below = json.loads(rows["callees.json"].read_text())["rows"]
    assert [(row["key"], row["name"], row["calls"]) for row in below] == [
        ("traceme2", "traceme", 1)
    ]
    values = parquet.read_table(rows["values.parquet"]).to_pylist()
    assert Counter({(row["name"], row["key"]): row["calls"] for row in values}) == {
        **{("traceme", "12"): 1, ("traceme", "13"): 1, ("traceme2", "13"): 1},
        **{("larger", ""): 2, ("smaller", ""): 2},
    }


@pytest.mark.parametrize("command", ["count", "latency", "stacks", "report"])
def test_the_suffix_gives_the_format(
    command: str, programs: Path, tmp_path: Path, lbtrace: Callable[..., Any]
) -> None:
    for suffix in ("json", "csv", "parquet"):
        lbtrace(command, "--func", "fib", "-o", tmp_path / f"x.{suffix}", "--", programs / "fib", 4)
    assert json.loads((tmp_path / "x.json").read_text())
    read = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    lines = [*csv.DictReader((tmp_path / "x.csv").open())]
    assert read[0].keys() == lines[0].keys()
    assert len(read) == len(lines)
    done = lbtrace(command, "--func", "fib", "-o", tmp_path / "x.y", "--", programs / "fib", 4)
    assert (done.returncode, "add --format, or a suffix: .txt" in done.stderr) == (2, True)
    capture = tmp_path / "x.lbt"
    lbtrace(command, "--func", "fib", "-o", capture, "--", programs / "fib", 4)
    reader = command if command in ("stacks", "report") else "export"
    lbtrace(reader, capture, "-o", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().splitlines()[0] == ",".join(lines[0])


def test_reports_are_read_while_they_run(programs: Path, tmp_path: Path) -> None:
    command = [programs / "loop", "100000", "500"]
    seen = [0]
    with public.report(command=command, functions="tick") as table:
        assert not table.rows.complete
        while len(seen) < 4:
            seen += [row.calls for row in table if row.calls > seen[-1]]
        assert table.losses().total == 0
    (row,) = table.rows
    assert row.calls >= seen[-1]
    assert table.rows.complete
    assert table.to_pandas()["calls"].tolist() == [row.calls]
    assert repr(table).splitlines()[1].split()[-2:] == [f"{row.calls:,}", "tick"]
    traced = ["traceme*", "larger", "smaller"]
    table = public.report(command=[programs / "trace"], functions=traced, by="arg:n")
    with pytest.raises(UsageError, match="is empty"):
        table.rows  # noqa: B018
    assert Counter({(row.name, row.key): row.calls for row in table.wait()}) == {
        **{("traceme", "12"): 1, ("traceme", "13"): 1, ("traceme2", "13"): 1},
        **{("larger", ""): 2, ("smaller", ""): 2},
    }
    for wrong in ({"by": "arg:x"}, {"by": "x"}, {"action": "count"}, {"path": "x.lbt"}):
        with pytest.raises(UsageError):
            public.report(command=[programs / "trace"], functions=traced, **wrong)


@pytest.mark.parametrize("suffix", ["txt", "json", "csv", "parquet"])
def test_intervals_add_up(
    suffix: str, programs: Path, tmp_path: Path, lbtrace: Callable[..., Any]
) -> None:
    """Calls of eight threads for some seconds: each is in one interval."""
    log, path = tmp_path / "log", tmp_path / f"rows.{suffix}"
    words = ("--func", "traced_*", "--interval", "100ms", "-o", path)
    done = lbtrace("report", *words, "--", programs / "truth", log, "threads", 8, 5000)
    counted = Counter(line.split()[2] for line in log.read_text().splitlines())
    text = path.read_text() if suffix != "parquet" else ""
    found = list[tuple[str, str, int]]()
    if suffix == "txt":
        time = ""
        for line in map(str.split, text.splitlines()):
            if len(line) == 1:
                time = line[0]
            elif line[-1] != "FUNCTION":
                found.append((time, line[-1], int(line[-2].replace(",", ""))))
    elif suffix == "json":
        *objects, last = map(json.loads, text.splitlines())
        found = [(o["time"], row["name"], row["calls"]) for o in objects for row in o["rows"]]
        assert (last["calls"], sum(last["lost"].values())) == (counted.total(), 0)
    else:
        read = csv.DictReader(text.splitlines()) if text else parquet.read_table(path).to_pylist()
        found = [(row["time"], row["name"], int(row["calls"])) for row in read]
    assert done.stderr.count("nothing lost") == 1
    assert len({time for time, *_ in found}) > 1
    added = Counter[str]()
    for _, name, calls in found:
        added[name] += calls
    assert added == counted

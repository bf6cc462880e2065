"""``lbtrace report``, and what ``export`` chooses, compared with what the calls of recorded
captures say one by one."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace.answers.diff import compare, write_changes
from lbtrace.answers.profile import Profile
from lbtrace.answers.row import Row
from lbtrace.commands import main
from lbtrace.model import Call
from lbtrace.text import clean
from lbtrace.values import text

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
NAMES = sorted(path.name.removesuffix(".lbt.gz") for path in CAPTURES.iterdir())
NAMES.remove("count")  # it has no calls
FIELDS = ("calls", "timed", "unended", "total", "self_time", "min", "max")


class Node:
    """A call, and what is known of those around it."""

    def __init__(self, call: Call, callees: int) -> None:
        self.call, self.callees = call, callees
        self.around: Node | None = None

    @property
    def known(self) -> int:
        return self.callees if self.call.duration is None else self.call.duration


@pytest.fixture(scope="module", params=NAMES)
def recorded(request: Any, tmp_path_factory: Any) -> str:
    path = tmp_path_factory.mktemp("captures") / f"{request.param}.lbt"
    path.write_bytes(gzip.decompress((CAPTURES / f"{request.param}.lbt.gz").read_bytes()))
    return str(path)


@cache
def nodes(path: str) -> list[Node]:
    """The calls of a capture, each with the one around it."""
    waiting: dict[tuple[int, int, int], dict[int, list[Node]]] = defaultdict(dict)
    found = []
    with lbtrace.read_capture(path) as capture:
        for call in capture.calls(max_depth=max(capture.plan.shown_depth, 0) or None):
            lane = waiting[call.pid, bool(call.goroutine), call.goroutine or call.tid]
            if call.end == "point":
                found.append(Node(call, 0))
                continue
            within = lane.pop(call.depth + 1, [])
            node = Node(call, sum(each.known for each in within))
            for each in within:
                each.around = node
            lane.setdefault(call.depth, []).append(node)
            found.append(node)
    return found


def key(by: str, argument: str, call: Call) -> str:
    if by == "thread":
        return str(call.tid)
    if by.startswith("arg:"):
        return text(call[argument]) if argument in call else ""
    return ""


def expected(path: str, by: str, argument: str) -> dict[tuple[str, str], dict[str, int]]:
    """The rows of a report as each call says."""
    rows: dict[Any, Any] = defaultdict(lambda: dict.fromkeys(FIELDS, 0) | {"durations": []})
    for node in nodes(path):
        call = node.call
        row = rows[call.name, key(by, argument, call)]
        row["calls"] += 1
        if call.duration is None:
            row["unended"] += call.end != "point"
            continue
        row["durations"].append(call.duration)
        row["self_time"] += max(call.duration - node.callees, 0)
        around = node.around
        mine = call.name, call.binary, key(by, argument, call)
        while (
            around
            and (
                around.call.name,
                around.call.binary,
                key(by, argument, around.call),
            )
            != mine
        ):
            around = around.around
        row["total"] += 0 if around else call.duration
    for row in rows.values():
        durations = sorted(row.pop("durations"))
        row["timed"] = len(durations)
        row["min"], row["max"] = (durations[0], durations[-1]) if durations else (None, None)
        row["exact"] = durations
    return dict(rows)


def reported(path: str, *words: str, capfd: Any) -> list[dict[str, Any]]:
    assert main(["report", path, "--format", "json", "--quiet", *words]) == 0
    rows: list[dict[str, Any]] = json.loads(capfd.readouterr().out)["rows"]
    return rows


def test_rows_are_what_the_calls_say(recorded: str, capfd: Any) -> None:
    arguments = {each.name for node in nodes(recorded) for each in node.call.args} - {"arg0#2"}
    with lbtrace.read_capture(recorded) as capture:
        declared = {p.name for f in capture.plan.functions for p in f.parameters}
    for by in ["", "thread", *[f"arg:{name}" for name in sorted(arguments & declared)[:2]]]:
        truth = expected(recorded, by, by.removeprefix("arg:"))
        rows = reported(recorded, *(["--by", by] if by else []), capfd=capfd)
        assert len(rows) == len(truth)
        for row in rows:
            name = row["key"].rpartition(" ")[2] if by == "thread" else row["key"]
            wanted = truth[row["name"], name]
            exact = wanted.pop("exact")
            assert {field: row[field] for field in FIELDS} == wanted
            if exact:
                assert math.isclose(row["mean"], sum(exact) / len(exact))  # type: ignore[arg-type]
                for part, field in ((0.5, "median"), (0.99, "p99")):
                    there = exact[math.ceil(part * len(exact)) - 1]  # type: ignore[index]
                    assert abs(row[field] - there) <= 0.016 * there


@pytest.mark.parametrize("by", ["caller", "path"])
def test_what_is_divided_adds_up(recorded: str, by: str, capfd: Any) -> None:
    whole = {(row["name"], row["binary"]): row for row in reported(recorded, capfd=capfd)}
    added: dict[Any, dict[str, int]] = defaultdict(lambda: dict.fromkeys(FIELDS[:-2], 0))
    for row in reported(recorded, "--by", by, capfd=capfd):
        for field in FIELDS[:-2]:
            added[row["name"], row["binary"]][field] += row[field]
    for function, row in whole.items():
        for field in ("calls", "timed", "unended", "self_time"):
            assert added[function][field] == row[field]


def test_folded_stacks(recorded: str, capfd: Any) -> None:
    """Their times are those of the outermost calls."""
    assert main(["export", recorded, "--format", "folded", "--quiet"]) == 0
    folded: dict[str, int] = defaultdict(int)
    for line in capfd.readouterr().out.splitlines():
        path, _, time = line.rpartition(" ")
        folded[path.rpartition(";")[2]] += int(time)
    truth: dict[str, int] = defaultdict(int)
    for node in nodes(recorded):
        took = max((node.call.duration or 0) - node.callees, 0)
        truth[clean(node.call.name).replace(";", ":")] += took
    assert folded == {name: time for name, time in truth.items() if time}


def test_callers_and_callees(tmp_path: Path, capfd: Any) -> None:
    path = unpack("throw", tmp_path)
    callers = reported(path, "--callers", "*", capfd=capfd)
    assert reported(path, "--callees", "*", capfd=capfd) == [row for row in callers if row["key"]]


def unpack(name: str, directory: Path) -> str:
    path = directory / f"{name}.lbt"
    path.write_bytes(gzip.decompress((CAPTURES / f"{name}.lbt.gz").read_bytes()))
    return str(path)


def test_what_a_person_reads(tmp_path: Path, capfd: Any) -> None:
    path = unpack("interrupted", tmp_path)
    assert main(["report", path, "--by", "path", "--top", "2"]) == 0
    out = capfd.readouterr().out.splitlines()
    assert out[0].split() == ["TOTAL", "SELF", "AVG", "P99", "MAX", "CALLS", "FUNCTION"]
    assert out[1].split()[:2] == ["-", "-"]  # its end was not seen
    assert (out[1].split()[-1], out[2][-5:]) == ("fib", "  fib")
    assert any("without an end: in CALLS, not in the times" in line for line in out)
    with open(path, "r+b") as file:
        file.truncate(Path(path).stat().st_size - 8)
    assert main(["report", path, "--strict"]) == 3
    out = capfd.readouterr().out.splitlines()
    assert out[-1] == "the capture is not whole: calls and times are more than shown"
    assert main(["report", unpack("lossy", tmp_path), "--strict"]) == 3
    assert "lost: calls and times are more than shown\n" in capfd.readouterr().out


def test_comma_separated_rows_are_those_of_json(tmp_path: Path, capfd: Any) -> None:
    path = unpack("threads", tmp_path)
    rows = reported(path, "--by", "thread", "--sort", "calls", capfd=capfd)
    assert main(["report", path, "--by", "thread", "--sort", "calls", "--format", "csv"]) == 0
    read = [*csv.DictReader(io.StringIO(capfd.readouterr().out))]
    fields = ("name", "key", "calls", "total")
    assert [[row[f] for f in fields] for row in read] == [
        [str(row[f]) for f in fields] for row in rows
    ]
    calls = [row["calls"] for row in rows]
    assert calls == sorted(calls, reverse=True)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("--callees", "nothing"), "no traced function is called nothing"),
        (("--by", "nothing"), "--by nothing is no key"),
        (("--by", "arg:x"), "no argument is called x"),
        (("--by", "path", "--callers", "fib"), "--callers, --callees and --by exclude each other"),
    ],
)
def test_wrong_options(tmp_path: Path, words: tuple[str, ...], wrong: str, capfd: Any) -> None:
    assert main(["report", unpack("fib", tmp_path), *words]) == 2
    assert wrong in capfd.readouterr().err
    assert main(["report", unpack("count", tmp_path)]) == 2
    assert "holds what was aggregated in the kernel, no calls" in capfd.readouterr().err


def latest(node: Node, all_nodes: list[Node]) -> int:
    """When something was last seen below a call or of its end."""
    return max(
        each.call.start + (each.call.duration or 0)
        for each in all_nodes
        if node in (each, *outside(each))
    )


def outside(node: Node) -> list[Node]:
    around = node.around
    return [around, *outside(around)] if around else []


def identity(call: Any) -> tuple[Any, ...]:
    get = call.get if isinstance(call, dict) else lambda name: getattr(call, name)
    return get("name"), get("pid"), get("start"), get("depth")


def test_what_is_chosen(recorded: str, capfd: Any) -> None:
    """Chosen calls, all below them, those around them."""
    every = nodes(recorded)[-200:] if len(nodes(recorded)) < 200 else []
    if not every or Path(recorded).stem == "forks":
        every = []  # what is around calls is not known there, or it takes too long
    calls = [node for node in every if node.call.end != "point"]
    first = min((node.call.start for node in every), default=0)
    if every and Path(recorded).stem == "where":
        first = every[0].call.start  # calls are reported when they end
    durations = sorted(node.call.duration or 0 for node in calls)
    slow = durations[len(durations) // 2] if durations else 0
    name = calls[0].call.name if calls else ""
    middle = sorted(node.call.start - first for node in every)[len(every) // 2] if every else 0
    middle = max(middle, 1)
    thread = str(calls[0].call.tid) if calls else ""
    for words, chooses in (
        (["--func", name], lambda node: node.call.name == name),
        (
            ["--slow", f"{slow}ns"],  # main is a caller of slow calls, none of them
            lambda node: (
                latest(node, calls) - node.call.start > slow
                and not re.search(r"(^|\.|::)main$", node.call.name)
            ),
        ),
        (["--thread", thread], lambda node: str(node.call.tid) == thread),
        (["--from", f"{middle}ns"], lambda node: node.call.start - first >= middle),
        (
            ["--func", name, "--slow", f"{slow}ns"],
            lambda node: node.call.name == name and latest(node, calls) - node.call.start > slow,
        ),
    ):
        if not calls:
            return
        chosen = {node for node in calls if chooses(node)}
        wanted = {n for n in calls if n in chosen or chosen.intersection(outside(n))}
        wanted |= {around for node in chosen for around in outside(node)}
        assert main(["export", recorded, "--format", "jsonl", "--quiet", *words]) == 0
        lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        found = sorted(identity(line) for line in lines if line["type"] == "call")
        assert found == sorted(identity(node.call) for node in wanted), words
        assert lines[-1]["calls"] == len(found) or Path(recorded).stem == "depth"
        rows = reported(recorded, *words, capfd=capfd)
        points = sum(line["type"] == "point" for line in lines)
        counted = sum(row["calls"] for row in rows)
        assert counted == len(found) + points or Path(recorded).stem == "depth", words


def test_nothing_that_begins_later(tmp_path: Path, capfd: Any) -> None:
    path = unpack("fib", tmp_path)
    ends = max(node.call.start for node in nodes(path)) - min(n.call.start for n in nodes(path))
    for time, count in ((0, 1), (ends - 1, len(nodes(path)) - 1), (ends, len(nodes(path)))):
        assert main(["export", path, "--format", "jsonl", "--to", f"{time}ns"]) == 0
        shown = capfd.readouterr()
        assert shown.out.count('"type":"call"') == count
        calls = "1 call" if count == 1 else f"{count:,} calls"
        assert f"shown, as the options choose: {calls}\n" in shown.err


def test_nothing_is_chosen(tmp_path: Path, capfd: Any) -> None:
    path = unpack("fib", tmp_path)
    assert main(["export", path, "--thread", "nobody"]) == 0
    assert capfd.readouterr().err.splitlines()[1:] == [
        "  shown, as the options choose: 0 calls",
        "  no call is of a thread nobody",
    ]
    assert main(["export", path, "--from", "3s", "--to", "2s"]) == 2
    assert "--to is before --from" in capfd.readouterr().err


def test_what_is_chosen_in_forked_processes(tmp_path: Path, capfd: Any) -> None:
    """A process continues calls of its parent: those below are chosen as there."""
    path = unpack("forks", tmp_path)
    whole = [line.split() for line in export_tree(path, capfd)]
    names = {node.call.name for node in nodes(path) if not node.call.depth}
    words = [word for name in names for word in ("--func", name)]
    assert sorted(map(sorted, (line.split() for line in export_tree(path, capfd, *words)))) == (
        sorted(map(sorted, whole))
    )
    inner = next(node.call.name for node in nodes(path) if node.call.depth)
    chosen = [line.split() for line in export_tree(path, capfd, "--func", inner)]
    assert all(line in whole for line in chosen)


def export_tree(path: str, capfd: Any, *words: str) -> list[str]:
    assert main(["export", path, "--quiet", *words]) == 0
    out: str = capfd.readouterr().out
    return out.splitlines()


def row(calls: int, mean: float, deviation: float) -> Row:
    total = int(calls * mean)
    return Row("f", "/x/f", "", (), calls, calls, 0, total, total, mean, deviation)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (row(100, 1000, 50), row(100, 1010, 50), "+1.00 µs 100 µs 101 µs noise 100 f"),
        (row(100, 1000, 50), row(100, 1030, 50), "+3.00 µs 100 µs 103 µs +3.0% 100 f"),
        (row(100, 1000, 9), row(90, 900, 9), "-19.0 µs 100 µs 81.0 µs -10.0% 100 → 90 f"),
        (row(4, 1000, 9), row(90, 2000, 9), "+176 µs 4.00 µs 180 µs ? 4 → 90 f"),
        (None, row(9, 1000, 9), "+9.00 µs - 9.00 µs new 0 → 9 f"),
        (row(9, 1000, 9), None, "-9.00 µs 9.00 µs - gone 9 → 0 f"),
    ],
)
def test_noise_is_told_from_change(before: Row | None, after: Row | None, shown: str) -> None:
    changes = compare([before] if before else [], [after] if after else [])
    assert " ".join(write_changes(changes).splitlines()[1].split()) == shown


def test_files_of_other_names_are_compared_where_only_one_has_the_function() -> None:
    before = [Row("f", "/old/app", total=5), Row("g", "/old/app"), Row("g", "/lib/libg.so")]
    after = [Row("f", "/new/app-2", total=9), Row("g", "/new/app-2"), Row("g", "/new/libg-2.so")]
    changes = {(c.name, (c.before or c.after).binary): c for c in compare(before, after)}
    assert changes["f", "/old/app"].total == 4
    assert len(changes) == 5
    assert not any(c.before and c.after for c in changes.values() if c.name == "g")
    same = compare(before, [Row("g", "/moved/libg.so"), Row("g", "/new/app-2")])
    assert sum(bool(c.before and c.after) for c in same) == 2


def test_a_capture_has_not_changed_against_itself(
    recorded: str, capfd: Any, tmp_path: Path
) -> None:
    from pyarrow import parquet

    assert main(["report", recorded, "--diff", recorded, "--format", "json", "--quiet"]) == 0
    changes = json.loads(capfd.readouterr().out)["changes"]
    assert len(changes) == len(reported(recorded, capfd=capfd))
    assert not any(change["total"] or change["mean"] for change in changes)
    assert main(["report", recorded, "--diff", recorded, "--by", "thread"]) == 2
    assert "leave --by thread out" in capfd.readouterr().err
    assert main(["report", recorded, "--diff", recorded, "--format", "csv", "--quiet"]) == 0
    rows = [*csv.DictReader(io.StringIO(capfd.readouterr().out))]
    assert [row["name"] for row in rows] == [change["name"] for change in changes]
    assert all(row["before_total"] == row["after_total"] for row in rows)
    columns = tmp_path / "changes.parquet"
    words = ["--format", "parquet", "--quiet", "-o", str(columns)]
    assert main(["report", recorded, "--diff", recorded, *words]) == 0
    read = parquet.read_table(columns).to_pylist()
    assert [row["before_calls"] for row in read] == [int(row["before_calls"]) for row in rows]
    assert main(["report", recorded, *words, "--force"]) == 0
    read = parquet.read_table(columns).to_pylist()
    assert [row["calls"] for row in read] == [
        row["calls"] for row in reported(recorded, capfd=capfd)
    ]
    assert main(["report", recorded, "--diff", "nowhere.lbt"]) == 1
    assert capfd.readouterr().err.startswith("lbtrace: nowhere.lbt cannot be read")


def test_impossible_durations(fib_plan: Any) -> None:
    """Damaged captures have some."""
    profile = Profile(fib_plan)
    for duration in (-(1 << 64), 1 << 64):
        call = Call("fib", 1, 1, 0, 0, 0, 0)
        profile.entry(call)
        call.duration = duration
        profile.exit(call)
    (row,) = profile.rows()
    assert (row.calls, row.unended, row.max) == (2, 1, (1 << 63) - 1)


def test_rows_are_bounded(monkeypatch: Any, tmp_path: Path, capfd: Any) -> None:
    """What has no row is reported."""
    monkeypatch.setattr("lbtrace.answers.profile.MOST_ROWS", 3)
    assert main(["report", unpack("fib", tmp_path), "--by", "path", "--format", "json"]) == 0
    made = json.loads(capfd.readouterr().out)
    assert len(made["rows"]) == 3
    assert made["unkept"] + sum(row["calls"] for row in made["rows"]) == made["calls"] > 3


@pytest.mark.parametrize(
    ("words", "wrong", "advice"),
    [
        ("report", "neither a capture", "write: lbtrace report CAPTURE, or lbtrace report [--func"),
        ("report ./fib 3", "unexpected: 3", "write: lbtrace report -- ./fib 3"),
        ("report ./fib", "./fib is not a capture", "write: lbtrace report -- ./fib"),
        (
            "report --func f ./fib",
            "./fib is not a capture",
            "write: lbtrace report --func f -- ./fib",
        ),
        (
            "report --pid 1 run.lbt",
            "run.lbt is to be a capture, and --pid is about what is traced",
            "leave one of them out",
        ),
        ("report --from 2s -- ./fib", "--from is about a capture", "write: lbtrace report CAPTURE"),
        (
            "report run.lbt -- ./fib",
            "run.lbt is to be a capture, and -- is about what is traced",
            "leave one of them out",
        ),
        ("report --salvage -- ./fib", "--salvage is about a capture", "write: lbtrace report CAP"),
    ],
)
def test_a_trace_or_a_capture(
    words: str, wrong: str, advice: str, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fib").write_bytes(Path("/bin/true").read_bytes())
    Path("fib").chmod(0o755)
    assert main(words.split()) in (1, 2)
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith(f"lbtrace: {wrong}")
    assert said[1].startswith(f"  {advice}")

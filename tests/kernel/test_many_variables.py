"""Points with more variables than a probe reads; gdb says what is true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lbtrace as tracer
from tests.lines_truth import compare

SOURCE = Path(__file__).parents[1] / "programs/variables.c"


def line_of(comment: str) -> str:
    lines = SOURCE.read_text().splitlines()
    return f"variables.c:{next(n for n, text in enumerate(lines, 1) if comment in text)}"


@pytest.mark.host
def test_all_variables_equal_those_of_gdb(programs: Path, tmp_path: Path) -> None:
    """The tool that compares takes what is left out for wrong."""
    lines = [line_of("all are set"), line_of("sum += small3")]
    result = compare([str(programs / "variables")], lines, 6, tmp_path)
    assert not result.wrong, result.wrong
    assert result.stops == 12
    assert result.equal >= 12 * 35, result.counts()
    assert not result.counts()["unread"], result.counts()


@pytest.mark.parametrize("where", ["", "n == 4 and buffer7[0] == 'w' and large7 == 4000040"])
def test_points_are_whole(programs: Path, mode: Any, where: str) -> None:
    """Each point once, with all that the program computes, also where a condition chooses."""
    with tracer.trace(
        command=[str(programs / "variables")],
        functions="many",
        lines=line_of("all are set"),
        locals=True,
        **({"where": where} if where else {}),
        options=tracer.Options(mode=mode),
    ) as session:
        points = [call for call in session.calls() if call.end == "point"]
        assert not session.losses().total
    assert len({probe.site.address for probe in session.plan.probes if probe.values}) == 1
    assert [point["n"] for point in points] == ([4] if where else [*range(6)])
    for point in points:
        n = point["n"]
        for k in range(8):
            assert point[f"small{k}"] == n + k
            assert point[f"large{k}"] == n * (1000003 + k)
            assert point[f"real{k}"] == n / (k + 1.0)
            assert str(point[f"buffer{k}"]) == str(point[f"text{k}"]) == f"who {n + k}"
            assert point[f"point{k}"]["y"] == -n
        assert point.depth == 1


def test_what_no_probe_reads_is_counted(programs: Path, lbtrace: Any, tmp_path: Path) -> None:
    """300 variables and 2 others: 256 are read, and the rest has a number, in every format."""
    capture = tmp_path / "hundreds.lbt"
    line = line_of("hundreds are set")
    words = ("attach", "--line", line, "--locals", "-o", capture)
    done = lbtrace(*words, "--", programs / "variables")
    assert done.returncode == 0, done.stderr
    assert f"{line}: some values omitted" in done.stderr
    written = {
        name: lbtrace("export", capture, "--format", name).stdout
        for name in ("tree", "jsonl", "chrome", "racket")
    }
    rows = [json.loads(text) for text in written["jsonl"].splitlines()]
    points = [row for row in rows if row["type"] == "point"]
    assert len(points) == 6
    for n, point in enumerate(points):
        *values, last = point["args"]
        assert values[0] == {"name": "n", "value": n}
        numbers = [each["value"] for each in values[1:]]
        assert numbers == [n + 1100 + k for k in range(255)]
        assert last == {"name": "", "value": None, "unreadable": "… 45 more"}
    assert written["tree"].count(", <… 45 more>\n") == 6
    assert all("45 more" in text for text in written.values())

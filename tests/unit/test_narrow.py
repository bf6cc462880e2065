"""Tables on terminals that are too narrow."""

from __future__ import annotations

import pytest

from lbtrace.tables.count import TABLE as COUNTS
from lbtrace.tables.count import Count
from lbtrace.tables.histogram import TABLE as HISTOGRAMS
from lbtrace.tables.histogram import Bar, Histogram
from lbtrace.tables.narrow import LAST
from lbtrace.tables.table import lines
from lbtrace.tables.view import View

TIMES = {"min": 123456, "median": 234567, "p90": 345678, "p99": 456789, "p999": 567891}


def histogram(name: str, **by: object) -> Histogram:
    rest = {**TIMES, "max": 678912, "total": 123456789, "self_time": 123456789}
    return Histogram(name, "/bin/x", 4711, 12345, unit="ns", by=by, **rest)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_the_key_stays(width: int) -> None:
    view = View("TOTAL", width=width)
    heading, *rows = lines(HISTOGRAMS, [histogram("handle_query"), histogram("f")], view)
    assert heading.endswith("PID  FUNCTION")
    assert heading.startswith("COUNT")
    assert "TOTAL▼" in heading
    assert [row.split()[-1] for row in rows] == ["handle_query", "f"]
    assert all(len(line) <= width for line in (heading, *rows)) or width == 40
    assert (width < 100) == ("P99.9" not in heading)
    assert ("P99 " in heading) == (width > 40)


def test_what_rows_are_by_stays() -> None:
    row = histogram("", path="/a/long/way/to/a/file/that/is/not/short/at/all.txt", retval=-2)
    heading, shown = lines(HISTOGRAMS, [row], View(width=60))
    assert heading.split()[-2:] == ["path", "retval"]
    assert shown.endswith("  -2")
    assert "/a/long/" in shown
    assert shown.split()[-2].endswith(".txt") or " … " in shown
    assert len(shown) <= 60
    values = {f"sum({name})": 10**9 for name in "abcdefgh"}
    row = Count("", "", 0, 5, {"path": "/etc/passwd", "n": 3}, values)
    heading, shown = lines(COUNTS, [row], View(width=60))
    assert heading.split() == ["COUNT", "SUM(a)", "SUM(b)", "SUM(c)", "path", "n"]
    assert len(heading) <= 60
    whole, _ = lines(COUNTS, [row])
    assert len(whole.split()) == 11


def test_the_last_column_is_seen_in_part() -> None:
    heading, shown = lines(HISTOGRAMS, [histogram("f" * 100)], View(width=80))
    assert heading.index("FUNCTION") + LAST <= 80
    assert shown.endswith("f" * 100)  # the terminal cuts it


def test_many_empty_bars_are_one_line() -> None:
    bars = [Bar(0, 0, 7), *(Bar(1 << n, (2 << n) - 1, 0) for n in range(60)), Bar(1 << 60, 0, 2)]
    few = [Bar(0, 0, 7), Bar(1, 1, 0), Bar(2, 3, 0), Bar(4, 7, 0), Bar(8, 15, 2)]
    drawn = HISTOGRAMS.picture(Histogram("f", "/bin/x", 1, 9, bars=tuple(bars)))
    assert [line.split()[0] for line in drawn] == ["0", "⋮", str(1 << 60)]
    assert len(HISTOGRAMS.picture(Histogram("f", "/bin/x", 1, 9, bars=tuple(few)))) == 5

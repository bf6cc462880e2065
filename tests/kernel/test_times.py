"""Times of day are those of this machine's clock, live and in a capture read elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_the_time_of_day(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    capture = tmp_path / "fib.lbt"
    japan = os.environ | {"TZ": "JST-9"}
    before = time.time_ns()
    words = ("attach", "--func", "fib", "--time", "clock")
    live = lbtrace(*words, "--", programs / "fib", 3, env=japan)
    lbtrace(*words, "-o", capture, "--", programs / "fib", 3, env=japan)
    after = time.time_ns()
    lines = lbtrace("export", capture, "--format", "jsonl").stdout.splitlines()
    clock, *records = map(json.loads, lines)
    assert (clock["type"], clock["utc_offset"]) == ("clock", 9 * 3600)
    starts = [each["start"] for each in records if each["type"] == "call"]
    of_day = [start - clock["monotonic"] + clock["realtime"] for start in starts]
    assert before < min(of_day) <= max(of_day) < after
    exported = lbtrace("export", capture, "--time", "clock").stdout
    first = datetime.fromtimestamp(min(of_day) // 1000 / 10**6, timezone(timedelta(hours=9)))
    assert exported.splitlines()[2].startswith(f"{first:%H:%M:%S.%f}  ")
    assert "TIME" in live.stdout.splitlines()[1]

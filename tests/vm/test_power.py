"""Machines end when they are switched off, and none begins after that."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Timer

import pytest
from power import Power, SwitchedOff


def test_what_ends_by_itself(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert Power().run(["sh", "-c", "echo said"], log, 60)
    assert log.read_text() == "said\n"


def test_limit(tmp_path: Path) -> None:
    assert not Power().run(["sleep", "1000"], tmp_path / "log", 0.1)


def test_off(tmp_path: Path) -> None:
    power = Power()
    marker = tmp_path / "marker"
    Timer(0.2, power.off).start()
    start = time.monotonic()
    with pytest.raises(SwitchedOff):
        power.run(["sleep", "1000"], tmp_path / "log", 900)
    assert time.monotonic() - start < 900
    with pytest.raises(SwitchedOff):
        power.run(["touch", str(marker)], tmp_path / "log", 900)
    assert not marker.exists()

"""What the build downloads is pinned by hash."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_tools_are_pinned() -> None:
    text = (ROOT / "build/requirements.txt").read_text()
    pinned = re.findall(
        r"^([\w.-]+)==\S+.*\\\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)", text, re.M
    )
    assert "://" not in text
    listed = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(pinned) == len(listed)
    wanted = re.findall(r"^([\w-]+)", (ROOT / "build/requirements.in").read_text(), re.M)
    assert {w.lower() for w in wanted} <= {name for name, _ in pinned}


def test_sources_are_pinned() -> None:
    text = (ROOT / "build/sources.py").read_text()
    assert len(re.findall(r'"[0-9a-f]{64}"', text)) == text.count(" = Source(") > 2

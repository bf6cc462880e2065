"""Numbers that Python shares with the programs in the kernel."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_nothing_says_them_again() -> None:
    sources = [p for p in (ROOT / "lbtrace").rglob("*.py") if p.name != "wire_limits.py"]
    for path in sources:
        assert not re.search(r"^\w+ = \d+\n\"\"\".*\bLBT_", path.read_text(), re.M), path

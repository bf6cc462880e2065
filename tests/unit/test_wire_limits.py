"""Numbers that Python shares with the programs in the kernel."""

from __future__ import annotations

import re
from pathlib import Path

from lbtrace.model import wire_limits

ROOT = Path(__file__).resolve().parents[2]


def test_they_are_those_of_the_header() -> None:
    """Built anew where the header has changed: by make build, and by make lint."""
    from lbtrace.bpf._libbpf import lib

    shared = [name for name in vars(wire_limits) if name.isupper()]
    assert {"FETCHES", "VALUES", "DEREFS", "CONDITIONS", "OPEN", "UNPROBED"} <= set(shared)
    for name in shared:
        if hasattr(lib, f"LBT_{name}"):  # cffi knows no hexadecimal ones
            assert getattr(lib, f"LBT_{name}") == getattr(wire_limits, name), name


def test_nothing_says_them_again() -> None:
    sources = [p for p in (ROOT / "lbtrace").rglob("*.py") if p.name != "wire_limits.py"]
    for path in sources:
        assert not re.search(r"^\w+ = \d+\n\"\"\".*\bLBT_", path.read_text(), re.M), path

"""What documentation and the workflow call by make is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CALLED = re.compile(r"(?:^    |`|run: )make ((?:[a-z][a-z-]* ?)+)", re.M)


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / ".github/workflows/ci.yml"], ids=lambda page: page.name
)
def test_targets(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    there = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.M))
    patterns = tuple(re.findall(r"^([a-z][a-z-]*)%:", makefile, re.M))
    called = {name for words in CALLED.findall(page.read_text()) for name in words.split()}
    assert {name for name in called - there if not name.startswith(patterns)} == set()
    assert called or page.name not in ("README.md", "development.md", "ci.yml")

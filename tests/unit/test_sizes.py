"""Files stay small: one concept each. (Functions: `max-complexity` in pyproject.toml.)"""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 400
MEDIAN = 130

FOLDERS = {"lbtrace": ("*.py", "*.c", "*.h"), "bpf_src": ("*.c", "*.h"), "build": ("*.py",)}
GENERATED = {"vmlinux.h", "wire_limits.py"}


def sources(folder: str) -> list[Path]:
    found = [path for pattern in FOLDERS[folder] for path in (ROOT / folder).rglob(pattern)]
    return [path for path in found if path.name not in GENERATED and "out" not in path.parts]


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_file_is_large(folder: str) -> None:
    counts = {str(path.relative_to(ROOT)): lines(path) for path in sources(folder)}
    assert {path: count for path, count in counts.items() if count > LARGEST} == {}


def test_most_files_are_small() -> None:
    assert median(map(lines, sources("lbtrace"))) < MEDIAN

"""What fuzzers have found stays found: their inputs, each day."""

from __future__ import annotations

from pathlib import Path

import harnesses
import pytest

CORPUS = Path(__file__).resolve().parent / "corpus"


@pytest.mark.parametrize("name", harnesses.HARNESSES)
def test_only_errors_of_lbtrace_come_out(name: str) -> None:
    for kept in sorted((CORPUS / name).iterdir()):
        harnesses.HARNESSES[name](kept.read_bytes())

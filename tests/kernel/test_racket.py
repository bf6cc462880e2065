"""The racket format equals what Racket itself prints, byte for byte."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

GOLDEN = Path(__file__).parent / "racket"
"""What ``racket FILE.rkt`` printed; tests/unit/test_racket.py runs it anew."""


@pytest.mark.parametrize(
    ("expected", "program", "function", "argument"),
    [
        ("fib-4", "fib", "fib", 4),
        ("fib-4", "fib-bare", "fib", 4),
        ("deep-14", "deep", "deep", 14),
    ],
)
def test_equals_racket(
    lbtrace: Run,
    programs: Path,
    mode: str,
    expected: str,
    program: str,
    function: str,
    argument: int,
) -> None:
    done = lbtrace(
        *("attach", "--mode", mode, "--func", function, "--format", "racket", "-o", "/dev/stderr"),
        *("--quiet", "--", programs / program, argument),
    )
    assert done.returncode == 0
    assert done.stderr == (GOLDEN / f"{expected}.txt").read_text()

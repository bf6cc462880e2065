"""The records that the kernel tests compare with are Racket's own words."""

import subprocess
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[1] / "kernel/racket").glob("*.rkt"))


@pytest.mark.parametrize("program", RECORDS, ids=lambda path: path.stem)
def test_record_is_what_racket_prints(program: Path) -> None:
    printed = subprocess.run(["racket", program], check=True, capture_output=True, text=True)
    assert printed.stdout == program.with_suffix(".txt").read_text()

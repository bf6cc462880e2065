"""Programs whose names are in another file are traced as if they had them."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.host
@pytest.mark.parametrize("way", ["link", "debugdata"])
def test_a_stripped_program_is_traced(lbtrace, tmp_path, way):
    program, debug = tmp_path / "fib", tmp_path / "fib.debug"
    source = ROOT / "tests/programs/fib.c"
    subprocess.run(["gcc", "-O1", "-g", source, "-o", program], check=True)
    whole = lbtrace("attach", "--func", "fib", "--args", "1", "--", program, "4").stdout
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", "-s", program], check=True)
    if way == "link":
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    else:
        subprocess.run(["objcopy", "--strip-debug", debug], check=True)
        packed = tmp_path / "packed"
        packed.write_bytes(lzma.compress(debug.read_bytes()))
        subprocess.run(
            ["objcopy", "--add-section", f".gnu_debugdata={packed}", program], check=True
        )
    traced = lbtrace("attach", "--func", "fib", "--args", "1", "--", program, "4").stdout
    assert traced.count("fib(") == whole.count("fib(") > 8
    if way == "link":
        assert traced.count("fib(n=") == whole.count("fib(n=")

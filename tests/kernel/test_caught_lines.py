"""Lines where exceptions are caught and thrown on, and those of destructors on the way: as often as
the program's own log says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import lbtrace
from lbtrace.dwarf.lines import SourceLines
from lbtrace.dwarf.sources import path_test
from lbtrace.elf.image import Image
from tests.made_throwing import write


def stops(program: Path, place: str) -> int:
    """How often gdb's breakpoint at a line is hit."""
    commands = [f"break {place}", "ignore 1 1000000", "run >/dev/null", "info breakpoints"]
    words = ["gdb", "-q", "-batch", *(word for each in commands for word in ("-ex", each)), program]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return sum(int(n) for n in re.findall(r"already hit (\d+) time", text))


@pytest.mark.host
@pytest.mark.parametrize("seed", ["1", os.environ["LBTRACE_SEED"]])
@pytest.mark.parametrize("command", ["g++ -O0", "g++ -O2", "clang++ -O2"])
def test_lines_count_as_the_program_does(tmp_path: Path, command: str, seed: str) -> None:
    source, program = tmp_path / "made.cc", tmp_path / "made"
    source.write_text(write(seed))
    subprocess.run([*command.split(), "-g", "-w", source, "-o", program], check=True)
    said = subprocess.run([program], capture_output=True, text=True, check=False).stdout
    log = Counter({int(line): int(count) for line, count in map(str.split, said.splitlines())})
    assert log
    with lbtrace.trace(
        command=["sh", "-c", f"{program} >{tmp_path / 'said'}"],
        binary=str(program),
        lines="made.cc:*",
        options=lbtrace.Options(ring_size=64 << 20),
    ) as session:
        points = Counter(int(c.name.rpartition(":")[2]) for c in session.calls())
    # clang puts equal ends of several lines together, and says of these that they are of no line.
    known = SourceLines(Image.open(str(program)), 0).numbers(path_test("made.cc"))
    noted = [n for n, text in enumerate(write(seed).splitlines(), 1) if "note(__LINE__)" in text]
    assert not session.losses().events
    # A switch in a loop whose table is not followed is said to have lines without a point.
    words = ["list", "--lines", "made.cc", "--binary", str(program), "--json"]
    listed = subprocess.run(
        [sys.executable, "-m", "lbtrace", *words], capture_output=True, text=True, check=True
    )
    silent = {row["line"] for row in json.loads(listed.stdout) if "reason" in row}
    assert len(silent) < 0.2 * len(noted)
    noted = [n for n in noted if n not in silent]
    other = [n for n in noted if points[n] != log[n] and (n in known or "clang" not in command)]
    assert not other or "clang" in command, other
    assert [points[line] for line in other] == [stops(program, f"made.cc:{n}") for n in other]

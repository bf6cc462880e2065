"""Sequences of instructions that the kernel restarts lose nothing to probes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.elf.image import Image
from lbtrace.elf.restartable import find_sequences

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = Path(__file__).resolve().parents[1] / "programs/restartable.c"
ROUNDS = 4_000
ALL = 4 * ROUNDS
FORMS = {
    "pie": ["-fPIE", "-pie"],
    "handler elsewhere": ["-fPIE", "-pie", "-DFAR"],
    "stripped": ["-fPIE", "-pie", "-rdynamic", "-s"],
}


@pytest.fixture(params=FORMS)
def program(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Path:
    made = tmp_path / "restartable"
    options = ["-O1", "-pthread", *FORMS[request.param]]
    subprocess.run([tool("gcc"), *options, SOURCE, "-o", made], check=True)
    return made


@pytest.mark.parametrize("returns", ["auto", "none"])
def test_no_addition_is_lost(program: Path, lbtrace: Run, tmp_path: Path, returns: str) -> None:
    out = tmp_path / "out.jsonl"
    words = ("--func", "add_one", "--returns", returns, "-o", out)
    done = lbtrace("attach", *words, "--", program, ROUNDS)
    assert done.returncode == 0, done.stderr
    total, interrupted = map(int, done.stdout.split())
    assert total == ALL
    seen = [json.loads(line) for line in out.read_text().splitlines()]
    calls = [each for each in seen if each["type"] == "call"]
    if returns == "auto":
        assert {call["end"] for call in calls} == {"returned"}
        assert len(calls) == ALL + interrupted


def test_only_what_is_around_a_sequence_has_points(
    program: Path, lbtrace: Run, tmp_path: Path
) -> None:
    (sequence,) = find_sequences(Image.open(str(program))).starting(0, 1 << 48)
    names = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True
    ).stdout
    heads = (line.partition(":\t")[0].strip() for line in names.splitlines() if ":\t" in line)
    known = sorted(int(head, 16) for head in heads)
    announces = max(address for address in known if address < sequence.start)
    inside = [a for a in known if announces <= a < sequence.stop]
    assert len(inside) == 8
    for address in (inside[0], inside[-1]):
        done = lbtrace("attach", "--at", f"{program}:{address:#x}", "--", program, 1)
        assert done.returncode != 0
        assert "it is in a sequence that the kernel restarts" in done.stderr
    around = (max(a for a in known if a < announces), sequence.stop)
    places = [word for a in around for word in ("--at", f"{program}:{a:#x}")]
    done = lbtrace("attach", *places, "-o", tmp_path / "out.jsonl", "--", program, ROUNDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == str(ALL)

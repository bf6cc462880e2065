"""Assembly that looks at its return address, or changes it, by way of copies of the stack pointer:
a program made at random prints the same traced as untraced, however returns are seen."""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.return_address_ways import program

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
RETURNS = ("auto", "uretprobe", "sites", "none")
SEED = int(os.environ["LBTRACE_SEED"])


def compare(lbtrace: Run, into: Path, seed: int, returns: str) -> None:
    assembly, main, names = program(seed, 130)
    (into / "ways.s").write_text(assembly)
    (into / "main.c").write_text(main)
    made, out = into / "program", into / "out.jsonl"
    subprocess.run(["gcc", "-w", into / "ways.s", into / "main.c", "-o", made], check=True)
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace(
        *("attach", "--binary", made, "--func", "*", "--quiet", "--returns", returns),
        *("-o", out, "--force", "--", made),
    )
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    assert [c["name"] for c in calls if c["name"] in names] == names
    if returns in ("auto", "sites"):
        ends = {call["end"] for call in calls if call["name"] in names}
        assert ends == {"returned"}


@pytest.mark.parametrize("returns", RETURNS)
def test_return_addresses_that_are_read_by_copies(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, returns: str
) -> None:
    tool("gcc")
    compare(lbtrace, tmp_path, SEED, returns)


@pytest.mark.slow
def test_more_of_them(lbtrace: Run, tool: Callable[[str], str], tmp_path: Path) -> None:
    tool("gcc")
    for _ in range(20):
        compare(lbtrace, tmp_path, random.randrange(1 << 32), random.choice(RETURNS))

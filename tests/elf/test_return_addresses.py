"""Assembly made at random, which reads its return address, is known to do so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.plan.harmless_functions import Judge
from tests.return_address_ways import HEAD, program, surrounded

pytestmark = pytest.mark.host


@pytest.mark.parametrize("seed", [1, 2, int(os.environ["LBTRACE_SEED"])])
def test_who_reads_its_return_address_by_copies(tmp_path: Path, seed: int) -> None:
    assembly, main, names = program(seed, 400)
    (tmp_path / "ways.s").write_text(assembly)
    (tmp_path / "main.c").write_text(main)
    made = tmp_path / "program"
    subprocess.run(["gcc", "-w", tmp_path / "ways.s", tmp_path / "main.c", "-o", made], check=True)
    image = Image.open(str(made))
    table = symbols.read(image)
    verdicts = Judge(image, table, plt.stubs(image), frozenset()).judge(table.functions)
    kept = {f.name for f in table.functions if verdicts[f.address].keeps}
    assert not set(names) - kept


@pytest.mark.parametrize("seed", [1, 2, int(os.environ["LBTRACE_SEED"])])
def test_what_stands_around_hides_no_read(tmp_path: Path, seed: int) -> None:
    assembly, names = surrounded(seed, 150)
    (tmp_path / "ways.s").write_text(HEAD + assembly + '\n.section .note.GNU-stack,"",@progbits\n')
    made = tmp_path / "program.so"
    subprocess.run(["gcc", "-w", "-shared", tmp_path / "ways.s", "-o", made], check=True)
    image = Image.open(str(made))
    table = symbols.read(image)
    verdicts = Judge(image, table, plt.stubs(image), frozenset()).judge(table.functions)
    kept = {f.name for f in table.functions if verdicts[f.address].keeps}
    assert not set(names) - kept

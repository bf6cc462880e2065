"""Code that optimisers put apart, in parts of functions that are reached by jumps to several places
in them, and where exceptions continue."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from lbtrace.dwarf.lines import SourceLines
from lbtrace.dwarf.sources import path_test
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.machine.x86_64.probe_sites import NOP
from lbtrace.model import Site
from lbtrace.plan.placement import Placer
from tests.made_throwing import write

SEEDS = ["1", "12", os.environ["LBTRACE_SEED"]]
COMPILERS = {
    **{"g++ -O0": "", "g++ -O2": "", "g++ -O3": "", "clang++ -O2": ""},
    "aarch64-linux-gnu-g++ -O2 -freorder-blocks-and-partition": "aarch64-linux-gnu-",
}


def build(where: Path, command: str, seed: str) -> Image:
    (where / "made.cc").write_text(write(seed))
    words = [*command.split(), "-g", "-w", "made.cc", "-o", "made"]
    subprocess.run(words, cwd=where, check=True)
    return Image.open(str(where / "made"), any_machine=True)


def instructions(image: Image, tools: str) -> set[int]:
    """Where objdump sees them."""
    words = [f"{tools}objdump", "-d", "-w", image.path]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return {int(m[1], 16) for m in re.finditer(r"^\s*([0-9a-f]+):\t", text, re.M)}


def placer(image: Image) -> Placer:
    return Placer(image, symbols.read(image), Machine(image.machine))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("command", COMPILERS)
def test_every_line_has_its_points(tmp_path: Path, command: str, seed: str) -> None:
    """Also those where exceptions are caught, and what destructors do on the way there."""
    image = build(tmp_path, command, seed)
    places = SourceLines(image, 0).places(path_test("made.cc"))
    sites: ProbeSites = placer(image).sites
    found = {(p.line, hex(p.address)): sites.at(p.address) for p in places}
    assert len(found) > 300
    left_out = {at: why for at, why in found.items() if not isinstance(why, Site)}
    assert {*left_out.values()} <= {NOP}
    assert {p.address for p in places} <= instructions(image, COMPILERS[command])


@pytest.mark.parametrize("command", ["g++ -O2", [*COMPILERS][-1]])
def test_parts_without_names_are_left_alike(tmp_path: Path, command: str) -> None:
    """Where exceptions continue in them is known by unwind information."""
    named = build(tmp_path, command, "1")
    words = [f"{COMPILERS[command]}objcopy", "--wildcard", "-N", "*.cold", "made", "bare"]
    subprocess.run(words, cwd=tmp_path, check=True)
    bare = Image.open(str(tmp_path / "bare"), any_machine=True)
    parts = symbols.read(named)
    assert len(parts.cold) > 5
    assert not symbols.read(bare).cold
    finder, one, other = Machine(named.machine).exit_finder(), placer(named), placer(bare)
    for function in parts.functions:
        reached = []
        for around in (one.around, other.around):
            body = around.body(function)
            reached.append(finder.reached(body.parts, around, body.pads))
        assert reached[0] == reached[1], function.name
        assert one.exits(function).exits == other.exits(function).exits, function.name

"""Where control lands after an exception or longjmp, as objdump's disassembly has it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.elf.unwind import Unwind
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.plan import landing_pads
from lbtrace.plan.code_context import CodeContext

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
CALL = re.compile(r"\b(?:call|bl)\s.*<_*(?:sig)?setjmp[@>].*\n\s*([0-9a-f]+):")
STUB = re.compile(r"^0*([0-9a-f]+) <__cxa_begin_catch@plt>:", re.M)


def built(where: Path, compiler: str, source: str, *flags: str) -> tuple[Image, str]:
    program = where / "program"
    command = [*compiler.split(), "-O2", "-w", *flags, PROGRAMS / source, "-o", program]
    subprocess.run(command, check=True)
    prefix = "aarch64-linux-gnu-" if compiler.startswith("aarch64") else ""
    listed = [f"{prefix}objdump", "-d", program]
    text = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    return Image.open(str(program), any_machine=True), text


def sites(image: Image) -> dict[int, int]:
    """Where probes report it, and how far the stack pointer is from the frame there."""
    table, architecture = symbols.read(image), Machine(image.machine)
    known = ProbeSites(architecture, CodeContext(image, table, architecture))
    probes = landing_pads.plan_probes(image, table, plt.stubs(image), (), known)
    return {probe.site.address: probe.site.sp_delta for probe in probes}


@pytest.mark.parametrize(
    ("compiler", "sinks"),
    [("gcc", -8), ("gcc -static", -8), ("clang", -8), ("aarch64-linux-gnu-gcc", 0)],
)
def test_after_setjmp(tmp_path: Path, compiler: str, sinks: int) -> None:
    image, text = built(tmp_path, compiler, "exact.c", "-pthread")
    expected = {int(m[1], 16): sinks for m in CALL.finditer(text)}
    assert len(expected) >= 3
    assert sites(image) == expected


@pytest.mark.parametrize("compiler", ["g++", "aarch64-linux-gnu-g++"])
def test_handlers_of_exceptions(tmp_path: Path, compiler: str) -> None:
    image, text = built(tmp_path, compiler, "exact.cc", "-std=c++20")
    (stub,) = STUB.findall(text)
    assert sites(image) == {int(stub, 16): 0}


def test_landing_pads_of_static_programs(tmp_path: Path) -> None:
    """They have no table of their unwind information; the same code in others has."""
    plain, _ = built(tmp_path, "g++", "exact.cc", "-std=c++20", "-O0")
    expected = pads(plain)
    static, _ = built(tmp_path, "g++ -static", "exact.cc", "-std=c++20", "-O0")
    assert static.section(".eh_frame_hdr") is None
    assert pads(static) == expected
    assert sum(map(bool, expected.values())) >= 4


def pads(image: Image) -> dict[str, list[int]]:
    """Where the program's own functions continue after exceptions, from their first bytes."""
    unwind = Unwind(image)
    return {
        function.name: [pad - function.address for pad in unwind.landing_pads(function.address)]
        for function in symbols.read(image).functions
        if function.name.startswith("traced_")
    }


def test_landing_pads_are_the_same_each_time() -> None:
    """What is looked at has a bound, which asking again for the same does not use up."""
    image = Image.open("libstdc++.so.6")
    unwind = Unwind(image)
    functions = [f.address for f in symbols.read(image).functions]
    with_pads = [address for address in functions if unwind.landing_pads(address)]
    for _ in range(300):
        for address in with_pads:
            unwind.landing_pads(address)
    assert all(map(Unwind(image).landing_pads, with_pads))
    assert all(map(unwind.landing_pads, with_pads))

"""Which programs switch stacks by themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.plan import stack_switches

SOURCE = Path(__file__).resolve().parents[1] / "programs/fibers.c"


@pytest.mark.parametrize(
    ("compiler", "register"), [("gcc", "si"), ("clang", "si"), ("aarch64-linux-gnu-gcc", "x1")]
)
def test_assembly_of_fibers(tmp_path: Path, compiler: str, register: str) -> None:
    program = tmp_path / "fibers"
    subprocess.run([compiler, "-O2", "-w", SOURCE, "-o", program], check=True)
    image = Image.open(str(program), any_machine=True)
    table = symbols.read(image)
    (found,) = stack_switches.switches(image, table)
    function = next(f for f in table.functions if f.name == "take_up")
    assert function.address < found.address < function.address + function.size
    assert found.pointer is not None
    assert (found.pointer.register, found.pointer.read) == (register, "value")
    assert "by itself (take_up)" in stack_switches.why_hazardous(image, table)


@pytest.mark.parametrize("name", ["/usr/bin/python3", "libc.so.6", "libstdc++.so.6"])
def test_ordinary_programs_do_not(name: str) -> None:
    """Arrays of variable length, realigned stacks and the like are no switches."""
    image = Image.open(name)
    assert stack_switches.switches(image, symbols.read(image)) == []


def test_boost_context_is_known_by_its_code() -> None:
    """PHP has a copy of it, which moves the stack pointer on by ``lea``."""
    image = Image.open("php8.2")
    table = symbols.read(image)
    (found,) = stack_switches.switches(image, table)
    assert found.pointer is not None
    assert (found.pointer.register, found.pointer.read) == ("di", "value")
    assert "by itself (jump_fcontext)" in stack_switches.why_hazardous(image, table)


def test_static_programs_do_not(tmp_path: Path) -> None:
    """Although the C library in them could."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    subprocess.run(["gcc", "-static", tmp_path / "main.c", "-o", tmp_path / "main"], check=True)
    image = Image.open(str(tmp_path / "main"))
    assert stack_switches.switches(image, symbols.read(image)) == []

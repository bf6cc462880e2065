"""Symbols of functions that lie amid an instruction of another one, and those that only seem to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.model import Site
from lbtrace.plan import Placer

COVERED = r"""
    FUNC outer
    movabs $0xc3c3c3c3c3c3c3c3, %rax
    .set amid, .-4
    SIZE amid, 4
    add %rdi, %rax
    .set unsized, .-1
    .type unsized, @function
    SIZE alias, 3
    .set alias, outer
    ret
    .size outer, .-outer
"""


Placed = Callable[..., tuple[Placer, dict[str, Site | None]]]

MACROS = r"""
    .macro FUNC name
    .globl \name
    .type \name, @function
\name:
    .endm
    .macro SIZE name, size
    .globl \name
    .type \name, @function
    .size \name, \size
    .endm
    .text
    .balign 16
"""


def assembled(into: Path, source: str, *options: str) -> Path:
    (into / "code.s").write_text(f"{MACROS}{source}\n    .section .note.GNU-stack\n")
    made = into / "code.so"
    how = options or ("-shared",)
    subprocess.run(["gcc", *how, "-nostdlib", "-o", made, into / "code.s"], check=True)
    return made


@pytest.fixture
def placed(tmp_path: Path) -> Placed:
    """The placer of a source, and the site of each function."""

    def place(source: str, *options: str) -> tuple[Placer, dict[str, Site | None]]:
        image = Image.open(str(assembled(tmp_path, source, *options)))
        table = symbols.read(image)
        placer = Placer(image, table, Machine("x86_64"))
        found = {f.name: placer.place(f, CallValues(), returns=False) for f in table.functions}
        return placer, found

    return place


def test_no_probe_amid_an_instruction(placed: Placed) -> None:
    _, sites = placed(COVERED)
    inner = {name for name in sites if name in ("amid", "unsized")}
    assert inner
    assert all(sites[name] is None for name in inner)
    assert all(site is not None for name, site in sites.items() if name not in inner)


IN_DATA = r"""
    FUNC honest
    ret
    .size honest, 1
    .section .rodata
    FUNC inner
    .quad 0xc3c3c3c3c3c3c3c3
    .size inner, 8
"""


def test_no_probe_in_data(placed: Placed) -> None:
    """Linkers once put it into the segment of code."""
    _, sites = placed(IN_DATA, "-shared", "-Wl,-z,noseparate-code")
    assert sites["honest"] is not None
    assert sites["inner"] is None


@pytest.mark.parametrize("path", ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/python3.11"])
def test_no_symbol_of_the_system_is_refused(path: str) -> None:
    image = Image.open(path)
    table = symbols.read(image)
    placer = Placer(image, table, Machine("x86_64"))
    assert [f.name for f in table.functions if placer.is_amid(f)] == []


def test_many_symbols_within_each_other(placed: Placed) -> None:
    """Sizes that all reach to the end cost little."""
    body = "".join(
        f"    FUNC f{n}\n    mov ${n}, %eax\n    ret\n    .size f{n}, 1 << 40\n"
        for n in range(3000)
    )
    _, sites = placed(body)
    assert len(sites) == 3000
    assert all(sites.values())

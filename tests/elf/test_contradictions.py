"""Symbols of functions that lie amid an instruction of another one, and those that only seem to."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.machine.sites import INSIDE, UNREACHED
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

AFTER_UNSIZED = r"""
    FUNC first
    mov %rdi, %rax
    movabs $0x1122334455667788, %rcx
    .set amid, .-8
    SIZE amid, 8
    ret
"""


DESCRIBED = r"""
unnamed:
    .cfi_startproc
    mov %rdi, %rdx
    movabs $0xc3c3c3c3c3c3c3c3, %rax
    .set amid, .-4
    SIZE amid, 4
    ret
    .cfi_endproc
"""


BY_COMPUTED_JUMP = r"""
    FUNC outer
    jmp *%rdi
    movabs $0xc3c3c3c3c3c3c3c3, %rax
    .set amid, .-4
    SIZE amid, 4
    ret
    .size outer, .-outer
"""


CALLED_BY_THE_LOADER = r"""
unnamed:
    endbr64
    movabs $0xc3c3c3c3c3c3c3c3, %rax
    .set amid, .-4
    SIZE amid, 4
    ret
    .section .{}_array, "aw"
    .quad unnamed
"""


REFUSED = {
    "called_before": CALLED_BY_THE_LOADER.format("init"),
    "covered": COVERED,
    "after_unsized": AFTER_UNSIZED,
    "described": DESCRIBED,
    "by_computed_jump": BY_COMPUTED_JUMP,
}

ENTRIES = r"""
    FUNC outer
    mov %rdi, %rax
    FUNC inner
    inc %rax
    SIZE inner, 3
    test %rax, %rax
    js 1f
    ret
    .byte 0x48, 0xb8
    FUNC after_table
1:  mov $3, %eax
    ret
    .size outer, .-outer
"""


RETURNED_TO_BY_HANDLERS = r"""
    FUNC before
    ret
    .size before, 1
    .cfi_startproc
    .cfi_signal_frame
    .byte 0x48  # the end of a long nop, in the C library
    FUNC restorer
    mov $15, %rax
    syscall
    .cfi_endproc
    .size restorer, .-restorer
"""


TAKEN = {
    "entries": ENTRIES,
    "returned_to_by_handlers": RETURNED_TO_BY_HANDLERS,
}


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


@pytest.mark.parametrize("kind", REFUSED)
def test_no_probe_amid_an_instruction(placed: Placed, kind: str) -> None:
    _, sites = placed(REFUSED[kind])
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


def test_no_point_amid_an_instruction(placed: Placed) -> None:
    """Nor do other places count by such a symbol."""
    placer, _ = placed(COVERED)
    (start,) = (f.address for f in placer.around._functions if f.name in ("outer", "alias"))
    assert isinstance(placer.sites.at(start), Site)
    assert placer.sites.at(start + 6) == UNREACHED
    assert placer.sites.marked(start + 6) == INSIDE
    assert isinstance(placer.sites.at(start + 13), Site)


@pytest.mark.parametrize("kind", TAKEN)
def test_other_symbols_keep_their_probes(placed: Placed, kind: str) -> None:
    _, sites = placed(TAKEN[kind])
    assert sites
    assert all(sites.values())


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


def test_arm64_instructions_are_aligned() -> None:
    finder = Machine("aarch64").exit_finder()
    code = Code(struct.pack("<2I", 0xD503201F, 0xD65F03C0), 0x1000, 0, 0x1008)
    assert finder.leads_to(code, 0x1004)
    assert not finder.leads_to(code, 0x1006)

"""The stack of BPF functions that call each other fits into the 512 bytes that kernels give to all
of them together (``MAX_BPF_STACK``), also on those that round each frame up to 32 bytes
(``check_max_stack_depth``, kernel/bpf/verifier.c)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

OBJECTS = Path(__file__).resolve().parents[2] / "lbtrace/bpf/objects"
LIMIT, ROUNDED = 512, 32

LOADS, STORES = (1,), (2, 3)
"""Classes of instructions: LDX; ST and STX (Documentation/bpf/standardization)."""

MOVE, ADD, CALL = 0xBF, 0x07, 0x85
"""``r1 = r2``, ``r1 += constant``, ``call``."""

PSEUDO_CALL = 1
"""What says that a function of the object is called (``BPF_PSEUDO_CALL``), no helper."""

NOWHERE = ("", 0)

FRAME = 10
"""The register that holds the end of a function's frame."""

FUNCTION_RELOCATIONS = (1, 10)
"""R_BPF_64_64, of callbacks' addresses, and R_BPF_64_32, of calls."""


class Function(NamedTuple):
    """How many bytes of stack a function uses, and which functions it calls."""

    frame: int
    calls: set[str]


def functions(made: Path) -> dict[str, Function]:
    """The functions of an object, with what each uses and calls."""
    with made.open("rb") as file:
        elf = ELFFile(file)
        symbols = [*elf.get_section_by_name(".symtab").iter_symbols()]
        starts = {
            (each["st_shndx"], each["st_value"]): each
            for each in symbols
            if each["st_info"]["type"] == "STT_FUNC" and each["st_shndx"] != "SHN_UNDEF"
        }
        led_to = dict(_relocated(elf, symbols))
        found = {}
        for (section, start), symbol in starts.items():
            code = elf.get_section(section).data()[start : start + symbol["st_size"]]
            calls = {
                starts[target].name
                for at, constant, is_call in _references(code, start)
                if (to := led_to.get((section, at), (section, at) if is_call else NOWHERE))
                and (target := (to[0], to[1] + constant)) in starts
            }
            found[symbol.name] = Function(_frame(code), calls)
        return found


def _references(code: bytes, start: int) -> Iterator[tuple[int, int, bool]]:
    """Where code may refer to functions, what it adds, and whether it calls."""
    for at in range(0, len(code), 8):
        constant = int.from_bytes(code[at + 4 : at + 8], "little", signed=True)
        is_call = code[at] == CALL and code[at + 1] >> 4 == PSEUDO_CALL
        yield start + at, (constant + 1) * 8 if is_call else constant, is_call


def _relocated(elf: ELFFile, symbols: list) -> Iterator[tuple[tuple[int, int], tuple[object, int]]]:
    """To which section and place in it instructions refer, before their constant is added."""
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection):
            for each in section.iter_relocations():
                symbol = symbols[each["r_info_sym"]]
                if each["r_info_type"] in FUNCTION_RELOCATIONS:
                    at = section["sh_info"], each["r_offset"]
                    yield at, (symbol["st_shndx"], symbol["st_value"])


def _frame(code: bytes) -> int:
    """How many bytes below the end of its frame a function uses: by loads and stores, and by
    addresses that it computes, for helpers that write there."""
    lowest, copies = 0, set()
    for at in range(0, len(code), 8):
        operation, registers = code[at], code[at + 1]
        to, of = registers & 15, registers >> 4
        kind = operation & 7
        offset = int.from_bytes(code[at + 2 : at + 4], "little", signed=True)
        if (kind in LOADS and of == FRAME) or (kind in STORES and to == FRAME):
            lowest = min(lowest, offset)
        elif operation == MOVE:
            copies = copies | {to} if of == FRAME else copies - {to}
        elif operation == ADD and to in copies:
            lowest = min(lowest, int.from_bytes(code[at + 4 : at + 8], "little", signed=True))
            copies.discard(to)
    return -lowest


def deepest(name: str, known: dict[str, Function]) -> tuple[int, tuple[str, ...]]:
    """The most bytes that a function and those which it calls take together, and their names."""
    function = known[name]
    own = max(-(-function.frame // ROUNDED), 1) * ROUNDED
    below = max((deepest(each, known) for each in function.calls), default=(0, ()))
    return own + below[0], (name, *below[1])


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", ["trace", "early"])
def test_stack_of_calls_fits(name: str, machine: str) -> None:
    known = functions(OBJECTS / f"{name}.{machine}.bpf.o")
    assert any(each.calls for each in known.values())
    depths = sorted(deepest(name, known) for name in known)
    assert depths[-1][0] > LIMIT // 2, "frames are not seen"
    assert not [each for each in depths if each[0] > LIMIT]

"""Operands of assembler instructions, in which the notes of markers say where arguments lie.

x86-64 in AT&T's syntax and arm64 in Arm's, as gcc, clang and rustc write what a constraint of
an ``asm`` statement stands for (systemtap's ``sys/sdt.h``; GNU as, "AT&T Syntax", and the Arm ARM,
C1.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from lbtrace.abi.locations import Location
from lbtrace.model import Fetch

ARGUMENT = re.compile(r"(?P<sign>-?)(?P<size>[1248]|16)(?P<float>f?)@(?P<operand>.*)")

SPLIT = re.compile(r"\s+(?=-?\d+f?@)")
"""Operands may contain spaces."""

X86_PART = re.compile(
    r"(?P<high>[abcd])h|[re]?(?P<old>[abcd]x|[sd]i|[bs]p)|(?P<byte>[abcd]|[sd]i|[bs]p)l"
    r"|(?P<new>r(?:[89]|1[0-5]))(?P<width>[dwb]?)"
)
X86_MEMORY = re.compile(
    r"(?P<offset>[^(]*)\((?:%(?P<base>\w+))?(?:,%(?P<index>\w+)(?:,(?P<scale>[1248]))?)?\)"
)
X86_VECTOR = re.compile(r"[xyz]?mm\d+|st(\(\d\))?")
ARM64_MEMORY = re.compile(r"\[(?P<base>\w+)(?:,\s*#?(?P<page>:lo12:)?(?P<offset>-?[\w.+]+))?\]")
ARM64_REGISTER = re.compile(r"[xw](?P<number>[12]?\d|30)|sp")
TERM = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<number>0x[0-9a-fA-F]+|\d+)|(?P<symbol>[A-Za-z_.][\w.@]*))"
)

FindSymbol = Callable[[str], "int | None"]
"""The address of an object in the file, by its name."""


class Operand(NamedTuple):
    """An argument of ``size`` bytes: where it lies."""

    size: int
    signed: bool
    location: Location


def read_operands(machine: str, text: str, site: int, find: FindSymbol) -> list[Operand]:
    """The arguments that a note lists for the marker at address ``site``.

    An argument that is not understood, or cannot be fetched, has a location that says why.
    """
    read = {"x86_64": _x86_64, "aarch64": _arm64}[machine]
    found = []
    for word in SPLIT.split(text.strip()) if text.strip() else ():
        said = ARGUMENT.fullmatch(word)
        if said is None:
            unknown = Location(reason=_refused(word))
            found.append(Operand(8, False, unknown))
            continue
        operand, size = said["operand"].strip(), int(said["size"])
        place: Fetch | str = f"a float in {operand.lstrip('%')}"
        if not (said["float"] and X86_VECTOR.fullmatch(operand.lstrip("%"))):
            place = read(operand, size, site, find)
        location = Location(words=(place,)) if isinstance(place, Fetch) else Location(reason=place)
        found.append(Operand(size, bool(said["sign"]), location))
    return found


def _x86_64(operand: str, size: int, site: int, find: FindSymbol) -> Fetch | str:
    if operand.startswith("$"):
        return _number(operand[1:], _unknown) or _refused(operand)
    if operand.startswith("%"):
        return _x86_register(operand[1:])
    memory = X86_MEMORY.fullmatch(operand)
    address = _x86_address(memory, site, find) if memory else _number(operand, find)
    return _in_memory(address, size) if address else _refused(operand)


def _x86_address(memory: re.Match[str], site: int, find: FindSymbol) -> Fetch | None:
    offset = _displacement(memory["offset"], find)
    base = memory["base"] or ""
    if offset is None or memory["index"]:
        return None
    if base == "rip":
        # The assembler's operand names the symbol, not how far it is away.
        return Fetch(register="ip", offset=offset - site)
    found = X86_PART.fullmatch(base)
    if found is None or not base.startswith("r") or found["width"]:
        return None
    return Fetch(register=found["old"] or found["new"], offset=offset)


def _x86_register(name: str) -> Fetch | str:
    found = X86_PART.fullmatch(name)
    if found is None:
        return f"a float in {name}" if X86_VECTOR.fullmatch(name) else _refused(f"%{name}")
    if found["high"]:
        return Fetch(register=f"{found['high']}x", bit_offset=8, bit_size=8)
    byte = found["byte"]
    register = found["old"] or found["new"] or (f"{byte}x" if len(byte) == 1 else byte)
    return Fetch(register=register)


def _arm64(operand: str, size: int, site: int, find: FindSymbol) -> Fetch | str:
    memory = ARM64_MEMORY.fullmatch(operand)
    if memory is None:
        if re.fullmatch(r"[vqdshb]\d+", operand):
            return f"a float in {operand}"
        return _arm64_register(operand) or _number(operand.lstrip("#"), find) or _refused(operand)
    offset = _displacement(memory["offset"] or "", find)
    base = _arm64_register(memory["base"])
    if offset is None or base is None or not base.register:
        return _refused(operand)
    if memory["page"]:  # the register holds the address of the page
        offset &= 0xFFF
    return _in_memory(Fetch(register=base.register, offset=offset), size)


def _arm64_register(name: str) -> Fetch | None:
    if name in ("xzr", "wzr"):
        return Fetch(base="constant")
    found = ARM64_REGISTER.fullmatch(name)
    return Fetch(register=f"x{found['number']}" if found["number"] else "sp") if found else None


def _refused(operand: str) -> str:
    return f"the operand {operand} cannot be read"


def _unknown(symbol: str) -> None:
    """The value of a symbol in a file that is loaded anywhere."""


def _number(text: str, find: FindSymbol) -> Fetch | None:
    """A constant, or the fixed address of a symbol."""
    value = _displacement(text, find) if text else None
    return None if value is None else Fetch(base="constant", offset=value)


def _displacement(text: str, find: FindSymbol) -> int | None:
    """The sum of numbers and symbols, whose addresses ``find`` knows; None where it is something
    else, or a symbol is unknown."""
    total = position = 0
    while position < len(text):
        term = TERM.match(text, position)
        if term is None or (position and not term["sign"]):
            return None
        value = int(term["number"], 0) if term["number"] else find(term["symbol"])
        if value is None:
            return None
        total += -value if term["sign"] == "-" else value
        position = term.end()
    return total


def _in_memory(address: Fetch, size: int) -> Fetch:
    return Fetch(
        base=address.base,
        register=address.register,
        offset=address.offset,
        read="integer",
        size=min(size, 8),
    )

"""Operands of assembler instructions, in which the notes of markers say where arguments lie.

x86-64 in AT&T's syntax and arm64 in Arm's, as gcc, clang and rustc write what a constraint of
an ``asm`` statement stands for (systemtap's ``sys/sdt.h``; GNU as, "AT&T Syntax", and the Arm ARM,
C1.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.abi.locations import IndexedFetch, Location
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
ARM64_INDEXED = re.compile(
    r"\[(?P<base>x(?:[12]?\d|30)|sp),\s*(?P<width>[xw])(?P<index>[12]?\d|30)"
    r"(?:,\s*(?P<extend>lsl|sxtx|[us]xtw)(?:\s+#?(?P<shift>\d))?)?\]"
)
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
        return _value(operand[1:], "ip", site, find) or _refused(operand)
    if operand.startswith("%"):
        return _x86_register(operand[1:])
    memory = X86_MEMORY.fullmatch(operand)
    address = _x86_address(memory, site, find) if memory else _value(operand, "ip", site, find)
    return _in_memory(address, size) if address else _refused(operand)


def _x86_address(memory: re.Match[str], site: int, find: FindSymbol) -> Fetch | None:
    base, index = memory["base"], memory["index"]
    displacement = _value(memory["offset"], "ip", site, find)
    if displacement is None:
        return None
    if base == "rip":
        # The assembler's operand names the symbol, not how far it is away.
        return displacement if displacement.register and not index else None
    parts = (base, 1), (index, int(memory["scale"] or 1))
    terms = [(_x86_whole(name), factor) for name, factor in parts if name]
    if displacement.register:
        terms.insert(0, (displacement.register, 1))
    return _sum(terms, displacement.offset) if all(name for name, _ in terms) else None


def _sum(terms: list[tuple[str, int]], offset: int) -> Fetch | None:
    """The sum of up to two registers, each times its factor, the last one's at most not being 1."""
    if not terms or len(terms) > 2:
        return None
    if len(terms) == 1 and terms[0][1] == 1:
        return Fetch(register=terms[0][0], offset=offset)
    index, factor = terms[-1]
    added = IndexedFetch(base="constant", offset=offset, factor=factor, index=Fetch(register=index))
    return replace(added, base="register", register=terms[0][0]) if len(terms) > 1 else added


def _x86_whole(name: str) -> str:
    """The register of 64 bits that is called so; empty where it is another one."""
    found = X86_PART.fullmatch(name)
    if found is None or not name.startswith("r") or found["width"]:
        return ""
    return str(found["old"] or found["new"])


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
    if indexed := ARM64_INDEXED.fullmatch(operand):
        return _in_memory(_arm64_indexed(indexed), size)
    memory = ARM64_MEMORY.fullmatch(operand)
    if memory is None:
        if re.fullmatch(r"[vqdshb]\d+", operand):
            return f"a float in {operand}"
        value = _arm64_register(operand) or _value(operand.lstrip("#"), "pc", site, find)
        return value or _refused(operand)
    offset = _displacement(memory["offset"] or "", find)
    base = _arm64_register(memory["base"])
    if offset is None or base is None or not base.register:
        return _refused(operand)
    if memory["page"]:  # the register holds the address of the page
        offset &= 0xFFF
    return _in_memory(Fetch(register=base.register, offset=offset), size)


def _arm64_indexed(memory: re.Match[str]) -> Fetch:
    """The address of a base and an index, of which the lower half may be extended."""
    index = Fetch(register=f"x{memory['index']}")
    if memory["width"] == "w":
        index = replace(index, bit_size=32, signed=memory["extend"] == "sxtw")
    factor = 1 << int(memory["shift"] or 0)
    return IndexedFetch(register=memory["base"], index=index, factor=factor)


def _arm64_register(name: str) -> Fetch | None:
    if name in ("xzr", "wzr"):
        return Fetch(base="constant")
    found = ARM64_REGISTER.fullmatch(name)
    return Fetch(register=f"x{found['number']}" if found["number"] else "sp") if found else None


def _refused(operand: str) -> str:
    return f"the operand {operand} cannot be read"


def _unknown(symbol: str) -> None:
    """The address of a symbol where only numbers are meant."""


def _value(text: str, pointer: str, site: int, find: FindSymbol) -> Fetch | None:
    """A number, or the address of a symbol: as far from the instruction at ``site`` as in the file,
    wherever that is loaded."""
    number = _displacement(text, _unknown)
    if number is not None:
        return Fetch(base="constant", offset=number)
    address = _displacement(text, find)
    return None if address is None else Fetch(register=pointer, offset=address - site)


def _displacement(text: str, find: FindSymbol) -> int | None:
    """The sum of numbers and one symbol, whose address ``find`` knows; None where it is something
    else, or the symbol is unknown."""
    total = position = symbols = 0
    while position < len(text):
        term = TERM.match(text, position)
        if term is None or (position and not term["sign"]):
            return None
        value = int(term["number"], 0) if term["number"] else find(term["symbol"])
        symbols += not term["number"]
        if value is None or symbols > 1 or (term["symbol"] and term["sign"] == "-"):
            return None
        total += -value if term["sign"] == "-" else value
        position = term.end()
    return total


def _in_memory(address: Fetch, size: int) -> Fetch:
    return replace(address, read="integer", size=min(size, 8))

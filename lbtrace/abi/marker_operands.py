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

from lbtrace.abi.locations import WORD, IndexedFetch, Location
from lbtrace.model import Fetch

ARGUMENT = re.compile(r"(?P<sign>-?)(?P<size>[1248]|16)(?P<real>f?)@(?P<operand>.*)")

SPLIT = re.compile(r"(?<!\s)\s+(?=-?\d+f?@)", re.ASCII)
"""Operands may contain spaces: any number, so each row of them is looked at once."""

X86_PART = re.compile(
    r"(?P<high>[abcd])h|[re]?(?P<old>[abcd]x|[sd]i|[bs]p)|(?P<byte>[abcd]|[sd]i|[bs]p)l"
    r"|(?P<new>r(?:[89]|1[0-5]))(?P<width>[dwb]?)",
    re.ASCII,
)
X86_MEMORY = re.compile(
    r"(?P<offset>[^(]*)\((?:%(?P<base>\w+))?(?:,%(?P<index>\w+)(?:,(?P<scale>[1248]))?)?\)"
)
X86_VECTOR = re.compile(r"[xyz]?mm\d+|st(\(\d\))?", re.ASCII)
ARM64_MEMORY = re.compile(r"\[(?P<base>\w+)(?:,\s*#?(?P<page>:lo12:)?(?P<offset>-?[\w.+]+))?\]")
ARM64_INDEXED = re.compile(
    r"\[(?P<base>x(?:[12]?\d|30)|sp),\s*(?P<width>[xw])(?P<index>[12]?\d|30)"
    r"(?:,\s*(?P<extend>lsl|sxtx|[us]xtw)(?:\s+#?(?P<shift>\d))?)?\]",
    re.ASCII,
)
ARM64_REGISTER = re.compile(r"[xw](?P<number>[12]?\d|30)|sp", re.ASCII)
TERM = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<number>0x[0-9a-fA-F]{1,64}|\d{1,64})"
    r"|(?P<symbol>[A-Za-z_.][\w.@]*))(?![\w.@])",
    re.ASCII,
)

FindSymbol = Callable[[str], "int | None"]
"""The address of an object in the file, by its name."""


class Operand(NamedTuple):
    """An argument of ``size`` bytes: where it lies. ``real``: the note says that it is a
    floating-point number."""

    size: int
    signed: bool
    location: Location
    real: bool = False


def read_operands(machine: str, text: str, site: int, find: FindSymbol) -> list[Operand]:
    """The arguments that a note lists for the marker at address ``site``.

    An argument that is not understood, or cannot be fetched, has a location that says why.
    """
    return [_operand(machine, word, site, find) for word in _split(machine, text)]


def count_operands(machine: str, text: str) -> int:
    """Return how many arguments a note lists."""
    return len(_split(machine, text))


def _split(machine: str, text: str) -> list[str]:
    if machine == "x86_64" and "@" not in text:  # without sizes, which `sys/sdt.h` writes
        return text.split()
    return SPLIT.split(text.strip()) if text.strip() else []


def _operand(machine: str, word: str, site: int, find: FindSymbol) -> Operand:
    said = ARGUMENT.fullmatch(word)
    if said is None:
        return Operand(8, False, Location(reason=_refused(word)))
    read = {"x86_64": _x86_64, "aarch64": _arm64}[machine]
    operand, size = said["operand"].strip(), int(said["size"])
    place = read(operand, size, site, find)
    return Operand(size, bool(said["sign"]), _location(place, operand, size), bool(said["real"]))


def _location(place: Fetch | str, operand: str, size: int) -> Location:
    if isinstance(place, str):
        return Location(reason=place)
    if size <= WORD:
        return Location(words=(place,))
    if place.read == "value":
        return Location(reason=_refused(operand, f"it has fewer than {size} bytes"))
    return Location(memory=replace(place, read="value"))


def _x86_64(operand: str, size: int, site: int, find: FindSymbol) -> Fetch | str:
    if operand.startswith("$"):
        return _value(operand[1:], "ip", site, find) or _refused(operand)
    if operand.startswith("%"):
        return _x86_register(operand[1:])
    if X86_VECTOR.fullmatch(operand):
        return f"a float in {operand}"
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
    """The sum of registers, the last one times its factor; None of none."""
    if not terms:
        return None
    *others, (register, factor) = terms
    total = Fetch(register=register)
    if not others and factor != 1:
        return IndexedFetch(base="constant", offset=offset, factor=factor, index=total)
    for name, _ in reversed(others):
        total, factor = IndexedFetch(register=name, factor=factor, index=total), 1
    return replace(total, offset=offset)


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


def _refused(operand: str, why: str = "") -> str:
    return f"the operand {operand} cannot be read{why and ': '}{why}"


def _unknown(symbol: str) -> None:
    """The address of a symbol where only numbers are meant."""


def _value(text: str, pointer: str, site: int, find: FindSymbol) -> Fetch | None:
    """A number, or the address of a symbol: as far from the instruction at ``site`` as in the file,
    wherever that is loaded."""
    number = _displacement(text, _unknown)
    if number is not None:
        return Fetch(base="constant", offset=number)
    address = _displacement(text, find)
    if address is None:
        return None
    return Fetch(register=pointer, offset=_signed(address - site))


def _signed(number: int) -> int:
    """The number of 64 bits with a sign that has the same bits as ``number``."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _number(text: str) -> int | None:
    """A number as GNU as reads it: after a leading 0 it is octal. None where it is none."""
    try:
        return int(text, 8 if text[0] == "0" and text.isdigit() else 0)
    except ValueError:
        return None


def _displacement(text: str, find: FindSymbol) -> int | None:
    """The sum of numbers and one symbol, whose address ``find`` knows, as 64 bits with a sign; None
    where it is something else, or has more bits, or the symbol is unknown."""
    total = position = symbols = 0
    while position < len(text):
        term = TERM.match(text, position)
        if term is None or (position and not term["sign"]):
            return None
        value = _number(term["number"]) if term["number"] else find(term["symbol"])
        symbols += not term["number"]
        if value is None or symbols > 1 or (term["symbol"] and term["sign"] == "-"):
            return None
        total += -value if term["sign"] == "-" else value
        position = term.end()
    return _signed(total) if -(1 << 63) <= total < 1 << 64 else None


def _in_memory(address: Fetch, size: int) -> Fetch:
    return replace(address, read="integer", size=min(size, 8))

"""Ranges of addresses, and locations that depend on the address.

Sources: DWARF 5, sections 2.6.2, 2.17.3, 7.25, 7.28 and 7.29; DWARF 4, sections
2.6.2 and 2.17.3; for split units before DWARF 5 GNU's "DebugFission" proposal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lbtrace.dwarf.reader.entries import Attribute, Entry, Unit
from lbtrace.dwarf.reader.forms import sleb, uleb
from lbtrace.elf.debug_sections import DwarfError, Section
from lbtrace.model import CFA

CHUNK = 4096
"""Bytes of a list that are read at once; longer than any of its parts."""

EXPRESSIONS = frozenset(
    {
        *("DW_FORM_exprloc", "DW_FORM_block", "DW_FORM_block1", "DW_FORM_block2"),
        "DW_FORM_block4",
    }
)


class Located(NamedTuple):
    """The location for the addresses from ``low`` to before ``high``."""

    low: int
    high: int
    expression: bytes


NOWHERE = Located(0, 0, b"")


def low(entry: Entry) -> int | None:
    """Return the lowest address of an entry's code, if it has one."""
    return int(entry.get("DW_AT_low_pc").value) if entry.has("DW_AT_low_pc") else None


def entry_address(entry: Entry) -> int | None:
    """Return the address of a function's first instruction."""
    if not entry.has("DW_AT_ranges"):
        return low(entry)
    return next(ranges(entry), (None, 0))[0]


def ranges(entry: Entry) -> Iterator[tuple[int, int]]:
    """Yield the addresses of an entry's code; those of a function begin with its first
    instruction."""
    if not entry.has("DW_AT_ranges"):
        start = low(entry)
        if start is None:
            return
        end = start + 1
        if entry.has("DW_AT_high_pc"):
            high, form = entry.get("DW_AT_high_pc")
            end = high if form.startswith(("DW_FORM_addr", "DW_FORM_GNU_addr")) else start + high
        yield start, end
        return
    unit = entry.unit
    if unit.version >= 5:
        attribute = entry.get("DW_AT_ranges")
        section, at = _place(unit, attribute, ".debug_rnglists", "DW_AT_rnglists_base", "rnglistx")
        yield from _ranges(unit, section, at)
    else:
        yield from _ranges_of_old(unit, int(entry.get("DW_AT_ranges").value))


def expression(entry: Entry, address: int, name: str = "DW_AT_location") -> bytes:
    """The location of ``entry`` when the program is at ``address``, or another attribute that is
    a location; empty where it has none."""
    attribute = entry.get(name)
    if attribute.form in EXPRESSIONS:
        return bytes(attribute.value)
    return next((e.expression for e in locations(entry, name) if e.low <= address < e.high), b"")


def locations(entry: Entry, name: str = "DW_AT_location") -> Iterator[Located]:
    """The list of locations of ``entry``."""
    attribute, unit = entry.get(name), entry.unit
    if unit.version >= 5:
        section, at = _place(unit, attribute, ".debug_loclists", "DW_AT_loclists_base", "loclistx")
        yield from _locations(unit, section, at)
    elif unit.skeleton is not None:
        yield from _split_locations(unit, int(attribute.value))
    else:
        yield from _old_locations(unit, int(attribute.value))


def _start(unit: Unit) -> int:
    """What the addresses in lists are relative to."""
    return low((unit.skeleton or unit).root) or 0


def _place(
    unit: Unit, attribute: Attribute, name: str, base: str, indexed: str
) -> tuple[Section, int]:
    """Where a list begins: directly, or by an index into a table of offsets."""
    section = unit.file.section(name)
    if not attribute.form.endswith(indexed):
        return section, int(attribute.value)
    table, size = unit.base(base), unit.offset_size
    return section, table + section.number(table + attribute.value * size, size)


class _Reader:
    """Reads the parts of a list from a position in a section."""

    def __init__(self, unit: Unit, section: Section, at: int) -> None:
        self._unit = unit
        self._section = section
        self._origin = at
        self._raw = section.cut(at, at + CHUNK)
        self._at = 0

    def advance(self) -> None:
        """Makes room for another part of the list."""
        self._unit.file.budget.spend(3)
        if self._at > CHUNK // 2:
            self._origin += self._at
            self._raw = self._section.cut(self._origin, self._origin + CHUNK)
            self._at = 0

    def kind(self) -> int:
        """Return the kind of the next part."""
        self.advance()
        return self.number(1)

    def number(self, size: int) -> int:
        self._at += size
        if self._at > len(self._raw):
            raise DwarfError("a list reaches out of its section")
        return int.from_bytes(self._raw[self._at - size : self._at], "little")

    def uleb(self) -> int:
        value, self._at = uleb(self._raw, self._at)
        return value

    def address(self) -> int:
        return self.number(self._unit.address_size)

    def indexed(self) -> int:
        return self._unit.indexed_address(self.uleb())

    def block(self, size: int) -> bytes:
        start = self._origin + self._at
        self._at += size
        return self._section.cut(start, start + size)


END, BASEX, STARTX_ENDX, STARTX_LENGTH, OFFSETS, BASE, START_END, START_LENGTH = range(8)
"""DW_RLE_*: the parts of a list of ranges. In a list of locations one comes between:"""

DEFAULT, VIEWS = -1, -2
LOCATED = (*range(BASE), DEFAULT, BASE, START_END, START_LENGTH, VIEWS)
"""What DW_LLE_* mean; the last is GNU's DW_LLE_view_pair."""


RANGED = tuple(range(START_LENGTH + 1))
"""What DW_RLE_* mean."""


def _ranges(unit: Unit, section: Section, at: int) -> Iterator[tuple[int, int]]:
    """A list of ranges of DWARF 5."""
    return _parts(_Reader(unit, section, at), _start(unit), RANGED)


def _locations(unit: Unit, section: Section, at: int) -> Iterator[Located]:
    """A list of locations of DWARF 5."""
    reader = _Reader(unit, section, at)
    for low, high in _parts(reader, _start(unit), LOCATED):
        yield Located(low, high, reader.block(reader.uleb()))


def _parts(reader: _Reader, base: int, meanings: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The bounds of a list's parts. The caller reads the rest of a part before the next."""
    while True:
        code = reader.kind()
        kind = meanings[code] if code < len(meanings) else code
        if kind == OFFSETS:  # nearly all are of this kind
            yield base + reader.uleb(), base + reader.uleb()
        elif kind == END:
            return
        elif kind == BASE:
            base = reader.address()
        elif kind == BASEX:
            base = reader.indexed()
        elif kind == VIEWS:
            reader.uleb()
            reader.uleb()
        else:
            yield _bounds(reader, kind)


def _bounds(reader: _Reader, kind: int) -> tuple[int, int]:
    if kind == DEFAULT:
        return 0, 1 << 64
    if kind == STARTX_ENDX:
        return reader.indexed(), reader.indexed()
    if kind == START_END:
        return reader.address(), reader.address()
    if kind in (STARTX_LENGTH, START_LENGTH):
        start = reader.indexed() if kind == STARTX_LENGTH else reader.address()
        return start, start + reader.uleb()
    raise DwarfError(f"a list holds a part of kind {kind}")


def _ranges_of_old(unit: Unit, offset: int) -> Iterator[tuple[int, int]]:
    file = (unit.skeleton or unit).file
    if unit.skeleton is not None:
        offset += unit.skeleton.base("DW_AT_GNU_ranges_base")
    for start, end, _ in _old(unit, file.section(".debug_ranges"), offset, located=False):
        yield start, end


def _old_locations(unit: Unit, offset: int) -> Iterator[Located]:
    return _old(unit, unit.file.section(".debug_loc"), offset, located=True)


def _old(unit: Unit, section: Section, at: int, *, located: bool) -> Iterator[Located]:
    reader, base = _Reader(unit, section, at), _start(unit)
    marker = (1 << 8 * unit.address_size) - 1
    while True:
        reader.advance()
        start, end = reader.address(), reader.address()
        if start == marker:
            base = end
            continue
        if not start and not end:
            return
        held = reader.block(reader.number(2)) if located else b""
        yield Located(base + start, base + end, held)


def _split_locations(unit: Unit, offset: int) -> Iterator[Located]:
    reader = _Reader(unit, unit.file.section(".debug_loc"), offset)
    while True:
        reader.advance()
        kind = reader.number(1)
        if kind == 0:
            return
        if kind == 1:  # base_address_selection: those of the others are absolute
            reader.uleb()
            continue
        low = reader.indexed()
        high = reader.indexed() if kind == 2 else low + reader.number(4)
        if kind not in (2, 3):
            raise DwarfError(f"a list holds a part of kind {kind}")
        yield Located(low, high, reader.block(reader.number(2)))


def register(expression: bytes) -> int:
    """Return the number of the register that ``expression`` names, -1 if it is something else."""
    if len(expression) == 1 and 0x50 <= expression[0] <= 0x6F:  # DW_OP_reg0 … DW_OP_reg31
        return expression[0] - 0x50
    return -1


def is_in_registers(expression: bytes) -> bool:
    """Return whether a value, or its first piece, is in one of the registers 0 to 31."""
    return bool(expression) and 0x50 <= expression[0] <= 0x6F


def is_passed(expression: bytes) -> bool:
    """Return whether a location at a function's first instruction is one that a caller filled: all
    of it is in registers, or begins with what one holds."""
    if not expression or expression[0] in range(0x70, 0x92) or expression[0] in ENTRY_VALUES:
        return bool(expression)
    return bool(registers(expression))


def registers(expression: bytes) -> list[int]:
    """Return the numbers of the registers 0 to 31 that hold a value, if they hold all of it."""
    at, found = 0, []
    while at < len(expression) and 0x50 <= expression[at] <= 0x6F:
        found.append(expression[at] - 0x50)
        at += 1
        if at < len(expression):
            if expression[at] != PIECE:
                return []
            _, at = uleb(expression, at + 1)
    return found if at == len(expression) else []


def pointer(expression: bytes) -> int:
    """Return the number of the register, of 0 to 31, that points at a value; -1 if none does."""
    return expression[0] - 0x70 if expression[1:] == b"\0" and expression[0] in BASES else -1


BASES = range(0x70, 0x90)
"""DW_OP_breg0 … DW_OP_breg31."""

PIECE, ENTRY_VALUES = 0x93, (0xA3, 0xF3)
"""DW_OP_piece, DW_OP_entry_value and GNU's older one."""

CONSTANTS = frozenset({*range(0x08, 0x12), *range(0x30, 0x50)})
"""DW_OP_const1u to DW_OP_consts, DW_OP_lit0 to DW_OP_lit31."""

CONSTS, PLUS, STACK_VALUE = b"\x11", b"\x22", 0x9F
"""DW_OP_consts, DW_OP_plus, DW_OP_stack_value."""

FBREG, CALL_FRAME_CFA = 0x91, 0x9C
"""DW_OP_fbreg, DW_OP_call_frame_cfa."""


def _added(expression: bytes) -> int:
    """The number that an expression adds to what is before it: LLVM 21 has the frame base of
    functions without a frame pointer so. Raises `DwarfError` for another."""
    if not expression:
        return 0
    number, at = sleb(expression, 1)
    if expression[at:] != PLUS:
        raise DwarfError("a frame base is not understood")
    return number


def derived_from(expression: bytes) -> int:
    """Return the number of the register from which a value is computed, -1 where it is not."""
    computed = expression[:1] and expression[0] in BASES and expression[-1] == STACK_VALUE
    return expression[0] - BASES[0] if computed else -1


def is_constant(expression: bytes) -> bool:
    """Return whether a value is one that is known, and nowhere."""
    first = expression[:1]
    return bool(first) and expression[-1] == STACK_VALUE and first[0] in CONSTANTS


def in_frame(expression: bytes) -> tuple[int, int] | None:
    """Return the number of the register, and the offset from it, of what is in memory there."""
    if not expression or expression[0] not in BASES:
        return None
    offset, end = sleb(expression, 1)
    return (expression[0] - BASES[0], offset) if end == len(expression) else None


DEREF = 0x06


def home(entry: Entry, function: Entry) -> tuple[int, int] | None:
    """Return the location of a variable in the whole of ``function``: the number of a register, or
    `CFA`, and the offset from it. None if it is elsewhere, or moves."""
    return _home(_fixed(entry, "DW_AT_location"), function)


def home_of_pointer(entry: Entry, function: Entry) -> tuple[int, int] | None:
    """Return the same of the pointer to a variable; None if the variable is found otherwise."""
    location = _fixed(entry, "DW_AT_location")
    return _home(location[:-1], function) if location[-1:] == bytes([DEREF]) else None


def _fixed(entry: Entry, name: str) -> bytes:
    """An expression that holds throughout."""
    if not entry.has(name) or entry.get(name).form not in EXPRESSIONS:
        return b""
    return bytes(entry.get(name).value)


def _home(location: bytes, function: Entry) -> tuple[int, int] | None:
    frame = _fixed(function, "DW_AT_frame_base")
    if not location or location[0] != FBREG:
        return None
    offset, end = sleb(location, 1)
    if end != len(location):
        return None
    if frame[:1] == bytes([CALL_FRAME_CFA]):
        return (CFA, offset + _added(frame[1:])) if frame[1:2] in (b"", CONSTS) else None
    base = register(frame)
    return (base, offset) if base >= 0 else None

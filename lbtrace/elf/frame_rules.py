"""Where the frame of a call begins, at an instruction of it: the canonical frame address (CFA).

Sources: DWARF 5, section 6.4; LSB core specification, "Exception Frames", for ``.eh_frame``.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from lbtrace.elf.debug_sections import DwarfError

PC_RELATIVE = 0x10
SIZES = {0x00: 8, 0x02: 2, 0x03: 4, 0x04: 8, 0x0A: 2, 0x0B: 4, 0x0C: 8}
"""DW_EH_PE_*: bytes of a pointer by its format."""

OPERANDS = {
    **{0x00: "", 0x01: "8", 0x02: "1", 0x03: "2", 0x04: "4", 0x05: "uu", 0x06: "u", 0x07: "u"},
    **{0x08: "u", 0x09: "uu", 0x0A: "", 0x0B: "", 0x0C: "uu", 0x0D: "u", 0x0E: "u", 0x0F: "b"},
    **{0x10: "ub", 0x11: "us", 0x12: "us", 0x13: "s", 0x14: "uu", 0x15: "us", 0x16: "ub"},
    **{0x2D: "", 0x2E: "u", 0x2F: "uu"},
}
"""DW_CFA_*: of which kinds the operands of an instruction are: LEB128, a block, or of a size."""

ADVANCE, OFFSET, RESTORE = 1, 2, 3
"""The highest two bits of instructions that carry an operand in the others."""

SET_LOC, REMEMBER, RECALL = 0x01, 0x0A, 0x0B
DEF_CFA, DEF_CFA_REGISTER, DEF_CFA_OFFSET, DEF_CFA_EXPRESSION = 0x0C, 0x0D, 0x0E, 0x0F
DEF_CFA_SF, DEF_CFA_OFFSET_SF = 0x12, 0x13

INSTRUCTIONS = 20_000
"""That are carried out at most."""


class Cfa(NamedTuple):
    """The canonical frame address: ``offset`` from a register with this DWARF number, or what an
    ``expression`` of DWARF yields."""

    register: int = -1
    offset: int = 0
    expression: bytes = b""


class _Common(NamedTuple):
    """What a CIE says: factors of addresses and offsets, how pointers are encoded, and the
    instructions that all its frames begin with."""

    code: int
    data: int
    encoding: int
    instructions: bytes
    augmented: bool


class _Description(NamedTuple):
    """The code that an FDE is about, and its instructions after those of the CIE."""

    start: int
    end: int
    common: _Common
    instructions: bytes


_DAMAGE = (DwarfError, IndexError, KeyError, ValueError)


class Frames:
    """The frame descriptions of a section: ``.eh_frame``, which lies at ``address``, or
    ``.debug_frame``, where that is None."""

    def __init__(self, raw: bytes, address: int | None = None) -> None:
        self._raw = raw
        self._address = address
        self._commons: dict[int, _Common] = {}
        self._damage: Exception | None = None

    def find(self, pc: int, at: int | None = None) -> Cfa | None:
        """The CFA when the program is at ``pc``; the description is at position ``at``, if that is
        known. None where none describes it. Raises `DwarfError` where it is damaged."""
        try:
            found = self._containing(pc) if at is None else self._description(at)[0]
            if found is None or not found.start <= pc < found.end:
                return None
            return _carry_out(found.common, found.instructions, found.start, pc)
        except _DAMAGE as error:
            raise DwarfError(f"a frame description is damaged: {error}") from None

    def _containing(self, pc: int) -> _Description | None:
        """The description of the code at ``pc``, if there is one."""
        number = bisect_right(self._starts, pc) - 1
        found = self._sorted[number] if number >= 0 else None
        if (found is None or pc >= found.end) and self._damage:
            raise self._damage
        return found

    @cached_property
    def _starts(self) -> list[int]:
        return [each.start for each in self._sorted]

    @cached_property
    def _sorted(self) -> list[_Description]:
        """All descriptions as far as they can be read, by where their code begins."""
        found: list[_Description] = []
        at = 0
        try:
            while at + 8 <= len(self._raw):
                description, at = self._description(at)
                if description is not None:
                    found.append(description)
        except _DAMAGE as error:
            self._damage = error
        return sorted(found, key=attrgetter("start"))

    def _description(self, at: int) -> tuple[_Description | None, int]:
        """The description at ``at``, if it is one of code, and where the next one is."""
        reader = _Reader(self._raw, at)
        length = reader.fixed(4)
        wide = length == 0xFFFFFFFF
        length = reader.fixed(8) if wide else length
        end = reader.at + length
        if not length:
            return None, end if self._address is None else len(self._raw)
        here = reader.at
        common = reader.fixed(8 if wide and self._address is None else 4)
        if common == (0 if self._address is not None else (1 << 64 if wide else 1 << 32) - 1):
            return None, end
        shared = self._common(here - common if self._address is not None else common)
        start = self._pointer(reader, shared.encoding)
        size = self._pointer(reader, shared.encoding & 0x0F)
        if shared.augmented:
            reader.at += reader.unsigned()
        return _Description(start, start + size, shared, self._raw[reader.at : end]), end

    def _pointer(self, reader: _Reader, encoding: int) -> int:
        own = (self._address or 0) + reader.at
        if encoding & 0x70 not in (0, PC_RELATIVE):
            raise DwarfError("a pointer of a frame description is encoded in an unusual way")
        signed = bool(encoding & 0x08)
        value = reader.fixed(SIZES[encoding & 0x0F], signed=signed)
        return (value + own if encoding & 0x70 else value) & ((1 << 64) - 1)

    def _common(self, at: int) -> _Common:
        found = self._commons.get(at)
        if found is None:
            found = self._commons[at] = self._read_common(at)
        return found

    def _read_common(self, at: int) -> _Common:
        reader = _Reader(self._raw, at)
        length = reader.fixed(4)
        wide = length == 0xFFFFFFFF
        length = reader.fixed(8) if wide else length
        end = reader.at + length
        reader.fixed(8 if wide and self._address is None else 4)
        version = reader.fixed(1)
        stop = self._raw.index(b"\0", reader.at)
        letters, reader.at = self._raw[reader.at : stop], stop + 1
        if version >= 4 and self._address is None:
            reader.fixed(2)  # the sizes of addresses and segments
        code, data = reader.unsigned(), reader.signed()
        _ = reader.fixed(1) if version == 1 else reader.unsigned()
        encoding, augmented = 0, letters[:1] == b"z"
        if augmented:
            after = reader.unsigned() + reader.at
            for letter in letters[1:].decode("latin-1"):
                if letter == "R":
                    encoding = reader.fixed(1)
                elif letter == "P":
                    reader.fixed(SIZES[reader.fixed(1) & 0x0F])
                elif letter == "L":
                    reader.fixed(1)
            reader.at = after
        return _Common(code, data, encoding, self._raw[reader.at : end], augmented)


class _Reader:
    """Reads numbers one after the other."""

    def __init__(self, raw: bytes, at: int = 0) -> None:
        self.raw = raw
        self.at = at

    def fixed(self, size: int, *, signed: bool = False) -> int:
        self.at += size
        if self.at > len(self.raw):
            raise IndexError("it ends too soon")
        return int.from_bytes(self.raw[self.at - size : self.at], "little", signed=signed)

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.fixed(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 70:
                raise IndexError("a number without end")

    def signed(self) -> int:
        before = self.at
        value = self.unsigned()
        bits = 7 * (self.at - before)
        return value - (1 << bits) if value >> bits - 1 else value

    def operand(self, kind: str) -> int | bytes:
        if kind == "u":
            return self.unsigned()
        if kind == "s":
            return self.signed()
        if kind == "b":
            size = self.unsigned()
            self.at += size
            return self.raw[self.at - size : self.at]
        return self.fixed(int(kind))


def _carry_out(common: _Common, own: bytes, start: int, pc: int) -> Cfa:
    """The CFA at ``pc`` of the code from ``start`` on."""
    cfa, left = Cfa(), INSTRUCTIONS
    address = start
    kept: list[Cfa] = []
    for program in (common.instructions, own):
        reader = _Reader(program)
        while reader.at < len(program) and left:
            left -= 1
            code = reader.fixed(1)
            high, low = code >> 6, code & 0x3F
            if high == ADVANCE:
                address += low * common.code
            elif high == OFFSET:
                reader.unsigned()
            elif not high:
                operands = [reader.operand(kind) for kind in OPERANDS[low]]
                if low == SET_LOC:
                    raise DwarfError("a frame description sets locations")
                if low in (0x02, 0x03, 0x04):
                    address += _number(operands[0]) * common.code
                elif low == REMEMBER:
                    kept.append(cfa)
                elif low == RECALL:
                    cfa = kept.pop()
                else:
                    cfa = _defined(cfa, low, operands, common.data)
            if address > pc:
                return cfa
    return cfa


def _number(operand: int | bytes) -> int:
    return operand if isinstance(operand, int) else 0


def _defined(cfa: Cfa, code: int, operands: list[int | bytes], factor: int) -> Cfa:
    """The CFA after an instruction that may define it."""
    numbers = [_number(operand) for operand in operands]
    if code in (DEF_CFA, DEF_CFA_SF):
        return Cfa(numbers[0], numbers[1] * (factor if code == DEF_CFA_SF else 1))
    if code in (DEF_CFA_OFFSET, DEF_CFA_OFFSET_SF):
        return Cfa(cfa.register, numbers[0] * (factor if code == DEF_CFA_OFFSET_SF else 1))
    if code == DEF_CFA_REGISTER:
        return Cfa(numbers[0], cfa.offset)
    if code == DEF_CFA_EXPRESSION and isinstance(operands[0], bytes):
        return Cfa(expression=operands[0])
    return cfa

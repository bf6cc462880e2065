"""What an unoptimised x86-64 function stores in its frame before it branches."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import iced_x86
from iced_x86 import (
    Decoder,
    FlowControl,
    Instruction,
    MemorySizeExt,
    Mnemonic,
    OpKind,
    Register,
    RegisterExt,
)

from lbtrace.machine.code import CALLER_STACK, CONSTANT, ArgumentStores, Code
from lbtrace.machine.x86_64.operands import REGISTERS, WRITES
from lbtrace.machine.x86_64.registers import RETURN_ADDRESS_SIZE

_INFO = iced_x86.InstructionInfoFactory()

KEEPING = frozenset({Mnemonic.AND, Mnemonic.MOV, Mnemonic.MOVZX, Mnemonic.MOVSX, Mnemonic.MOVSXD})
"""With these a number remains what it is: clang clears the upper bits of a bool."""

CHANGELESS = frozenset({Mnemonic.CMP, Mnemonic.TEST})

VECTOR_MOVES = frozenset(
    getattr(Mnemonic, prefix + name)
    for prefix in ("", "V")
    for name in (
        *("MOVSS", "MOVSD", "MOVAPS", "MOVAPD", "MOVUPS", "MOVUPD", "MOVLPS", "MOVLPD"),
        *("MOVD", "MOVQ", "MOVDQA", "MOVDQU"),
    )
)
MOVE_OPERANDS = 2
"""A move with more also copies the rest of a vector."""

VECTORS = {getattr(Register, f"XMM{n}"): f"xmm{n}" for n in range(16)}

NAMES = REGISTERS | VECTORS

FIRST_ARGUMENT = RETURN_ADDRESS_SIZE
"""Where the caller's stack begins at entry, from the stack pointer on."""

BASES = frozenset({"bp", "bx"})
"""Registers by which LLVM reaches a frame, as copies of the stack pointer."""

APART = 1 << 32
"""How far away an aligned stack pointer is taken to be: how far it moves is not known, so that
nothing reached by it is reached by the others."""

Source: TypeAlias = tuple[str, int]
"""See `ArgumentStores.find_source`."""


def argument_stores(code: Code) -> ArgumentStores:
    """See `lbtrace.machine.Machine.find_argument_stores`."""
    frame = _Frame()
    for instruction in Decoder(64, code.code, ip=code.address):
        if instruction.flow_control != FlowControl.NEXT:
            break
        frame.follow(instruction)
    return ArgumentStores(frame.first, frame.bases)


class _Address(NamedTuple):
    """Where a register points in the frame: ``at`` is how far from the stack pointer at entry, and
    ``base`` what it was computed from, a pointer and where that pointed then."""

    at: int
    base: tuple[str, int]


class _Frame:
    """The registers and the frame of a function as its instructions change them."""

    def __init__(self) -> None:
        self.first: dict[int, Source] = {}
        self.bases: dict[str, int] = {}
        """Those of the registers from which something is stored, when that is done first."""
        self.pointers = {"sp": 0}
        self._addresses: dict[str, _Address] = {}
        """Other registers that point into the frame."""
        self._x87: list[Source] = []
        self._now: dict[int, Source] = {}
        self._held: dict[str, Source] = {name: (name, 0) for name in NAMES.values()}

    def follow(self, instruction: Instruction) -> None:
        """Go on by an instruction after which the next one follows."""
        source = self._find_source(instruction)
        if instruction.mnemonic == Mnemonic.FLD:
            self._x87.append(source)
            return
        if instruction.mnemonic == Mnemonic.FXCH:
            self._x87.clear()  # they come in another order
        at = self._find_slot(instruction) if instruction.op0_kind == OpKind.MEMORY else None
        if at is not None and instruction.mnemonic not in CHANGELESS:
            base = self._find_base(_name(instruction.memory_base))
            if base is not None:
                self.bases.setdefault(*base)
            name, start = source
            for n in range(_size(instruction)):
                byte = (name, start + n) if name not in ("", CONSTANT) else source
                self.first.setdefault(at + n, byte)
                self._now[at + n] = byte
        written = [
            _name(used.register)
            for used in _INFO.info(instruction).used_registers()
            if used.access in WRITES
        ]
        leads = self._find_address(instruction) if instruction.mnemonic == Mnemonic.LEA else None
        self._move_pointers(instruction, written)
        for name in written:
            self._addresses.pop(name, None)
            if leads is not None and name not in self.pointers:
                self._addresses[name] = leads
        for name in filter(None, written):
            self._held[name] = source

    def _find_source(self, instruction: Instruction) -> Source:  # noqa: PLR0911 - a return for each case
        """What an instruction copies."""
        if instruction.mnemonic == Mnemonic.FLD:
            at = self._find_slot(instruction)
            return ("", 0) if at is None else self._load(at, _size(instruction))
        if instruction.mnemonic == Mnemonic.FSTP:
            return self._x87.pop() if self._x87 else ("", 0)
        if instruction.mnemonic == Mnemonic.LEA and instruction.is_ip_rel_memory_operand:
            return CONSTANT, 0
        if instruction.mnemonic not in KEEPING | VECTOR_MOVES:
            return "", 0
        if instruction.op_count > MOVE_OPERANDS:
            return "", 0
        narrows = instruction.mnemonic == Mnemonic.AND
        kind = instruction.op0_kind if narrows else instruction.op1_kind
        if kind == OpKind.MEMORY:
            at = self._find_slot(instruction)
            return ("", 0) if at is None else self._load(at, _size(instruction))
        if kind != OpKind.REGISTER:
            return CONSTANT, 0
        register = instruction.op0_register if narrows else instruction.op1_register
        return self._held.get(_name(register), ("", 0))

    def _load(self, at: int, size: int) -> Source:
        """Where it was at entry what is ``at`` a distance from the stack pointer at entry."""
        name, start = found = self._find_byte(at)
        if name in ("", CONSTANT):
            return found
        same = all(self._find_byte(at + n) == (name, start + n) for n in range(size))
        return found if same else ("", 0)

    def _find_byte(self, at: int) -> Source:
        own = (CALLER_STACK, at) if at >= FIRST_ARGUMENT else ("", 0)
        return self._now.get(at, own)

    def _find_slot(self, instruction: Instruction) -> int | None:
        """How far an instruction's operand in memory lies from the stack pointer at entry."""
        name = _name(instruction.memory_base)
        address = self._addresses.get(name)
        start = self.pointers.get(name, None if address is None else address.at)
        if start is None or instruction.memory_index != Register.NONE:
            return None
        displacement = instruction.memory_displacement
        if displacement >> 63:
            displacement -= 1 << 64
        return start + displacement

    def _find_address(self, instruction: Instruction) -> _Address | None:
        """Where in the frame an instruction's operand in memory lies."""
        at, base = self._find_slot(instruction), self._find_base(_name(instruction.memory_base))
        return None if at is None or base is None else _Address(at, base)

    def _find_base(self, name: str) -> tuple[str, int] | None:
        """The pointer by which the register with a ``name`` reaches the frame, and how far from the
        stack pointer at entry that points, or did."""
        if name in self.pointers:
            return name, self.pointers[name]
        address = self._addresses.get(name)
        return None if address is None else address.base

    def _move_pointers(self, instruction: Instruction, written: list[str]) -> None:
        """Follow the stack pointer and the frame pointer."""
        now = self.pointers.get("sp")
        for name in {"sp", *BASES}.intersection(written):
            self.pointers.pop(name, None)
        if now is None:
            return
        if "sp" not in written:
            moves = instruction.mnemonic == Mnemonic.MOV and BASES.issuperset(written)
            if moves and written and instruction.op1_register == Register.RSP:
                self.pointers[written[0]] = now
            return
        if instruction.mnemonic == Mnemonic.AND:
            self.pointers["sp"] = now - APART
            return
        adds = {Mnemonic.SUB: -1, Mnemonic.ADD: 1}.get(instruction.mnemonic, 0)
        if instruction.is_stack_instruction:
            self.pointers["sp"] = now + instruction.stack_pointer_increment
        elif adds and instruction.op1_kind not in (OpKind.REGISTER, OpKind.MEMORY):
            amount = instruction.immediate(1)
            self.pointers["sp"] = now + adds * (amount - (1 << 64) if amount >> 63 else amount)


def _name(register: int) -> str:
    """The name of the register of which one is all or a part."""
    return NAMES.get(register) or NAMES.get(RegisterExt.full_register(register), "")  # type: ignore[arg-type]


def _size(instruction: Instruction) -> int:
    """How many bytes of memory an instruction reads or writes."""
    return MemorySizeExt.size(instruction.memory_size)

"""What the instructions before a return change, followed backward from it.

They restore registers and the stack pointer, and often put the result into its register. So what
a register holds at the return is found where it was before: in another register, on the
stack, or it is a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import iced_x86
from iced_x86 import (
    Decoder,
    Instruction,
    Mnemonic,
    OpAccess,
    OpKind,
    Register,
    RegisterExt,
)
from msgspec import Struct

from lbtrace.machine._code_scan import ffi, lib
from lbtrace.machine.code import Origin
from lbtrace.machine.x86_64.kernel_rules import is_long_nop, is_refused
from lbtrace.machine.x86_64.operands import CONDITIONAL_MOVES, FLAGS, REGISTERS, WRITES
from lbtrace.machine.x86_64.stack_depth import Stack

_HARMLESS = CONDITIONAL_MOVES | frozenset(
    getattr(Mnemonic, name)
    for name in (
        *("MOV", "MOVZX", "MOVSX", "MOVSXD", "LEA", "LEAVE", "POP", "NOP", "CDQE", "CWDE", "CDQ"),
        *("ADD", "SUB", "ADC", "SBB", "AND", "OR", "XOR", "NOT", "NEG", "INC", "DEC", "CMP"),
        *("TEST", "SHL", "SHR", "SAR", "ROL", "ROR", "BSWAP", "IMUL", "CQO", "ENDBR64"),
        *(f"SET{flag}" for flag in FLAGS),
        *("MOVAPS", "MOVAPD", "MOVUPS", "MOVUPD", "MOVDQA", "MOVDQU", "MOVSS", "MOVSD", "MOVD"),
        *("MOVQ", "PXOR", "XORPS", "XORPD", "VZEROUPPER"),
    )
)
"""Instructions that compute or copy, and fault only where they access memory."""

_KEPT = 100_000
"""Steps that are kept, at most."""

_NO_ACCESS = frozenset({Mnemonic.LEA, Mnemonic.NOP})


class Restored(Struct, frozen=True):
    """A place on the way to a return, and what the instructions from there on do.

    The stack pointer lies ``sinks`` bytes below its value at entry there, rbp ``base``; None where
    that is not known. ``origins`` say of the registers that they write where there is what these
    hold at the return, None where it is nowhere. They write memory if they ``store``.
    """

    sinks: int | None = 0
    base: int | None = None
    origins: Mapping[str, Origin | None] = {}
    stores: bool = False

    def before(
        self, instruction: Instruction, factory: iced_x86.InstructionInfoFactory
    ) -> Restored | None:
        """Return the same one ``instruction`` earlier; None if it may fault or have other
        effects."""
        if instruction.mnemonic not in _HARMLESS:
            return None
        if not all(map(_is_plain, _registers(instruction))):
            return None
        info = factory.info(instruction)
        written = {
            RegisterExt.full_register(used.register)
            for used in info.used_registers()
            if used.access in WRITES
        }
        stack = self._stack(instruction, written)
        if stack is None or not _is_accessible(instruction, stack):
            return None
        stores = instruction.mnemonic not in _NO_ACCESS and any(
            used.access not in (OpAccess.READ, OpAccess.COND_READ, OpAccess.NO_MEM_ACCESS)
            for used in info.used_memory()
        )
        names = {REGISTERS[register] for register in written if register in REGISTERS} - {"sp"}
        step = _origin(instruction, stack) if len(names) == 1 else None
        origins = {
            name: _earlier(self.origins.get(name, Origin(name)), names, step, stores=stores)
            for name in {*self.origins, *names}
        }
        return Restored(stack.pointer, stack.base, origins, self.stores or stores)

    def agreed(self, other: Restored) -> Restored:
        """Return what holds on either of two ways from the same place, of the same depth."""
        pairs = {
            name: [each.origins.get(name, Origin(name)) for each in (self, other)]
            for name in {*self.origins, *other.origins}
        }
        origins = {name: one if one == two else None for name, (one, two) in pairs.items()}
        return Restored(self.sinks, self.base, origins, self.stores or other.stores)

    def _stack(self, instruction: Instruction, written: set[iced_x86.Register_]) -> Stack | None:  # noqa: PLR0911 - a return for each case
        """The stack before an instruction; None where it is not understood."""
        mnemonic, after = instruction.mnemonic, self.sinks
        if mnemonic == Mnemonic.LEAVE:
            return self._framed(after, 8)
        if Register.RBP in written and self.base is not None:
            return None
        base = None if Register.RBP in written else self.base
        if Register.RSP not in written:
            return Stack(after, base)
        if mnemonic == Mnemonic.POP:
            if instruction.op0_kind != OpKind.REGISTER or instruction.op0_register == Register.RSP:
                return None
            return Stack(_more(after, instruction.stack_pointer_increment), base)
        if instruction.op0_register != Register.RSP:
            return None
        if mnemonic == Mnemonic.MOV and instruction.op1_register == Register.RBP:
            return self._framed(after, 0)
        if mnemonic == Mnemonic.LEA and instruction.memory_index == Register.NONE:
            moved = _signed(instruction.memory_displacement)
            if instruction.memory_base == Register.RSP:
                return Stack(_more(after, moved), base)
            return self._framed(after, moved) if instruction.memory_base == Register.RBP else None
        if mnemonic in (Mnemonic.ADD, Mnemonic.SUB) and instruction.op1_kind not in (
            OpKind.REGISTER,
            OpKind.MEMORY,
        ):
            moved = _signed(instruction.immediate(1))
            return Stack(_more(after, moved if mnemonic == Mnemonic.ADD else -moved), base)
        return None

    def _framed(self, after: int | None, distance: int) -> Stack | None:
        """The stack before rbp, less ``distance``, becomes the stack pointer."""
        return None if after is None or self.base is not None else Stack(None, after + distance)


class Steps:
    """What instructions do on the way to a return, worked out once for each: epilogues are
    alike. ``restored`` is what native code numbers: the first is what is so at the return."""

    def __init__(self) -> None:
        self.restored = [Restored()]
        self.native = ffi.gc(lib.lbt_steps_new(), lib.lbt_steps_free)
        self._factory = iced_x86.InstructionInfoFactory()
        self._numbers: dict[object, int] = {}
        self._count = 0
        if self.native == ffi.NULL:
            raise MemoryError
        self._number(self.restored[0])

    def learn(self, number: int, raw: bytes) -> None:
        """Tell native code what `Restored.before` says of the instruction ``raw``, which does not
        depend on its address."""
        instruction = Decoder(64, raw).decode()
        found = self.restored[number].before(instruction, self._factory)
        before = lib.LBT_NO_STEP
        if found is not None:
            key = found.sinks, found.base, frozenset(found.origins.items()), found.stores
            before = self._numbers.setdefault(key, len(self.restored))
            if before == len(self.restored):
                self.restored.append(found)
                self._number(found)
        unfit = is_refused(raw) or is_long_nop(instruction)
        if not lib.lbt_steps_add(self.native, number, raw, len(raw), before, unfit):
            raise MemoryError
        self._count += 1

    def _number(self, restored: Restored) -> None:
        depths = (restored.sinks, restored.base)
        known = (lib.LBT_NO_DEPTH if depth is None else depth for depth in depths)
        if not lib.lbt_steps_restored(self.native, *known):
            raise MemoryError

    def limited(self) -> Steps:
        """Return these, or others where these are too many to be kept."""
        return self if self._count < _KEPT else Steps()


def _registers(instruction: Instruction) -> Iterator[iced_x86.Register_]:
    """The registers that are operands."""
    for number in range(instruction.op_count):
        if instruction.op_kind(number) == OpKind.REGISTER:
            yield instruction.op_register(number)


def _is_plain(register: iced_x86.Register_) -> bool:
    """Whether nothing but the register changes when it is written."""
    return RegisterExt.is_gpr(register) or RegisterExt.is_vector_register(register)


def _is_accessible(instruction: Instruction, stack: Stack) -> bool:
    """Whether the memory that an instruction accesses, if any, is the frame of the function, the
    file's own data, or the thread's block."""
    if instruction.is_string_instruction:
        return False
    operands = [instruction.op_kind(n) for n in range(instruction.op_count)]
    if instruction.mnemonic in _NO_ACCESS or OpKind.MEMORY not in operands:
        return True
    base = instruction.memory_base
    if instruction.memory_index != Register.NONE:
        return False
    if instruction.segment_prefix != Register.NONE:
        return instruction.segment_prefix == Register.FS and base == Register.NONE
    if base == Register.RBP:
        return stack.base is not None
    return base == Register.RSP or instruction.is_ip_rel_memory_operand


def _earlier(
    origin: Origin | None, written: set[str], step: Origin | None, *, stores: bool
) -> Origin | None:
    """Where ``origin`` is before an instruction that writes registers: what is ``step``."""
    if origin is None or (origin.on_stack and stores):
        return None
    return origin.after(step) if origin.register in written else origin


def _origin(instruction: Instruction, stack: Stack) -> Origin | None:  # noqa: PLR0911 - a return for each case
    """Where what an instruction puts into the register that it writes is before."""
    mnemonic = instruction.mnemonic
    if mnemonic == Mnemonic.POP:
        return _on_stack(stack.pointer, 0, 8)
    if mnemonic == Mnemonic.CDQE:
        return Origin("ax", bits=32, signed=True)
    if instruction.op_count != 2 or instruction.op0_kind != OpKind.REGISTER:
        return None
    width = RegisterExt.size(instruction.op0_register)
    kind, other = instruction.op1_kind, instruction.op1_register
    if width < 4:
        return None
    if mnemonic in (Mnemonic.XOR, Mnemonic.SUB) and kind == OpKind.REGISTER:
        return Origin() if other == instruction.op0_register else None
    if mnemonic == Mnemonic.LEA:
        plain = width == 8 and instruction.memory_index == Register.NONE
        name = REGISTERS.get(instruction.memory_base, "sp") if plain else "sp"
        moved = _signed(instruction.memory_displacement)
        return None if name == "sp" else Origin(name, moved)
    if mnemonic not in (Mnemonic.MOV, Mnemonic.MOVZX, Mnemonic.MOVSX, Mnemonic.MOVSXD):
        return None
    signed = mnemonic in (Mnemonic.MOVSX, Mnemonic.MOVSXD)
    if signed and width != 8:
        return None
    if kind == OpKind.MEMORY:
        return _loaded(instruction, stack, signed=signed)
    if kind != OpKind.REGISTER:
        return Origin(offset=_signed(instruction.immediate(1)))
    if other in (Register.AH, Register.BH, Register.CH, Register.DH):
        return None
    name = REGISTERS.get(RegisterExt.full_register(other), "sp")
    return None if name == "sp" else Origin(name, bits=8 * RegisterExt.size(other), signed=signed)


def _loaded(instruction: Instruction, stack: Stack, *, signed: bool) -> Origin | None:
    """Where what an instruction loads is, if that is on the stack."""
    if instruction.memory_index != Register.NONE or instruction.segment_prefix != Register.NONE:
        return None
    bases = {Register.RSP: stack.pointer, Register.RBP: stack.base}
    size = iced_x86.MemorySizeExt.size(instruction.memory_size)
    moved = _signed(instruction.memory_displacement)
    return _on_stack(bases.get(instruction.memory_base), moved, size, signed=signed)


def _on_stack(sinks: int | None, moved: int, size: int, *, signed: bool = False) -> Origin | None:
    if sinks is None:
        return None
    return Origin(offset=moved - sinks, bits=8 * size, signed=signed, on_stack=True)


def _more(distance: int | None, amount: int) -> int | None:
    return None if distance is None else distance + amount


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number

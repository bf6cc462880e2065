"""Whether a function in Go's assembly returns with the register as it was called with.

Such functions save the registers of what they interrupt, or of C, on the stack, and load them from
there last of all (``runtime.asyncPreempt``, ``crosscall2``).
"""

from __future__ import annotations

from collections.abc import Iterator

import iced_x86
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpAccess, OpKind, Register

from lbtrace.machine.code import Code
from lbtrace.machine.x86_64.stack_depth import Stack

_WRITES = frozenset(
    (OpAccess.WRITE, OpAccess.READ_WRITE, OpAccess.COND_WRITE, OpAccess.READ_COND_WRITE)
)
_JUMPS = frozenset({FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH})
_CALLS = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_ENDS = frozenset({FlowControl.RETURN, FlowControl.INDIRECT_BRANCH})
_INFO = iced_x86.InstructionInfoFactory()
_MOVES = frozenset({Mnemonic.MOV, Mnemonic.PUSH, Mnemonic.POP})


def may_return_with_another(code: Code, register: iced_x86.Register_) -> bool:
    """Return whether the function may end with something else in ``register`` than at entry.

    Read in the order of the addresses: what precedes the first write has the value at entry, and
    what follows a load from where that is saved, up to the next write or target of a jump.
    """
    written = [at.ip for at in _instructions(code) if _writes(at, register)]
    if not written:
        return False
    jumps = {at.ip: at.near_branch_target for at in _instructions(code) if _is_jump(at)}
    if any(target <= written[0] < at for at, target in jumps.items() if target >= code.address):
        return True  # back to where the value at entry is thought to be
    targets, saved, stack, same = set(jumps.values()), set[int](), Stack(), True
    for instruction in _instructions(code):
        same &= instruction.ip <= written[0] or instruction.ip not in targets
        if not same and _leaves(instruction, code):
            return True
        place = _place(instruction, register, stack)
        if _writes(instruction, register):
            same = place in saved
        elif same and place is not None:
            saved.add(place)
        if instruction.flow_control not in _CALLS | _ENDS:
            stack = stack.after(instruction)
    return False


def _instructions(code: Code) -> Iterator[Instruction]:
    return iter(Decoder(64, code.code, ip=code.address))


def _writes(instruction: Instruction, register: iced_x86.Register_) -> bool:
    return any(
        iced_x86.RegisterExt.full_register(used.register) == register and used.access in _WRITES
        for used in _INFO.info(instruction).used_registers()
    )


def _is_jump(instruction: Instruction) -> bool:
    return instruction.flow_control in _JUMPS and instruction.mnemonic != Mnemonic.JMPE


def _leaves(instruction: Instruction, code: Code) -> bool:
    """Whether an instruction may end the function, or continue in another."""
    if instruction.flow_control in _ENDS:
        return True
    into = instruction.near_branch_target - code.address
    return _is_jump(instruction) and not 0 <= into < len(code.code)


def _place(instruction: Instruction, register: iced_x86.Register_, stack: Stack) -> int | None:
    """Where an instruction saves ``register`` or loads it from: how far below the stack pointer at
    entry; None where it does neither."""
    if instruction.mnemonic not in _MOVES or stack.pointer is None:
        return None
    kinds = [instruction.op_kind(n) for n in range(instruction.op_count)]
    if instruction.mnemonic != Mnemonic.MOV:
        plain = kinds == [OpKind.REGISTER] and instruction.op0_register == register
        return stack.pointer + 8 * (instruction.mnemonic == Mnemonic.PUSH) if plain else None
    moved = [instruction.op_register(n) for n, kind in enumerate(kinds) if kind == OpKind.REGISTER]
    on_stack = instruction.memory_base == Register.RSP
    if moved != [register] or not on_stack or instruction.memory_index != Register.NONE:
        return None
    distance = instruction.memory_displacement
    return stack.pointer - (distance if distance < 1 << 63 else distance - (1 << 64))

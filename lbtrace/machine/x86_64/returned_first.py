"""Whether an x86-64 function may return its first argument: so does each that returns an object in
memory, whose address it is given first (System V psABI, 3.2.3, "Returning of Values")."""

from __future__ import annotations

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, OpKind, Register, Register_

from lbtrace.machine.code import Code

FIRST = Register.RDI

RESULTS = frozenset({Register.RAX, Register.EAX, Register.AX, Register.AL})

SHORT = frozenset({Register.EAX, Register.EDI})
"""Which have no room for an address."""

PASSED_ON = frozenset({FIRST, Register.EDI})
"""Where the first argument of a function is to which one jumps that returns in its place."""

FRAME = frozenset({Register.RSP, Register.RBP, Register.RBX})
"""By which a function reaches its frame."""

IN_FRAME = Register.NONE
"""Stands for the frame, which is one place here."""

COPYING = frozenset({Mnemonic.MOV, Mnemonic.PUSH})

SETTING = frozenset(
    {
        *(Mnemonic.MOV, Mnemonic.MOVZX, Mnemonic.MOVSX, Mnemonic.MOVSXD, Mnemonic.XOR, Mnemonic.OR),
        *(Mnemonic.ADD, Mnemonic.SUB, Mnemonic.AND, Mnemonic.IMUL, Mnemonic.SHL, Mnemonic.SHR),
        *(Mnemonic.SAR, Mnemonic.NEG, Mnemonic.NOT, Mnemonic.MOVD, Mnemonic.MOVQ, Mnemonic.SETE),
        *(Mnemonic.SETNE, Mnemonic.SETG, Mnemonic.SETGE, Mnemonic.SETL, Mnemonic.SETLE),
        *(Mnemonic.SETA, Mnemonic.SETAE, Mnemonic.SETB, Mnemonic.SETBE, Mnemonic.CVTTSD2SI),
    }
)
"""What leaves something else in a register than an argument, unless it copies that."""


def may_return_first(code: Code) -> bool:
    """See `lbtrace.machine.Machine.may_return_first`.

    It does not where the instructions right before a return, up to another jump or a call, set the
    result to something else; or before a jump to another function, what that takes first.
    """
    held = {FIRST}
    for _ in range(2):  # the second time with all places that hold it
        result = passed = False  # whether they are something else
        for instruction in Decoder(64, code.code, ip=code.address):
            flow = instruction.flow_control
            if (flow == FlowControl.RETURN and result) or (passed and _leaves(instruction, code)):
                return False
            copies = instruction.mnemonic in COPYING and _source(instruction) in held
            if flow != FlowControl.NEXT:
                result = passed = False
                continue
            target = _target(instruction)
            is_other = not copies and _sets(instruction)
            result = is_other if target in RESULTS else result
            passed = is_other if target in PASSED_ON else passed
            if copies and target not in RESULTS:
                held.add(target)
    return True


def _leaves(instruction: Instruction, code: Code) -> bool:
    """Whether it jumps to another function."""
    if instruction.flow_control != FlowControl.UNCONDITIONAL_BRANCH:
        return False
    end = code.address + len(code.code)
    return not code.address <= instruction.near_branch_target < end


def _sets(instruction: Instruction) -> bool:
    is_short = instruction.op0_register in SHORT
    computes = instruction.is_ip_rel_memory_operand or is_short
    return (computes and instruction.mnemonic == Mnemonic.LEA) or instruction.mnemonic in SETTING


def _source(instruction: Instruction) -> Register_:
    """The register that an instruction reads, `IN_FRAME` where it is the frame."""
    if instruction.mnemonic == Mnemonic.PUSH:
        return instruction.op0_register
    if instruction.op1_kind == OpKind.REGISTER:
        return instruction.op1_register
    loads = instruction.op1_kind == OpKind.MEMORY and instruction.memory_base in FRAME
    return IN_FRAME if loads else Register.RIP


def _target(instruction: Instruction) -> Register_:
    """The register that it writes, `IN_FRAME` where that is memory."""
    writes = instruction.op0_kind == OpKind.REGISTER and instruction.mnemonic != Mnemonic.PUSH
    return instruction.op0_register if writes else IN_FRAME

"""Writes lbtrace/native/x86_64_opcodes.h: what iced-x86 knows of the opcodes of x86-64.

    python build/opcodes.py > lbtrace/native/x86_64_opcodes.h

Only opcodes that programs use often are in it, and of these only what is the same with any REX
prefix. Where native code meets another, lbtrace decodes with iced-x86.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, Register

PREFIXES = (b"", b"\x66", b"\xf3", b"\xf2")
MAPS = (b"", b"\x0f")
REX = range(0x40, 0x50)
SPECIAL = {(0, 0xF6), (0, 0xF7), (0, 0xFF)}
"""What the second byte decides: native code knows them."""

NOP = 0x90
"""What prefixes change: native code knows it."""

LEFT_OUT = {
    *(
        (0, opcode)
        for opcode in (0x0F, 0x26, 0x2E, 0x36, 0x3E, *REX, *range(0x62, 0x68), 0xC4, 0xC5)
    ),
    *((0, opcode) for opcode in (0xF0, 0xF2, 0xF3, 0x8C, 0x8E, 0xC8)),
    *((1, opcode) for opcode in (0x0F, *range(0x20, 0x24), *range(0x38, 0x3C))),
} - {(0, 0x63)}
"""Prefixes and escapes; moves of segment and control registers, enter."""

FLOWS = {
    FlowControl.NEXT: "NEXT",
    FlowControl.UNCONDITIONAL_BRANCH: "JUMP",
    FlowControl.CONDITIONAL_BRANCH: "BRANCH",
    FlowControl.CALL: "CALL",
    FlowControl.RETURN: "RETURN",
    FlowControl.EXCEPTION: "TRAP",
    FlowControl.INTERRUPT: "INTERRUPT",
}
FRAME = (Register.RSP, Register.RBP)


class Opcode(NamedTuple):
    """What is known of an opcode. ``mask`` has a bit for each value of ModRM.reg, with an operand
    in memory, and from bit 8 on with one in a register."""

    mask: int = 0
    modrm: bool = False
    immediate: str = "NO"
    operand: str = "NONE"
    flow: str = "UNKNOWN"


def table() -> tuple[list[Opcode], list[list[Opcode]]]:
    """The 256 opcodes of one byte, and those after 0F without prefix and with each."""
    one, *others = (_opcodes(prefix, 0) for prefix in PREFIXES)
    one[NOP] = Opcode()
    for other in others:
        other[NOP] = Opcode()
        assert one == other
    return one, [_opcodes(prefix, 1) for prefix in PREFIXES]


def _opcodes(prefix: bytes, number: int) -> list[Opcode]:
    return [_opcode(prefix, number, opcode) for opcode in range(256)]


def _opcode(prefix: bytes, number: int, opcode: int) -> Opcode:
    if (number, opcode) in SPECIAL:
        return Opcode(0xFFFF, True, flow="SPECIAL")
    if (number, opcode) in LEFT_OUT:
        return Opcode()
    stem = MAPS[number] + bytes([opcode])
    if plain := _form(prefix, stem, None, 0):
        found = {_form(prefix, stem, None, rm) for rm in range(3)}
        return plain._replace(mask=0xFFFF) if len(found) == 1 else Opcode()
    forms: dict[int, Opcode] = {}
    for bit in range(16):
        mode, reg = bit >> 3, bit & 7
        each = {_form(prefix, stem, (mode * 3, reg), rm) for rm in ((0,), range(8))[mode]}
        form = each.pop()
        if form and not each:
            forms[bit] = form
    if not forms:
        return Opcode()
    # An operand in memory is no register: what stands for one in a register is so for both.
    kinds = Counter(form._replace(operand="NONE") for form in forms.values())
    nops = [form for form in kinds if form.flow == "NOP"]
    kind = nops[0] if nops else kinds.most_common(1)[0][0]
    alike = {bit: form for bit, form in forms.items() if form._replace(operand="NONE") == kind}
    operands = Counter(form.operand for bit, form in alike.items() if bit >= 8)
    operand = operands.most_common(1)[0][0] if operands else "NONE"
    inside = {form.operand for bit, form in alike.items() if bit < 8}
    if operand == "NONE" and inside == {"REG"}:
        operand = "REG"
    mask = sum(
        1 << bit
        for bit, form in alike.items()
        if form.operand == operand or (bit < 8 and form.operand == "NONE" and operand == "RM")
    )
    return kind._replace(mask=mask, operand=operand)


def _form(prefix: bytes, stem: bytes, modrm: tuple[int, int] | None, rm: int) -> Opcode | None:
    """What one form of an opcode is, with any REX; None where it is none, or differs."""
    found = [_decoded(prefix, stem, modrm, rm, rex) for rex in (None, *REX)]
    if any(each is None for each in found):
        return None
    lengths = {bool(rex and rex & 8): i.len - bool(rex) for rex, i in _zip(found)}
    head = len(prefix) + len(stem) + (modrm is not None)
    sizes = (lengths[False] - head, lengths[True] - head)
    if any(i.len - bool(rex) != lengths[bool(rex and rex & 8)] for rex, i in _zip(found)):
        return None
    short = 2 if prefix == b"\x66" else 4
    immediate = {
        (0, 0): "NO",
        (1, 1): "BYTE",
        (2, 2): "WORD",
        (short, 4): "USUAL",
        (short, 8): "WIDE",
        (8, 8): "ADDRESS",
    }.get(sizes)
    if sizes == (4, 4) and stem in (b"\xe8", b"\xe9", *(b"\x0f%c" % n for n in range(0x80, 0x90))):
        immediate = "DISTANCE"
    flows = {_flow(i) for _, i in _zip(found)}
    if immediate is None or len(flows) > 1 or "" in flows:
        return None
    if modrm is None and lengths[False] <= head - 1 + bool(modrm):
        return None
    operand = _operand(prefix, stem, modrm, rm)
    if operand is None:
        return None
    return Opcode(0, modrm is not None, immediate, operand, flows.pop())


def _zip(found: list[Instruction | None]) -> Iterator[tuple[int | None, Instruction]]:
    return ((rex, i) for rex, i in zip((None, *REX), found, strict=True) if i is not None)


def _decoded(
    prefix: bytes, stem: bytes, modrm: tuple[int, int] | None, rm: int, rex: int | None
) -> Instruction | None:
    """An instruction; None where it is none, or has a ModRM byte against expectations."""
    head = prefix + (bytes([rex]) if rex is not None else b"") + stem
    rest = b"" if modrm is None else bytes([modrm[0] << 6 | modrm[1] << 3 | rm])
    if modrm is None:
        # Had it a ModRM byte, its length would change with this one.
        tried = [_decode(head + bytes([each]) + bytes(12)) for each in (0x00, 0x40, 0x80, 0xC0)]
        if len({(i.len, i.is_invalid, i.code) for i in tried}) > 1:
            return None
        if not tried[0].is_invalid and len({str(_shape(i)) for i in tried}) > 1:
            return None
        instruction = tried[0]
    else:
        instruction = _decode(head + rest + bytes(12))
    return None if instruction.is_invalid else instruction


def _shape(instruction: Instruction) -> tuple[int, ...]:
    return (instruction.op_count, instruction.memory_base, instruction.op0_register)


def _decode(code: bytes) -> Instruction:
    return Decoder(64, code, ip=0x1000).decode()


def _flow(instruction: Instruction) -> str:
    """How it continues; empty for what is left to iced-x86."""
    flow = FLOWS.get(instruction.flow_control, "")
    if flow == "RETURN" and instruction.mnemonic != Mnemonic.RET:
        return ""
    if flow == "CALL" and not instruction.op_count:
        return "SYSCALL" if instruction.mnemonic == Mnemonic.SYSCALL else ""
    if flow == "INTERRUPT":
        return "INT3" if instruction.mnemonic == Mnemonic.INT3 else ""
    if flow == "NEXT" and instruction.mnemonic == Mnemonic.NOP:
        return "NOP"
    if flow == "NEXT" and instruction.is_stack_instruction:
        return "STACK"
    return flow


def _operand(prefix: bytes, stem: bytes, modrm: tuple[int, int] | None, rm: int) -> str | None:
    """Which 64-bit register the first operand is, with REX.W; None where without it is one."""
    mode = modrm[0] if modrm else 0
    wide = _decoded(prefix, stem, modrm, rm, 0x48)
    narrow = _decoded(prefix, stem, modrm, rm, None)
    assert wide
    assert narrow
    if not wide.is_stack_instruction and Register.RAX <= narrow.op0_register <= Register.R15:
        return None
    if not Register.RAX <= wide.op0_register <= Register.R15:
        return "NONE"
    if modrm is None:
        extended = _decoded(prefix, stem, modrm, rm, 0x49)
        changes = extended is not None and extended.op0_register != wide.op0_register
        return "OPCODE" if changes else "RAX"
    by_reg = _decoded(prefix, stem, modrm, rm, 0x4C)
    assert by_reg
    if by_reg.op0_register != wide.op0_register:
        return "REG"
    by_rm = _decoded(prefix, stem, modrm, rm, 0x49)
    assert by_rm
    if mode == 3 and by_rm.op0_register != wide.op0_register:
        return "RM"
    return None


def main() -> None:
    """Write the header."""
    one, two = table()
    kinds = {Opcode(): 0}
    numbers = [[kinds.setdefault(each, len(kinds)) for each in row] for row in (one, *two)]
    print("/* Opcodes of x86-64: made by build/opcodes.py of what iced-x86 knows of them. */")
    print("#ifndef LBT_X86_64_OPCODES_H\n#define LBT_X86_64_OPCODES_H\n")
    print("static const struct opcode opcodes[] = {")
    for kind in kinds:
        words = [f"{kind.mask:#06x}", str(int(kind.modrm)), f"IMMEDIATE_{kind.immediate}"]
        print("\t{" + ", ".join([*words, f"OPERAND_{kind.operand}", f"FLOW_{kind.flow}"]) + "},")
    print("};\n")
    print("/* Those of one byte; and after 0F, by the prefix that selects: none, 66, F3, F2. */")
    print("static const unsigned char opcode_numbers[1 + 4][256] = {")
    for row in numbers:
        print("\t{")
        for at in range(0, 256, 24):
            print("\t\t" + " ".join(f"{each}," for each in row[at : at + 24]))
        print("\t},")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()

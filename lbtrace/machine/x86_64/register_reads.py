"""Whether x86-64 code reads registers."""

from __future__ import annotations

from collections.abc import Collection

import iced_x86
from iced_x86 import Decoder, RegisterExt

from lbtrace.machine.x86_64.operands import REGISTERS
from lbtrace.machine.x86_64.result_writes import READS

_INFO = iced_x86.InstructionInfoFactory()


def reads_all(code: bytes, registers: Collection[str]) -> bool:
    """See `lbtrace.machine.Machine.reads_all`."""
    left = set(registers)
    for instruction in Decoder(64, code):
        for used in _INFO.info(instruction).used_registers():
            if used.access in READS:
                left -= {_name(used.register), _vector(used.register)}
    return not left


def _vector(register: int) -> str:
    is_vector = RegisterExt.is_vector_register(register)  # type: ignore[arg-type]
    return f"xmm{RegisterExt.number(register)}" if is_vector else ""  # type: ignore[arg-type]


def _name(register: int) -> str:
    return REGISTERS.get(RegisterExt.full_register(register), "")  # type: ignore[arg-type]

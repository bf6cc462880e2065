"""Tells the BPF programs how a value is fetched: ``struct lbt_fetch`` of ``bpf_src/lbtrace.h``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lbtrace.bpf._libbpf import lib
from lbtrace.bpf.recording import find_shifts
from lbtrace.model import Fetch, Operation
from lbtrace.model.wire_limits import SPACES

BASES = {
    **{"register": lib.LBT_REGISTER, "stack": lib.LBT_STACK, "constant": lib.LBT_CONSTANT},
    **{"slot": lib.LBT_SLOT, "kept": lib.LBT_SLOT, "record": lib.LBT_RECORD},
    "thread": lib.LBT_THREAD,
}

READS = {
    **{"value": lib.LBT_VALUE, "integer": lib.LBT_INTEGER},
    **{"string": lib.LBT_STRING, "bytes": lib.LBT_BYTES},
}

OPERATIONS: dict[Operation, int] = {
    "": lib.LBT_MOVE,
    "and": lib.LBT_AND,
    "or": lib.LBT_OR,
    "xor": lib.LBT_XOR,
    "multiply": lib.LBT_MULTIPLY,
    "shift left": lib.LBT_SHIFT_LEFT,
    "shift right": lib.LBT_SHIFT_RIGHT,
    "shift right signed": lib.LBT_SHIFT_RIGHT_SIGNED,
    "divide": lib.LBT_DIVIDE,
    "divide signed": lib.LBT_DIVIDE_SIGNED,
    "remainder": lib.LBT_REMAINDER,
    "remainder signed": lib.LBT_REMAINDER_SIGNED,
}

KEPT_SLOTS = (lib.LBT_SLOT_KEPT, lib.LBT_SLOT_PID, lib.LBT_SLOT_TID)
"""Where a closing probe finds the registers that its call has kept, in their order."""


def fill(slot: Any, fetch: Fetch, registers: tuple[str, ...], keeps: Sequence[str]) -> None:
    """Fill in a slot. ``registers`` are those of the machine, ``keeps`` those that the call has
    kept, in their order."""
    slot.base = BASES[fetch.base]
    slot.read = READS[fetch.read]
    slot.reg = registers.index(fetch.register) if fetch.base == "register" else 0
    if fetch.base == "slot":
        slot.reg = fetch.earlier
    elif fetch.base == "kept":
        slot.reg = KEPT_SLOTS[keeps.index(fetch.register)]
    slot.plus = fetch.plus + 1
    slot.factor = fetch.factor
    slot.operation, slot.operand = OPERATIONS[fetch.operation], fetch.operand
    slot.size = fetch.size
    slot.is_signed = fetch.signed
    if fetch.read in ("value", "integer"):
        slot.left, slot.right = find_shifts(fetch)
    slot.derefs = len(fetch.derefs)
    for number, offset in enumerate(fetch.derefs):
        slot.deref[number] = offset
    slot.length_from = fetch.length_from if fetch.length_from >= 0 else 0xFF
    slot.scale = fetch.scale
    slot.optional = fetch.optional
    slot.limit = fetch.limit
    slot.space = SPACES[fetch.space]
    slot.offset = fetch.offset


def find_chunk_layouts(fetches: list[Fetch]) -> tuple[int, int]:
    """Return the smallest ``enum lbt_chunk_layout`` that holds these strings and bytes, and the
    one that does where each of them is short."""
    short = int({1: lib.LBT_SMALL_1, 2: lib.LBT_SMALL_2}.get(len(fetches), lib.LBT_SMALL_8))
    if all(fetch.limit < lib.LBT_SMALL_CHUNK for fetch in fetches):
        return short, short
    return int(lib.LBT_LARGE_1 if len(fetches) == 1 else lib.LBT_LARGE_8), short

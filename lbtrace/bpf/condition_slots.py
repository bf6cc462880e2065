"""Tells the BPF programs what they compare: ``struct lbt_condition`` of ``bpf_src/lbtrace.h``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.errors import UsageError, option
from lbtrace.model import Condition

RELATIONS = {
    "==": lib.LBT_EQUAL,
    "!=": lib.LBT_LESS | lib.LBT_GREATER,
    "<": lib.LBT_LESS,
    "<=": lib.LBT_LESS | lib.LBT_EQUAL,
    ">": lib.LBT_GREATER,
    ">=": lib.LBT_GREATER | lib.LBT_EQUAL,
    "startswith": lib.LBT_EQUAL,
    "lacks": lib.LBT_LESS | lib.LBT_GREATER,
}
"""The relations of value and operand in which a comparison holds."""

SLOTS = {
    "pid": lib.LBT_SLOT_PID,
    "tid": lib.LBT_SLOT_TID,
    "duration": lib.LBT_SLOT_DURATION,
    "from_program": lib.LBT_SLOT_DURATION,  # at an entry
    "goroutine": lib.LBT_SLOT_GOROUTINE,
    "comm": lib.LBT_SLOT_COMM,
    "blocked": lib.LBT_SLOT_BLOCKED,
    "runnable": lib.LBT_SLOT_RUNNABLE,
}
"""What conditions compare besides fetched values."""

TEXT_SUBJECTS = ("text", "comm")


def fill_conditions(spec: Any, wanted: Iterable[Condition]) -> None:
    """Fill in what a spec compares, texts first. Raises `UsageError` where there is no room."""
    conditions = sorted(wanted, key=lambda c: c.subject not in TEXT_SUBJECTS)
    spec.conditions = len(conditions)
    compared = list(
        dict.fromkeys(
            (c.text, c.operator in ("startswith", "lacks"))
            for c in conditions
            if c.subject in TEXT_SUBJECTS
        )
    )
    if len(compared) > lib.LBT_TEXTS or len(conditions) > lib.LBT_CONDITIONS:
        raise UsageError(
            f"the filter compares with more than {lib.LBT_TEXTS} texts"
            f" or more than {lib.LBT_CONDITIONS} times",
            f"use a simpler {option('where')}",
        )
    for (text, prefix), slot in zip(compared, spec.text, strict=False):
        ffi.buffer(slot.words)[: len(text)] = text
        counting = len(text) if prefix else ffi.sizeof(slot.masks)
        ffi.buffer(slot.masks)[:counting] = b"\xff" * counting
    for slot, condition in zip(spec.condition, conditions, strict=False):
        slot.slot = SLOTS.get(condition.subject, condition.slot)
        slot.relations = RELATIONS[condition.operator]
        slot.is_signed = condition.signed
        slot.group = condition.group
        slot.operand = condition.operand & (1 << 64) - 1
        slot.other = condition.other + 1
        if condition.subject in TEXT_SUBJECTS:
            slot.prefix = condition.operator in ("startswith", "lacks")
            slot.text = compared.index((condition.text, bool(slot.prefix))) + 1
            slot.length = len(condition.text)

"""What native code finds in x86-64 code by decoding it from its first instruction to its end."""

from __future__ import annotations

from typing import Any

from lbtrace.machine._code_scan import ffi, lib
from lbtrace.machine.code import Code, Reach
from lbtrace.machine.code_scan import DOUBTS

_DEEPEST = 1 << 30

_FOUND = ffi.new("struct lbt_reach *")
"""Filled and read within one call: it is too large to be made for each."""


def reach(code: Code, depth: int | None) -> Reach | None:
    """See `lbtrace.machine.Machine.find_reach`; None where ``code`` holds what only a full decoder
    reads."""
    found = _swept(code, depth)
    if found is None:
        return None
    jumps = zip(
        ffi.unpack(found.jumps, found.jump_count),
        map(_depth, ffi.unpack(found.depths, found.jump_count)),
        strict=True,
    )
    return Reach(
        _each(found.calls, found.call_count),
        tuple(dict.fromkeys(jumps)),
        _each(found.call_slots, found.call_slot_count),
        _each(found.jump_slots, found.jump_slot_count),
        DOUBTS[found.doubt].format(found.doubt_at),
        bool(found.keeps),
        bool(found.walks),
        jumps_away=bool(found.jumps_away),
        labels=_each(found.labels, found.label_count) if found.computes else (),
        computes_at=_depth(found.computes_at) if found.computes else None,
    )


def may_restart(code: Code) -> bool | None:
    """Return whether a jump in ``code`` may lead to its first instruction, also by way of code
    outside; None where only a full decoder can tell."""
    found = _swept(code, 0)
    return None if found is None else bool(found.restarts or found.leads_elsewhere)


def _swept(code: Code, depth: int | None) -> Any | None:
    if depth is not None and abs(depth) > _DEEPEST:
        return None
    known = lib.LBT_NO_DEPTH if depth is None else depth
    done = lib.lbt_find_reach(code.code, len(code.code), code.address, known, _FOUND)
    return _FOUND if done else None


def _depth(depth: int) -> int | None:
    return None if depth == lib.LBT_NO_DEPTH else depth


def _each(addresses: Any, count: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ffi.unpack(addresses, count))) if count else ()

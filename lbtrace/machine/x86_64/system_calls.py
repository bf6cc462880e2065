"""Finds system calls in x86-64 code."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iced_x86 import Decoder

from lbtrace.machine.code_scan import find_bytes

INSTRUCTIONS = (b"\x0f\x05", b"\x0f\x34", b"\xcd\x80")
"""``syscall``, ``sysenter`` and ``int 0x80``: entry points of arch/x86/entry/entry_64.S and
entry_64_compat.S."""


def system_calls(
    code: memoryview, address: int, start_of: Callable[[int], int | None]
) -> Iterator[int]:
    """See `lbtrace.machine.interface.SystemCalls`."""
    for wanted in INSTRUCTIONS:
        for at in find_bytes(code, wanted):
            start = start_of(address + at)
            into = start - address if start is not None else -1
            if into < 0 or _is_instruction(code[into : at + len(wanted)], at - into):
                yield address + at


def _is_instruction(code: memoryview, at: int) -> bool:
    """Whether decoding ``code`` from its beginning leads to an instruction at ``at``."""
    decoder = Decoder(64, bytes(code))
    while decoder.ip < at and decoder.can_decode:
        decoder.decode()
    return bool(decoder.ip == at)

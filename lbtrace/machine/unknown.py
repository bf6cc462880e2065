"""The answers about code where a processor's package has no module that knows better: each
function here belongs to one of `lbtrace.machine.interface.OPTIONAL`, and is described where
`lbtrace.machine.Machine` calls it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lbtrace.machine.code import ArgumentStores, Code, Read


def argument_stores(_code: Code) -> ArgumentStores | None:
    """It is not known."""
    return None


def caller_reads(_code: Code, _read: Read, *, every: bool) -> frozenset[tuple[int, int]] | None:
    """It is not known."""
    return None


def reads_at_entry(_code: Code, _registers: Collection[str], _read: Read) -> bool:
    """The compiler is taken at its word."""
    return True


def reads_all(_code: bytes, _registers: Collection[str]) -> bool:
    """The compiler is taken at its word."""
    return True


def frame_size(_code: Code) -> int | None:
    """It is not known."""
    return None


def result_widths(_code: Code) -> dict[str, int]:
    """None are known."""
    return {}


def result_writes(_code: Code) -> frozenset[str]:
    """None are known."""
    return frozenset()


def stack_exchanges(_code: memoryview, _address: int) -> Iterator[int]:
    """None are known."""
    return iter(())


def mark_size(_code: bytes) -> int:
    """None is known."""
    return 0

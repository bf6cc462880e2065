"""What an arm64 function certainly reads of its caller's frame."""

from __future__ import annotations

from lbtrace.machine.code import Code, Read


def caller_reads(_code: Code, _read: Read) -> None:
    """See `lbtrace.machine.Machine.find_caller_reads`. Not known of arm64."""

"""What an arm64 function leaves in registers when it returns."""

from __future__ import annotations

from lbtrace.machine.code import Code


def result_writes(_code: Code) -> frozenset[str]:
    """See `lbtrace.machine.Machine.find_result_writes`. Not known of arm64."""
    return frozenset()


def result_widths(_code: Code) -> dict[str, int]:
    """See `lbtrace.machine.Machine.find_result_widths`. Not known of arm64."""
    return {}

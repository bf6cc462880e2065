"""Where an unoptimised arm64 function stores what registers hold at its entry."""

from __future__ import annotations

from lbtrace.machine.code import Code


def argument_stores(_code: Code, *, past_calls: bool = False) -> None:
    """See `lbtrace.machine.Machine.find_argument_stores`. Not known of arm64."""

"""Warnings of a plan about the functions it holds, and those it leaves out."""

from __future__ import annotations

from lbtrace.text import some

AT_BREAKPOINT = (
    "the debugger that traces the process may have a breakpoint there: delete it and continue, or"
    " detach the debugger"
)
"""Why no probe can be at a place: the debugger would not get past it, or the kernel would take
hits for its own."""


def name_functions(names: list[str], what: str) -> list[str]:
    """Return a warning that says ``what`` of some functions; none where there are none."""
    return [f"{some(names)}: {what}"] if names else []

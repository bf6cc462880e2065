"""Which of the functions that were traced a pattern selects."""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.errors import NoMatchError
from lbtrace.model import Plan
from lbtrace.validation import split_listed

CALLED = "lbtrace report lists those that were called"
"""What to do where a capture has no function of a name."""


def named(plan: Plan, patterns: Sequence[str], hint: str = CALLED) -> frozenset[str]:
    """Return the traced functions that patterns select; brackets in a whole name are no glob.
    Raises `NoMatchError` with ``hint``."""
    from lbtrace.elf.demangle import plain_names  # imported here: most show all calls
    from lbtrace.plan.patterns import matching

    patterns = split_listed(patterns)
    asked = {*patterns}
    names = {function.name for function in plan.functions}
    found = {name for name in names if not asked.isdisjoint(plain_names(name))}
    found |= {*matching(sorted(names), patterns)}
    if not found:
        raise NoMatchError(f"no traced function is called {' or '.join(patterns)}", hint)
    return frozenset(found)

"""Functions of the C library that return their first argument (C17 7.24, 7.29.4; POSIX), through
which a call that jumps to one has its result before that function has run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from lbtrace.machine import Machine
from lbtrace.model import Fetch

RETURNING = re.compile(
    r"(__)?(mem(cpy|move|set)|str(cpy|ncpy|cat|ncat)|wmem(cpy|move|set)|wcs(cpy|ncpy|cat|ncat))"
    r"(_chk)?"
)
"""Their names, also those that gcc calls with ``_FORTIFY_SOURCE``."""


def at_jump(name: str, machine: Machine, fetches: Sequence[Fetch]) -> tuple[Fetch, ...] | None:
    """Return what fetches at a jump to the function ``name`` what ``fetches`` would when it has
    returned: of text the address, as it may not be there yet. None where that is not known."""
    if not RETURNING.fullmatch(name):
        return None
    result, first = machine.kernel.PLAIN_RESULTS[0], machine.kernel.PLAIN_ARGUMENTS[0]
    found = []
    for fetch in fetches:
        text = fetch.read == "string"
        if fetch.base != "register" or fetch.register != result or fetch.derefs or fetch.plus >= 0:
            return None
        if not text and fetch.read != "value":
            return None
        found.append(
            replace(fetch, register=first, **({"read": "value", "limit": 0} if text else {}))
        )
    return tuple(found)

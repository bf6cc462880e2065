"""What ``lbtrace list`` writes: lines of text, or one JSON array of the same."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from lbtrace.text import clean, to_json

if TYPE_CHECKING:
    from lbtrace.dwarf.scopes import Variable


class ListedVariable(Struct, omit_defaults=True):
    """A variable or argument; ``reason`` says why it cannot be read."""

    name: str
    type: str
    reason: str = ""


def listed(variable: Variable) -> ListedVariable:
    """Return what is listed of a variable."""
    formal, location, *_ = variable
    none = location.memory is None and all(isinstance(word, str) for word in location.words)
    reason = location.reason or (location.why_unread(0) if none else "")
    return ListedVariable(formal.name, formal.type.name, reason)


def write_json(rows: Iterable[Struct]) -> None:
    """Write one JSON array, a line for each of ``rows``."""
    written = (to_json(msgspec.to_builtins(row), separators=(",", ":")) for row in rows)
    sys.stdout.write("[" + ",\n".join(written) + "]\n")


def write_lines(lines: Iterable[str]) -> None:
    """Write lines, cleaned of what would change the terminal."""
    sys.stdout.writelines(f"{clean(line)}\n" for line in lines)

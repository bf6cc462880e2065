"""``std::function``: what it calls."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import Datum
from lbtrace.values.enumeration import Constant
from lbtrace.values.pointer import TABLE_OF, Symbol

EMPTY, SET = Constant("empty"), Constant("set")

HEADS = ("std::_Function_handler<", f"{TABLE_OF}std::__function::__func<")
"""What calls the target: with the type of that as its last argument, and as its first."""


class Function(Type, Struct, frozen=True, tag="function"):
    """A record that is empty where the word at ``present`` is 0. What calls the target lies at
    ``caller``, a function, or at the address there a table of virtual ones."""

    name: str
    size: int
    present: int
    caller: int

    through = True

    def is_flat(self) -> bool:
        return False

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        """The members of a value are whether there is a target, what calls it, and the address
        of the target where that is a function."""
        present, caller, target = (probe.reader(member) for member in value.members)

        def read(fetched: Fetched) -> Datum:
            there, address, function = present(fetched), caller(fetched), target(fetched)
            if not isinstance(there, int):
                return there
            if not there:
                return EMPTY
            name = probe.symbol(fetched.pid, address) if isinstance(address, int) else ""
            kind = _type_of_target(name)
            if "(*)(" in kind:
                return function if isinstance(function, Symbol) else SET
            return Symbol(kind) if kind else SET

        return read


def _type_of_target(name: str) -> str:
    """The type of the target, by the name of what calls it; empty where that does not say it."""
    head = next((head for head in HEADS if name.startswith(head)), "")
    if not head:
        return ""
    arguments, depth = [""], 0
    for character in name[len(head) :]:
        depth += (character in "<([{") - (character in ">)]}")
        if depth < 0:
            break
        if character == "," and not depth:
            arguments.append("")
        else:
            arguments[-1] += character
    return arguments[-1 if head == HEADS[0] else 0].strip()

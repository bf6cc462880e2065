"""The environment of a closure of Rust, which debug information leaves out of its parameters.

A closure is a function whose first parameter is the environment, or its address, with what the
closure captures. rustc describes that parameter only where nothing is captured; else it lists what
is captured as variables, each with its place in the environment
(``compiler/rustc_codegen_ssa/src/mir/debuginfo.rs``). Where all of these are reached by one
address, that is what is passed: the environment's, or the only captured reference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from lbtrace.dwarf import attributes
from lbtrace.dwarf.attributes import origins
from lbtrace.dwarf.parameters import Callers, moves
from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.forms import sleb
from lbtrace.model import Formal, Scalar
from lbtrace.values.pointer import ADDRESS

CLOSURE = re.compile(r"\{closure#\d+\}")
ENVIRONMENT = re.compile(r"\{closure(_env)?#\d+\}")
"""Names that rustc gives to closures, and to the types of their environments."""

FRAME, DEREF = 0x91, 0x06
FIRST_BASED, LAST_BASED = 0x70, 0x8F
"""DW_OP_fbreg, DW_OP_deref, DW_OP_breg0 to DW_OP_breg31."""

WORD = 8

Base = tuple[int, int]


def is_closure(chain: Sequence[Any]) -> bool:
    """Return whether the function with these entries is a closure."""
    names = (attributes.text(die, "DW_AT_name") for die in chain)
    return CLOSURE.match(next(filter(None, names), "")) is not None


def is_cut(chain: Sequence[Any], parameters: Sequence[Formal]) -> bool:
    """Return whether the function with these entries is a closure, and its ``parameters`` are
    those that debug information has without its environment."""
    if not is_closure(chain):
        return False
    return not (parameters and ENVIRONMENT.search(parameters[0].type.name))


def environment(function: Any, address: int, callers: Callers) -> Formal | None:
    """Return the parameter that is left out of a closure at ``address``, if it is one address; None
    where that is not known."""
    found = {
        _base(child, address)
        for child in function.iter_children()
        if child.tag == "DW_TAG_variable"
    }
    base = found.pop() if len(found) == 1 else None
    if base is None or (base[0] != FRAME and base[1] not in callers.registers):
        return None
    name = next(n for d in origins(function) if (n := attributes.text(d, "DW_AT_name")))
    type = replace(ADDRESS, name=f"&{name.replace('closure', 'closure_env', 1)}")
    register = base[1] if base[0] != FRAME else -1
    parts = (register,) if register >= 0 else ()
    scalars = (Scalar(0, WORD, "integer"),)
    return Formal(
        "", type, WORD, scalars, register=register, part_registers=parts, passed_separately=True
    )


def _base(variable: Any, address: int) -> Base | None:
    """The address from which the place of a variable is computed: a slot of the frame, from which
    it is loaded, or a register."""
    if "DW_AT_location" not in variable.attributes:
        return None
    expression = lists.expression(variable, address)
    if not expression:
        return None
    code = expression[0]
    if code != FRAME and not FIRST_BASED <= code <= LAST_BASED:
        return None
    offset, at = sleb(expression, 1)
    if code == FRAME:
        loads = not moves(variable) and expression[at : at + 1] == bytes([DEREF])
        return (FRAME, offset) if loads else None
    return FIRST_BASED, code - FIRST_BASED

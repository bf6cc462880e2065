"""Functions that were optimised only when they were linked.

At ``-O0`` clang marks its functions so that ``-flto`` leaves them as they are, but not those that
are ``minsize`` or ``always_inline``, and none with ``-Xclang -disable-O0-optnone``: what the linker
makes of these is not said in debug information. Nor does that keep their parameters: those of
which LLVM has no location any more are not there at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from lbtrace.dwarf.reader import lists

IN_REGISTERS = frozenset({*range(0x50, 0x70), 0x90})
"""DW_OP_reg0 to DW_OP_reg31, DW_OP_regx."""

NO_MEMORY = frozenset({lists.PIECE, 0x9E})
"""What else a location begins with of what is not in memory: a missing part, or
DW_OP_implicit_value."""


def is_optimised(formals: Iterable[tuple[Any, Any]], is_reference: Callable[[Any], bool]) -> bool:
    """Return whether any of a function's parameters, each with what says where it is, or None, is
    nowhere, or somewhere else than in one place in memory: where nothing is optimised, it is in the
    function's frame as long as this exists. Objects passed by reference (``is_reference``) may
    have no location, and the pointer to one may move."""
    return any(_shows_it(own, partial(is_reference, die)) for die, own in formals)


def _shows_it(own: Any, is_reference: Callable[[], bool]) -> bool:
    if own is None:
        return not is_reference()
    if "DW_AT_const_value" in own.attributes:
        return True
    location = own.attributes.get("DW_AT_location")
    if location is None:
        return not is_reference()
    if location.form in lists.EXPRESSIONS:
        return _is_value(bytes(location.value))
    return not is_reference() or any(_is_value(each.expression) for each in lists.locations(own))


def _is_value(expression: bytes) -> bool:
    """Whether an expression is no address, but the value, or the register that holds it."""
    if not expression:
        return False
    first, last = expression[0], expression[-1]
    return first in IN_REGISTERS | NO_MEMORY or last == lists.STACK_VALUE

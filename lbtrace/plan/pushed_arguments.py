"""Arguments on the stack of functions of which debug information may leave out parameters.

LLVM optimises functions of a program that is compiled without that when it is linked
(``clang -O0 -flto``, ``minsize``), and of C debug information does not tell how many parameters
they have. Where all that is named before an argument is where the convention has it, and so is the
argument itself, nothing can have been left out before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import takewhile

from msgspec.structs import replace

from lbtrace.abi.locations import LEFT_OUT
from lbtrace.machine import Machine
from lbtrace.machine.code import CALLER_STACK, Code
from lbtrace.model import Formal, Prototype
from lbtrace.plan.overwritten import BEGINNING, Order
from lbtrace.plan.store_order import is_number


def settle(
    machine: Machine, prototype: Prototype, code: Callable[[int], Code], *, local: bool = False
) -> Prototype:
    """``prototype`` with the arguments on the stack that are certain. To a ``local`` function,
    whose callers are all known, something else may be passed than it declares. ``code`` gives its
    first bytes, so many at most."""
    if local or prototype.hints.compiler != "llvm" or not prototype.leaves_out:
        return prototype
    if not any(map(_may_be_pushed, prototype.parameters)):
        return prototype
    whole = tuple(
        replace(formal, missing_reason="") if _may_be_pushed(formal) else formal
        for formal in prototype.parameters
    )
    order = Order(
        machine,
        replace(prototype, parameters=whole),
        cache(lambda: machine.find_frame_size(code(BEGINNING))),
    )
    numbers = range(len(whole))
    agreeing = order.find_agreeing(numbers)
    certain = {
        number
        for number in takewhile(agreeing.__contains__, numbers)
        if (order.found[number] or ("", 0))[0] == CALLER_STACK
    }
    if not certain:
        return prototype
    parameters = tuple(
        whole[number] if number in certain else formal
        for number, formal in enumerate(prototype.parameters)
    )
    return replace(prototype, parameters=parameters)


def _may_be_pushed(formal: Formal) -> bool:
    """Whether a parameter may be on the stack. LLVM says so of a number only if the function reads
    it: its callers then store it."""
    return (
        formal.missing_reason == LEFT_OUT
        and formal.frame_location is not None
        and is_number(formal)
    )

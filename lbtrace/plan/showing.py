"""Which values of a function are shown, and what its probe fetches for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.arch import SHALLOW, Architecture, Passing, Places, fetched
from lbtrace.arch.places import Detail
from lbtrace.model import UNKNOWN, Fetch, Formal, Pointer, Prototype, Scalar, Value

if TYPE_CHECKING:
    from lbtrace.expressions.tree import Request

VALUES = 16
"""Values a probe fetches: ``LBT_FETCHES`` in bpf_src/lbtrace.h."""

REGISTER_ARGUMENTS = 6
"""Arguments that expressions may name where debug information declares fewer."""


class Showing(Struct, frozen=True):
    """What the user wants to see.

    ``args`` is the number of arguments shown; None means those of the
    prototype, or one without debug information. ``detail`` says how much is
    read of a value. A ``request`` has values to show instead, or a filter.
    """

    args: int | None = None
    detail: Detail = SHALLOW
    request: Request | None = None


def parse(arguments: Sequence[str], where: str) -> Request | None:
    """What ``--arg`` and ``--where`` ask for; None where they ask for nothing.

    Raises `UsageError` that points at the character that is wrong.
    """
    if not arguments and not where:
        return None
    from lbtrace.expressions import syntax  # late: most traces need none
    from lbtrace.expressions.tree import Request

    wanted = tuple(syntax.argument(source) for source in arguments)
    return Request(wanted, syntax.condition(where) if where else None, where)


def passing(
    architecture: Architecture,
    prototype: Prototype | None,
    wish: Showing,
    places: Callable[[Prototype], Places] | None = None,
) -> Passing:
    """How the values of a function travel, as far as they are wanted.

    ``places`` tells where they lie when the probe is hit, if not as the convention has it.
    Where one of them is a pointer to code, the entry tells where the code is.

    Raises `UsageError` where an expression names what the function does not have.
    """
    passing = _passing(prototype, wish, places or architecture.places, architecture.REGISTERS)
    values = (*passing.parameters, *([passing.result] if passing.result else ()))
    if any(map(leads_to_code, values)) and len(passing.fetches) < VALUES:
        name = next(r for r in ("ip", "pc") if r in architecture.REGISTERS)
        return replace(passing, fetches=(*passing.fetches, Fetch(register=name)))
    return passing


def leads_to_code(value: Value) -> bool:
    """Whether a value is or holds a pointer to a function."""
    if isinstance(value.type, Pointer) and value.type.code and value.slot >= 0:
        return True
    return any(map(leads_to_code, value.members))


def _passing(
    prototype: Prototype | None,
    wish: Showing,
    places: Callable[[Prototype], Places],
    registers: tuple[str, ...],
) -> Passing:
    if prototype is None:
        prototype = sized(Prototype((), long("")), 1 if wish.args is None else wish.args)
    prototype = sized(prototype, wish.args)
    if wish.request is None:
        return fetched(prototype, places(prototype), VALUES, wish.detail)
    from lbtrace.expressions import binding  # late: most traces need none

    shown = len(prototype.parameters)
    wider = sized(prototype, max(shown, REGISTER_ARGUMENTS))
    return binding.bind(
        wish.request,
        wider,
        places(wider),
        shown,
        registers,
        binding.Bounds(VALUES, wish.detail),
    )


def depth(wish: Showing) -> int:
    """How many pointers are followed, at most."""
    if wish.request is None:
        return wish.detail.depth
    from lbtrace.expressions import binding

    return max(wish.detail.depth, binding.depth(wish.request))


def long(name: str) -> Formal:
    """What is assumed where nothing is declared."""
    return Formal(name, UNKNOWN, UNKNOWN.size, (Scalar(0, UNKNOWN.size, "integer"),))


def sized(prototype: Prototype, count: int | None) -> Prototype:
    """``prototype`` with ``count`` parameters; those it does not declare are integers."""
    if count is None:
        return prototype
    extra = tuple(long(f"arg{n}") for n in range(len(prototype.parameters), count))
    return Prototype((*prototype.parameters[:count], *extra), prototype.result)

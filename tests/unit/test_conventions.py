"""Calling conventions: which one is selected for a function."""

from __future__ import annotations

from lbtrace.abi import find_convention, find_default, go, locate_values, sysv_x86_64
from lbtrace.abi.locations import UNKNOWN, Location
from lbtrace.model import (
    LONG,
    ConventionHints,
    Fetch,
    Formal,
    Opaque,
    Prototype,
    Scalar,
)

SWIFT = ConventionHints(code=0xC8, compiler="llvm")
GCC = ConventionHints(compiler="gcc", language="c")

INT = Formal("i", LONG, 8, (Scalar(0, 8, "integer"),))
PAIR = Formal("p", Opaque("struct pair", 16), 16, (Scalar(0, 8, "float"), Scalar(8, 8, "integer")))


def register(name: str) -> Location:
    return Location(words=(Fetch(register=name),))


def test_selection() -> None:
    assert find_convention("x86_64", ConventionHints()) is sysv_x86_64
    assert find_convention("x86_64", ConventionHints(code=0xC9, language="rust")) is sysv_x86_64
    stack = ConventionHints(runtime="go stack")
    assert find_convention("aarch64", stack) is go.STACK_AARCH64
    assert find_default("aarch64").name == "aapcs64"


def test_what_no_row_takes_is_unknown() -> None:
    named = Formal("n", LONG, 8, (Scalar(0, 8, "integer"),), register=4, part_registers=(4,))
    found = locate_values("x86_64", Prototype((INT, named), PAIR, hints=SWIFT))
    assert found.parameters == (Location(reason=UNKNOWN), register("si"))
    assert found.result == Location(reason=UNKNOWN)


def test_what_lies_elsewhere_is_unknown() -> None:
    """gcc does not mark functions with ``ms_abi``."""
    named = Formal("n", LONG, 8, (Scalar(0, 8, "integer"),), register=2, part_registers=(2,))
    silent = Prototype((named, INT), PAIR, hints=GCC)
    assert locate_values("x86_64", silent).parameters == (
        register("cx"),
        Location(reason=UNKNOWN),
    )

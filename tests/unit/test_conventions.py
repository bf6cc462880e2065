"""Calling conventions: which one is selected for a function, and Microsoft's."""

from __future__ import annotations

import pytest

from lbtrace.abi import CONVENTIONS, find_convention, find_default, go, locate_values, sysv_x86_64
from lbtrace.abi.locations import UNKNOWN, Location
from lbtrace.abi.win64 import places
from lbtrace.machine import MACHINES
from lbtrace.model import (
    LONG,
    ConventionHints,
    Fetch,
    Float,
    Formal,
    Integer,
    Opaque,
    Prototype,
    Scalar,
)

WIN64 = ConventionHints(code=0xC1, compiler="llvm", language="c")
SWIFT = ConventionHints(code=0xC8, compiler="llvm")
GCC = ConventionHints(compiler="gcc", language="c")

INT = Formal("i", LONG, 8, (Scalar(0, 8, "integer"),))
DOUBLE = Formal("d", Float("double", 8), 8, (Scalar(0, 8, "float"),))
QUAD = Formal("q", Float("__float128", 16), 16, (Scalar(0, 16, "float"),))
WIDE = Formal("w", Integer("__int128", 16, True), 16, (Scalar(0, 16, "integer"),))
WRAPPED = Formal("r", Opaque("struct real", 8), 8, (Scalar(0, 8, "float"),))
PAIR = Formal("p", Opaque("struct pair", 16), 16, (Scalar(0, 8, "float"), Scalar(8, 8, "integer")))
UNSURE = Formal("u", Opaque("class X", 8), 8, None)


def register(name: str) -> Location:
    return Location(words=(Fetch(register=name),))


def pointed(name: str) -> Location:
    return Location(memory=Fetch(register=name))


def stacked(offset: int, *derefs: int) -> Location:
    return Location(memory=Fetch(base="stack", offset=offset, derefs=derefs))


def test_rows() -> None:
    assert {row.machine for row in CONVENTIONS} == {row.name for row in MACHINES}
    names = [(row.machine, row.name) for row in CONVENTIONS]
    assert len(set(names)) == len(names)
    for row in CONVENTIONS:
        convention = row.load()
        assert convention.PASSING
        assert convention.places(Prototype(())).parameters == ()


def test_selection() -> None:
    assert find_convention("x86_64", ConventionHints()) is sysv_x86_64
    assert find_convention("x86_64", ConventionHints(code=0xC9, language="rust")) is sysv_x86_64
    assert find_convention("x86_64", WIN64).__name__ == "lbtrace.abi.win64"
    stack = ConventionHints(runtime="go stack")
    assert find_convention("aarch64", stack) is go.STACK_AARCH64
    assert find_default("aarch64").name == "aapcs64"


def test_each_parameter_has_a_slot() -> None:
    formals = (INT, DOUBLE, PAIR, WRAPPED, DOUBLE, WIDE)
    found = locate_values("x86_64", Prototype(formals, DOUBLE, hints=WIN64))
    assert found.parameters == (
        register("cx"),
        Location(words=("float in xmm1",)),
        pointed("r8"),
        register("r9"),
        stacked(40),
        stacked(48, 0),
    )
    assert found.result == Location(words=("float in xmm0",))


@pytest.mark.parametrize(
    ("result", "where", "first"),
    [
        (PAIR, pointed("ax"), "dx"),
        (WRAPPED, register("ax"), "cx"),
        (WIDE, Location(words=("float in xmm0", "float in xmm0")), "cx"),
    ],
)
def test_results(result: Formal, where: Location, first: str) -> None:
    found = places(Prototype((INT,), result, hints=WIN64))
    assert found.result == where
    assert found.parameters == (register(first),)


def test_what_it_leaves_open_is_unknown() -> None:
    found = places(Prototype((UNSURE, INT, QUAD, INT), None, hints=WIN64)).parameters
    assert found[:3] == (Location(reason=UNKNOWN), register("dx"), Location(reason=UNKNOWN))
    assert found[3] == Location(reason=f"{UNKNOWN} after q")
    assert not places(Prototype((INT,), UNSURE, hints=WIN64)).parameters[0].words


def test_what_no_row_takes_is_unknown() -> None:
    named = Formal("n", LONG, 8, (Scalar(0, 8, "integer"),), register=4, part_registers=(4,))
    found = locate_values("x86_64", Prototype((INT, named), PAIR, hints=SWIFT))
    assert found.parameters == (Location(reason=UNKNOWN), register("si"))
    assert found.result == Location(reason=UNKNOWN)


def test_where_parameters_lie_selects() -> None:
    """gcc does not mark functions with ``ms_abi``, LLVM does."""
    named = Formal("n", LONG, 8, (Scalar(0, 8, "integer"),), register=2, part_registers=(2,))
    silent = Prototype((named, INT), PAIR, hints=GCC)
    assert locate_values("x86_64", silent).parameters[1].reason == UNKNOWN  # n is not in rdx
    silent = Prototype((named, INT), None, hints=GCC)
    assert locate_values("x86_64", silent).parameters == (register("cx"), register("dx"))
    marked = Prototype((named, INT), None, hints=ConventionHints(compiler="llvm", language="c"))
    assert locate_values("x86_64", marked).parameters == (
        register("cx"),
        Location(reason=UNKNOWN),
    )
    stored = Formal("n", LONG, 8, (Scalar(0, 8, "integer"),), frame_location=(-1, 0))
    found = locate_values("x86_64", Prototype((stored, PAIR), None, hints=GCC))
    assert found.parameters == (register("cx"), pointed("dx"))

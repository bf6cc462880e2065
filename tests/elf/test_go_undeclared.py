"""What Go's tables and code show of values, against the debug information of the same programs.

With that the convention's own algorithm says where each value is, from types;
without it Go's table of arguments and the instructions must say the same, or
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace import model
from lbtrace.abi import go as go_abi
from lbtrace.dwarf import go_prototypes
from lbtrace.elf import symbols
from lbtrace.elf.go import build
from lbtrace.elf.go.arguments import ArgumentPart, Arguments, Group, Word
from lbtrace.elf.image import Image
from lbtrace.plan.go.planner import GoPlan, undeclared
from lbtrace.plan.mismatches import Mismatches
from lbtrace.plan.value_selection import ValueSelection

Compile = Callable[..., Path]
OTHERS = ("1.19", "1.21.13", "1.24.11", "1.25.5", "1.26.6")
VERSIONS = ["1.27.3", *(pytest.param(v, marks=pytest.mark.slow) for v in OTHERS)]
BUILDS = [
    ("1.27.3", "plain"),
    pytest.param("1.27.3", "arm64", marks=pytest.mark.slow),
    *(pytest.param(v, k, marks=pytest.mark.slow) for v in OTHERS for k in ("plain", "arm64")),
]
PACKAGES = ("main.", "fmt.", "strconv.", "sort.", "time.", "context.", "net/http.")


def shape(part: ArgumentPart) -> str:
    if isinstance(part, Word):
        return f"{part.offset}:{part.size}"
    inside = ", ".join(map(shape, part.parts))
    return f"{{{inside}{', …' if part.more else ''}}}"


@pytest.mark.parametrize("version", VERSIONS)
def test_arguments_are_those_that_the_source_declares(go_program: Compile, version: str) -> None:
    image = Image.open(str(go_program("types", version)))
    table = symbols.read(image)
    assert table.go is not None
    arguments = Arguments(image, table.go, build.version(image))
    shapes = {
        f.name: shape(found)
        for f in table.functions
        if f.name.startswith("main.") and (found := arguments.of(f.address))
    }
    assert shapes["main.small"] == "{0:1, 1:1, 2:2, 4:2, 8:4, 12:4}"
    assert shapes["main.text"] == "{{0:8, 8:8}, 16:8}"
    assert shapes["main.point"] == "{{0:4, 4:4}, 8:2}"
    assert shapes["main.mixed"] == "{{0:1, 8:8, {16:8, 24:8}, 32:8}, 40:8}"
    assert shapes["main.slice"] == "{{0:8, 8:8, 16:8}, {24:8, 32:8, 40:8}}"
    assert shapes["main.many"].endswith("…}")
    assert "main.main" not in shapes


@pytest.mark.parametrize(("version", "kind"), BUILDS)
def test_code_and_types_agree_on_places(go_program: Compile, version: str, kind: str) -> None:
    image = Image.open(str(go_program("server", version, kind)), any_machine=True)
    table = symbols.read(image)
    assert table.go is not None
    plan = GoPlan(image, table.go)
    functions = [
        f
        for f in table.functions
        if f.name.startswith(PACKAGES) and plan.holds(f) and f.address not in table.go.assembly
    ]
    declared = go_prototypes.prototypes(image, functions, plan.is_whole)
    seen: Counter[str] = Counter()
    for function in functions:
        convention = plan.convention(function)
        inferred = plan.undeclared_prototype(function, convention, None)
        if function.address not in declared or inferred is None:
            continue
        prototype = plan.checked(declared[function.address], function, convention)
        given, returned = go_abi.placed(prototype, convention)
        truth = [
            (f, place)
            for f, place in zip(prototype.parameters, given, strict=True)
            if f.name not in go_abi.HIDDEN and f.missing_reason != undeclared.MORE
        ]
        places, _ = go_abi.placed(inferred, convention)
        found = [
            (f, place)
            for f, place in zip(inferred.parameters, places, strict=True)
            if f.missing_reason != undeclared.MORE
        ]
        if len(found) != len(truth):  # parameters without a name, in old versions
            seen["others"] += 1
            continue
        for (formal, place), (true, expected) in zip(found, truth, strict=True):
            if (
                formal.missing_reason
                or true.missing_reason
                or len(found) < len(inferred.parameters)
            ):
                seen["unknown"] += 1
            elif formal.size:
                assert place == expected, function.name
                seen["known"] += 1
        registers = sum(not r.endswith("!") for place in returned for r in place.registers)
        if "range" not in function.name:  # the bodies of such loops are declared without one
            # Old versions declare no results of methods they make themselves.
            known = [formal for formal in inferred.results if not formal.missing_reason]
            assert len(known) <= registers or not (returned or version >= "1.24")
        seen["results"] += len(inferred.results) == registers
    assert seen["known"] > 0.8 * (seen["known"] + seen["unknown"])
    assert seen["results"] > 0.5 * len(functions) or kind == "arm64"  # where it reads none
    assert seen["others"] < (5 if version >= "1.24" else len(functions) // 4)


@pytest.mark.parametrize("kind", ["plain", "stripped"])
def test_assembly(go_program: Compile, kind: str) -> None:
    """As internal/bytealg declares it, and as its assembly says: Compare is ABIInternal."""
    image = Image.open(str(go_program("types", "1.27.3", kind)))
    table = symbols.read(image)
    assert table.go is not None
    plan = GoPlan(image, table.go)
    functions = {f.name: f for f in table.functions if f.name.startswith("internal/bytealg.")}
    described = plan.describe(list(functions.values()), ValueSelection(), Mismatches())
    byte = described[functions["internal/bytealg.IndexByteString"].address].call_values
    assert [(f.base, f.offset, f.read, f.size) for f in byte.fetches if f.size == 1] == [
        ("stack", 24, "integer", 1)
    ]
    assert [(f.base, f.offset) for f in byte.result_fetches] == [("stack", 32)]
    compare = described[functions["internal/bytealg.Compare"].address].call_values
    assert [f.register for f in compare.fetches] == ["ax", "bx", "cx", "di", "si"]


DICTIONARY, VALUE = Word(8, 8), Word(16, 8)


@pytest.mark.parametrize(
    ("name", "parts", "dictionary", "expected"),
    [
        ("main.F[...]", (VALUE,), 1, (VALUE,)),
        ("main.f", (VALUE,), 1, (VALUE,)),
        ("main.(*T[...]).M", (DICTIONARY, VALUE), 1, (Word(0, 8), VALUE)),
        ("main.(*T[...]).M", (VALUE,), 0, (VALUE,)),
        ("main.(*T[...]).M", (VALUE,), -1, (Word(0, 0), VALUE)),
        ("main.(*T[...]).M-fm", (VALUE,), -1, (Word(0, 0), VALUE)),
        ("main.F[...].func1", (DICTIONARY,), 1, (Word(0, 8), DICTIONARY)),
        ("main.F[...].func1", (VALUE,), 0, (Word(0, 0), VALUE)),
        ("main.F[...].func1", (), 1, (Word(0, 0),)),
    ],
)
def test_what_is_left_out_of_generic_functions(
    name: str, parts: tuple[ArgumentPart, ...], dictionary: int, expected: tuple[ArgumentPart, ...]
) -> None:
    assert undeclared.whole(Group(parts), name, 24, dictionary) == Group(expected)


def test_small_numbers_are_numbers() -> None:
    from lbtrace.values import decoder, text

    raw = decoder(model.Word("", 4, False))
    assert [text(raw(n)) for n in (0, 4, 65535, 65536, 1 << 40 | 7, (1 << 64) - 1)] == [
        "0", "4", "65535", "0x10000", "7", "0xffffffff",
    ]  # fmt: skip

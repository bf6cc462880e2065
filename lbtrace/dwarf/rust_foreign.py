"""Functions of Rust that may take their parameters as those of C do: ``extern "C"``.

Debug information does not say so. Here is how rustc passes their values if they are; what shows
whether they are: `lbtrace.plan.compiler_quirks.rust_convention`. Source: ``classify_arg`` and
``compute_abi_info`` in rustc's ``rustc_target/src/callconv/x86_64.rs``. On arm64, C passes values
so, too, as far as rustc makes the same numbers of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any

from msgspec.structs import replace

from lbtrace.dwarf import attributes
from lbtrace.dwarf.attributes import origins
from lbtrace.dwarf.parameters import moves
from lbtrace.dwarf.reader import lists
from lbtrace.dwarf.reader.forms import sleb
from lbtrace.dwarf.views import ATE_FLOAT
from lbtrace.model import Formal, Prototype, Scalar

WORD, WIDE = 8, 16

DEREF = b"\x06"

ENTRY_SIZE = 3
"""Bytes of an expression that says what one register held at entry: its code, a length of 1, and
the register."""


def as_c(
    made: Prototype,
    formals: Sequence[tuple[Any, Any]],
    returned: Any,
    wide: Formal,
) -> Prototype | None:
    """Return what a function of Rust takes and returns if it is ``extern "C"``, where that may be
    otherwise than ``made`` says, None elsewhere.

    ``formals`` are its parameters, as they are declared and as it has them, and ``returned`` says
    what it returns. ``wide`` says how an integer of 16 bytes travels.
    """
    result = made.result
    values = [
        (formal, declared) for formal, (declared, _) in zip(made.parameters, formals, strict=True)
    ]
    values += [(result, returned)] if result is not None else []
    if not any(starmap(_may_differ, values)):
        return None
    if any(
        formal.reference and own is not None and _is_pointed_at(own)
        for formal, (_, own) in zip(made.parameters, formals, strict=True)
    ):
        return None  # C has objects on the stack, not pointers to them
    parameters = tuple(
        _passed_as_c(formal, declared, wide)
        for formal, (declared, _) in zip(made.parameters, formals, strict=True)
    )
    if result is not None and returned is not None:
        result = _passed_as_c(result, returned, wide)
    hints = replace(made.hints, language="c")
    return replace(made, parameters=parameters, result=result, hints=hints)


def _may_differ(formal: Formal, declared: Any) -> bool:
    """Whether C may pass a value otherwise: all but single numbers. Rust makes one of a packed
    record that a register holds, which C has in memory."""
    numbers = formal.scalars
    if formal.reference or numbers is None or len(numbers) > 1 or formal.size > WORD:
        return True
    die = _type_of(declared)
    return die is not None and die.tag in attributes.RECORDS and _align(die) < formal.size


def _is_pointed_at(own: Any) -> bool:
    """Whether a function keeps a pointer to a parameter in its frame, or got one in a register."""
    if "DW_AT_location" not in own.attributes:
        return False
    if moves(own):
        return any(_loads_pointer(each.expression) for each in lists.locations(own))
    return _loads_pointer(bytes(own.attributes["DW_AT_location"].value))


def _loads_pointer(expression: bytes) -> bool:
    code = expression[0] if expression else 0
    if code in lists.ENTRY_VALUES:  # of one register
        return len(expression) == ENTRY_SIZE
    if code != lists.FBREG and code not in lists.BASES:
        return False
    _, end = sleb(expression, 1)
    return expression[end:] == DEREF


def _type_of(declared: Any) -> Any:
    """The type of a value, None where none is said."""
    origin = origins(declared) if declared is not None else ()
    typed = next((d for d in origin if "DW_AT_type" in d.attributes), None)
    return attributes.bare(attributes.type_of(typed)) if typed is not None else None


def _align(die: Any) -> int:
    return attributes.number(die, "DW_AT_alignment", 0)


def _passed_as_c(formal: Formal, declared: Any, wide: Formal) -> Formal:
    die = _type_of(declared)
    if die is None:
        return formal
    together = replace(formal, reference=False, passed_separately=False)
    found: set[Scalar] = set()
    known = _collect(die, 0, found, attributes.DEPTH)
    size = attributes.size_of(die)
    aligned = _align(die)
    if not known or aligned > WIDE:
        return replace(together, scalars=None)
    if size > WIDE:
        # On the stack: only how it is aligned matters.
        whole = Scalar(0, WIDE if aligned == WIDE else WORD, "integer")
        return replace(together, scalars=(whole,))
    if found == {Scalar(0, WIDE, "integer")}:
        if die.tag in attributes.RECORDS:  # debug information leaves out whether it is a number
            return replace(together, scalars=None if wide.registers_miscounted else wide.scalars)
        return replace(
            together, scalars=wide.scalars, registers_miscounted=wide.registers_miscounted
        )
    packed = any(s.size == WIDE for s in found) and aligned < WIDE
    ordered = sorted(found, key=lambda s: (s.offset, s.size))
    return replace(together, scalars=tuple(ordered), packed=packed)


def _collect(die: Any, offset: int, found: set[Scalar], depth: int) -> bool:  # noqa: PLR0911 - a return for each case
    """Add the numbers that make up a type at ``offset``, those of all variants of an enumeration;
    false if that is uncertain."""
    bare = attributes.bare(die) if die is not None else None
    if bare is None or not depth:
        return False
    size = attributes.size_of(bare)
    if not size or size > WIDE or offset >= WIDE:
        return True
    if bare.tag in attributes.POINTERS or bare.tag == "DW_TAG_enumeration_type":
        found.add(Scalar(offset, size, "integer"))
        return True
    if bare.tag == "DW_TAG_base_type":
        real = attributes.number(bare, "DW_AT_encoding", 0) == ATE_FLOAT
        found.add(Scalar(offset, size, "float" if real else "integer"))
        return True
    if bare.tag == "DW_TAG_array_type":
        target, count = attributes.type_of(bare), attributes.count(bare)
        step = attributes.size_of(target)
        if "DW_AT_GNU_vector" in bare.attributes or count is None:
            return False
        starts = range(offset, offset + min(count * step, WIDE), step) if step else ()
        return all(_collect(target, at, found, depth - 1) for at in starts)
    if bare.tag not in attributes.RECORDS:
        return False
    return _collect_members(bare, offset, found, depth - 1)


def _collect_members(die: Any, offset: int, found: set[Scalar], depth: int) -> bool:
    for child in die.iter_children():
        if child.tag == "DW_TAG_member":
            at = offset + attributes.member_offset(child)
            if not _collect(attributes.type_of(child), at, found, depth):
                return False
        elif child.tag == "DW_TAG_variant_part":
            if "DW_AT_discr" in child.attributes:
                tag = child.get_DIE_from_attribute("DW_AT_discr")
                at = offset + attributes.member_offset(tag)
                if not _collect(attributes.type_of(tag), at, found, depth):
                    return False
            variants = (v for v in child.iter_children() if v.tag == "DW_TAG_variant")
            if not all(_collect_members(v, offset, found, depth) for v in variants):
                return False
    return True

"""Parameters, results and types of Go functions, from the DWARF the Go compiler writes.

Each package is one compilation unit, named after it, and holds names in
place. So a function is found by searching the bytes of its package's unit for
its name, and only what it refers to is parsed. Attributes of Go's own:
``cmd/internal/dwarf`` (``DW_AT_go_kind`` and the rest).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from elftools.dwarf.dwarf_expr import DWARFExprParser
from elftools.elf.elffile import ELFFile
from msgspec.structs import replace

from lbtrace.dwarf.attributes import text
from lbtrace.dwarf.go_layout import LOOKED_INTO, Layouts
from lbtrace.dwarf.go_views import GoDieView
from lbtrace.elf import debugfile
from lbtrace.elf.go import build
from lbtrace.elf.image import Image
from lbtrace.model import LONG, Formal, Function, Prototype, Scalar
from lbtrace.recognize import Bounds, Recognizer

LANG_GO = 0x16
LISTED = ("DW_FORM_sec_offset", "DW_FORM_data4", "DW_FORM_loclistx")
"""Forms of a location that is a list."""

DW_OP_REG0, DW_OP_REG31, DW_OP_REGX = 0x50, 0x6F, 0x90
DW_OP_FBREG, DW_OP_PIECE, DW_OP_CALL_FRAME_CFA = 0x91, 0x93, 0x9C

ORIGIN, REFERENCE = "DW_AT_abstract_origin", 4
"""Go refers to entries by DW_FORM_ref_addr, in 32-bit DWARF four bytes."""

SHAPE = "go.shape."
"""What type arguments are called in code that several of them share."""

DICTIONARY, DICTIONARY_SECOND = ".dict", (1, 20)
METHOD, CLOSURE = re.compile(r"\]\)?\.\w+$"), re.compile(r"\.func\d+$|\.gowrap\d+$")
_DICTIONARY = Formal(DICTIONARY, LONG, 8, (Scalar(0, 8, "integer"),))

BOUNDS = Bounds(nesting=32, types=1 << 16, members=1 << 12)
"""Each type is looked at once for all functions."""

Located = tuple[int, ...] | int | None


class _Unit(NamedTuple):
    start: int
    end: int
    unit: Any


Whole: TypeAlias = Callable[[Function, Prototype], bool]
"""Whether a function has no parameters but those of this prototype."""


def _unknown(function: Function, prototype: Prototype) -> bool:
    return False


def prototypes(
    image: Image,
    functions: Sequence[Function],
    whole: Whole = _unknown,
    debug: debugfile.Found | None = None,
) -> dict[int, Prototype]:
    """Return the prototypes of ``functions``, by address, as far as debug information has them:
    ``debug``, which is what `debugfile.find` found, if that was asked before.

    Where what is declared is ``whole`` they do not say where it is: the convention does.

    Raises nothing: a function that damaged debug information hides is missing.
    """
    found: dict[int, Prototype] = {}
    debug = debug or debugfile.find(image)
    if debug is None:
        return found
    try:
        reader = _Reader(image, debug.data)
    except Exception:  # damaged DWARF raises nearly anything inside pyelftools
        return found
    for function in functions:
        for name in (function.name, *function.aliases):
            try:
                prototype = reader.prototype(name, function, whole)
            except Exception:  # as above: the next function may be in order
                continue
            if prototype is not None:
                found[function.address] = prototype
                break
    return found


def member_offset(image: Image, debug: debugfile.Found, structure: str, member: str) -> int | None:
    """Return the offset of a member in a Go struct, in bytes; None where it is unknown."""
    try:
        return _Reader(image, debug.data).member_offset(structure, member)
    except Exception:  # as above
        return None


class _Reader:
    """The debug information of one image, which is in the file ``data``."""

    def __init__(self, image: Image, data: Any) -> None:
        stream: Any = data
        dwarf: Any = ELFFile(stream).get_dwarf_info(
            relocate_dwarf_sections=False, follow_links=False
        )
        self._dwarf = dwarf
        self._info: bytes = dwarf.debug_info_sec.stream.getvalue()
        self._recognizer = Recognizer(LOOKED_INTO, BOUNDS, lasting=True)
        self._layouts = Layouts()
        self._version = build.version(image)
        # A package with assembly has a unit for that as well.
        self._units: dict[str, list[_Unit]] = {}
        for unit in dwarf.iter_CUs():
            try:
                top = unit.get_top_DIE()
            except Exception:  # of C: pyelftools wants all sections compressed, or none
                continue
            language = top.attributes.get("DW_AT_language")
            if language is not None and language.value == LANG_GO:
                start = unit.cu_offset
                end = start + unit["unit_length"] + unit.structs.initial_length_field_size()
                units = self._units.setdefault(text(top, "DW_AT_name"), [])
                units.append(_Unit(start, end, unit))

    def prototype(self, name: str, function: Function, whole: Whole) -> Prototype | None:
        """Return what is declared of ``function`` under ``name``."""
        address = function.address
        for die in self._named(name.removesuffix(".abi0")):
            low = die.attributes.get("DW_AT_low_pc")
            if low is None or low.value != address:
                continue
            formals = _formals(die)
            given = [d for d in formals if not _is_result(d)]
            parameters = [self._formal(d) for d in given]
            hidden = self._dictionary_at(name, parameters)
            if hidden >= 0:
                parameters.insert(hidden, _DICTIONARY)
            results = tuple(self._formal(d) for d in formals if _is_result(d))
            prototype = Prototype(tuple(parameters), None, results)
            if whole(function, prototype):
                return prototype
            if hidden >= 0:
                given.insert(hidden, None)
            located = [
                None if d is None else self._located(d, address, formal)
                for d, formal in zip(given, parameters, strict=True)
            ]
            return replace(prototype, located=tuple(located))
        return None

    def member_offset(self, structure: str, member: str) -> int | None:
        """See `member_offset`."""
        wanted = structure.encode() + b"\0"
        for unit in self._units.get(_package(structure), ()):
            at = self._info.find(wanted, unit.start, unit.end)
            while at >= 0:
                die = _die(unit.unit, at - 1)
                if die is not None and die.tag == "DW_TAG_structure_type":
                    for child in die.iter_children():
                        if text(child, "DW_AT_name") == member:
                            return int(child.attributes["DW_AT_data_member_location"].value)
                at = self._info.find(wanted, at + 1, unit.end)
        return None

    def _dictionary_at(self, name: str, parameters: Sequence[Formal]) -> int:
        """Where among the parameters the dictionary of a generic function is, if old
        compilers omit: first, from 1.20 on in methods second. -1 where there is none, or it is not
        omitted."""
        if SHAPE not in name or any(p.name == DICTIONARY for p in parameters):
            return -1
        if name.endswith("]"):
            return 0
        method = METHOD.search(name) and not CLOSURE.search(name) and parameters
        return int(self._version >= DICTIONARY_SECOND) if method else -1

    def _named(self, name: str) -> Iterator[Any]:
        """The functions of this name. Where it was also inlined, that is an entry which
        lacks everything else, and has no address of its own."""
        wanted = name.encode() + b"\0"
        # What the runtime provides for other packages bears their names.
        for unit in (*self._units.get(_package(name), ()), *self._units.get("runtime", ())):
            at = self._info.find(wanted, unit.start, unit.end)
            while at >= 0:
                die = _die(unit.unit, at - 1)
                if die is not None and die.tag == "DW_TAG_subprogram":
                    if "DW_AT_inline" in die.attributes:
                        yield from self._instances(unit, die)
                    else:
                        yield die
                at = self._info.find(wanted, at + 1, unit.end)

    def _instances(self, unit: _Unit, origin: Any) -> Iterator[Any]:
        """The functions compiled from the abstract one at ``origin``: they refer to it first."""
        wanted = origin.offset.to_bytes(REFERENCE, "little")
        at = self._info.find(wanted, unit.start, unit.end)
        while at >= 0:
            die = _die(unit.unit, at - 1)
            if die is not None and die.tag == "DW_TAG_subprogram" and ORIGIN in die.attributes:
                yield die
            at = self._info.find(wanted, at + 1, unit.end)

    def _formal(self, die: Any) -> Formal:
        die = _origin(die)
        view = GoDieView(die.get_DIE_from_attribute("DW_AT_type"))
        layout = self._layouts.of(view)
        name = text(die, "DW_AT_name")
        # The compiler's own names of results that have none: ~r0.
        return Formal(
            "" if name.startswith("~") else name,
            self._recognizer.type_of(view),
            view.size,
            layout.scalars,
            alignment=layout.alignment,
        )

    def _located(self, die: Any, address: int, formal: Formal) -> Located:
        """Where a parameter is at function entry: registers, or an offset from the CFA."""
        attribute = die.attributes.get("DW_AT_location")
        if attribute is None or not attribute.value:
            return None
        expression: Sequence[int] | None = None
        if attribute.form in LISTED:
            lists = self._dwarf.location_lists()
            base = 0
            for entry in lists.get_location_list_at_offset(attribute.value, die):
                if not hasattr(entry, "loc_expr"):
                    base = getattr(entry, "base_address", base)
                    continue
                # The first may hold from somewhere inside the function only.
                if entry.begin_offset + (0 if entry.is_absolute else base) == address:
                    expression = entry.loc_expr
                break
        else:
            expression = attribute.value
        return _place(die.cu.structs, expression, formal) if expression else None


def _place(structs: Any, expression: Sequence[int], formal: Formal) -> Located:
    """Where an expression says that a parameter is. If it has pieces, there is one for each of the
    scalars, or something is wrong: Go up to 1.21 describes the pointer of a slice twice."""
    registers: list[int] = []
    stacked: list[int] = []
    pieces: list[int] = []
    operations = DWARFExprParser(structs).parse_expr(list(expression))
    for operation in operations:
        if DW_OP_REG0 <= operation.op <= DW_OP_REG31:
            registers.append(operation.op - DW_OP_REG0)
        elif operation.op == DW_OP_REGX:
            registers.append(operation.args[0])
        elif operation.op == DW_OP_FBREG:
            stacked.append(operation.args[0])
        elif operation.op == DW_OP_CALL_FRAME_CFA:
            stacked.append(0)
        elif operation.op == DW_OP_PIECE:
            pieces += operation.args
        else:
            return None
    if stacked and len(operations) == 1:
        return stacked[0]
    scalars = formal.scalars or ()
    if pieces not in ([], [scalar.size for scalar in scalars]):
        return None
    if registers and not stacked:
        return tuple(registers) if len(registers) == len(scalars) else None
    starts = {at - scalar.offset for at, scalar in zip(stacked, scalars, strict=False)}
    is_whole = len(stacked) == len(scalars) and not registers and len(starts) == 1
    return starts.pop() if is_whole else None


def _formals(die: Any) -> list[Any]:
    """Parameters and results. Some compilers list the results of functions that
    defer twice; only blank ones may share a name."""
    formals: list[Any] = []
    names: set[str] = set()
    for child in die.iter_children():
        if child.tag == "DW_TAG_formal_parameter":
            name = text(_origin(child), "DW_AT_name")
            if name not in names:
                formals.append(child)
            names.add(name)
            names -= {"", "_"}
    return formals


def _is_result(die: Any) -> bool:
    attribute = _origin(die).attributes.get("DW_AT_variable_parameter")
    return attribute is not None and bool(attribute.value)


def _origin(die: Any) -> Any:
    """What declares ``die``: itself, or what it is an instance of."""
    return die.get_DIE_from_attribute(ORIGIN) if ORIGIN in die.attributes else die


def _package(name: str) -> str:
    """The import path in a symbol: what is before the first dot after the last slash.

    Slashes inside type arguments do not count.
    """
    plain = name.partition("[")[0]
    slash = plain.rfind("/") + 1
    return plain[: plain.find(".", slash)]


def _die(unit: Any, offset: int) -> Any:
    """The entry at ``offset``, or None where there is none."""
    try:
        return unit.get_DIE_from_refaddr(offset)
    except Exception:  # no entry begins here
        return None

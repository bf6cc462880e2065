"""DWARF type entries: their name as the source writes it, and how they are passed.

Sources: DWARF 5, chapter 5 and section 7.8 (encodings).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from lbtrace.abi import find_default
from lbtrace.dwarf import attributes, lost_bits, producers
from lbtrace.dwarf.languages import ASSEMBLERS, CPP, GO, RUST, C, language_of
from lbtrace.dwarf.triviality import is_trivial
from lbtrace.dwarf.views import (
    ATE_BOOLEAN,
    ATE_COMPLEX,
    ATE_FLOAT,
    CHARACTERS,
    INTEGERS,
    DieView,
    UnitViews,
)
from lbtrace.dwarf.written_types import Writer
from lbtrace.model import OTHER_LANGUAGE, VOID, ConventionHints, Formal, Scalar, Type
from lbtrace.recognize import Recognizer

TELLS_CHANGES = 16
"""The version of LLVM from which on it says where it changed what is passed (D127351)."""
TELLS_OPTIMISED = 13, 4
"""The versions of clang and DWARF from which on it marks the functions that it optimised
(``CGDebugInfo::getCallSiteRelatedAttrs``)."""
EXACT_INT128 = 20
"""The version of LLVM from which on an ``__int128`` that registers do not hold lies where the
convention of x86-64 wants it (LLVM's review D158169 and pull request 124134)."""
DW_CC_PASS_BY_REFERENCE, DW_CC_PASS_BY_VALUE = 4, 5
LARGEST_IN_REGISTERS = WIDE = 16


class Types:
    """The types of the compilation unit with the entry ``top``; each is worked out once.

    Pointers are followed ``depth`` deep. ``x87`` says what a long double is on the ``machine``.
    ``rust`` and ``llvm`` give the language, and whose compiler it was; ``optimised`` asks whether
    it may have changed what is passed to functions. It ``follows`` how variables move, as a rule.
    Constants of enumerations may be named by their scopes where these are ``qualified``.
    """

    def __init__(
        self,
        top: Any,
        depth: int,
        machine: str,
        *,
        qualified: bool = False,
        full_names: bool = False,
    ) -> None:
        x87 = find_default(machine).x87
        self.machine = machine
        language = language_of(top)
        self.rust = language == RUST
        producer = attributes.text(top, "DW_AT_producer")
        self.llvm = self.rust or "clang" in producer
        self._compiler = "llvm" if self.llvm else "gcc" if producer.startswith("GNU ") else ""
        self._default_code = producers.default_convention(producer)
        self._marks_defaulted = producers.marks_defaulted(producer, top.unit.version)
        self._rustc = producers.rustc(producer)
        llvm = producers.llvm(producer)
        self._loses_bits = self.llvm and not self.rust and llvm < lost_bits.KEEPS_BITS
        self.tells_changes = llvm >= TELLS_CHANGES
        clang, dwarf = TELLS_OPTIMISED
        self._tells_optimised = llvm >= clang and top.unit.version >= dwarf
        self.optimised: Callable[[], bool] = lambda: True
        self._miscounts = x87 and llvm < EXACT_INT128
        self.x87 = x87
        self._language = language
        known = "rust" if self.rust else "c" if language in C else "c++"
        self._source = UnitViews(
            Writer(known, full_names=full_names).write,
            known,
            x87=x87,
            loses_bits=self._loses_bits,
            qualified=qualified,
        )
        self._depth = depth
        self._known: dict[int, Formal] = {}
        self._typed: dict[int, bool] = {}
        self._either: dict[int, tuple[Formal, Formal]] = {}
        self.assembly = language in ASSEMBLERS
        known_language = language in C | CPP | {RUST, 0} or self.assembly
        self.foreign = not known_language or producer.startswith("zig")

    def hints(self, code: int) -> ConventionHints:
        """Return what says how a function is called that has this ``DW_AT_calling_convention``."""
        known = "c" if self._language in C else "c++" if self._language in CPP else ""
        known = OTHER_LANGUAGE if self.foreign else known
        code = code or self._default_code
        return ConventionHints(code, "rust" if self.rust else known, self._compiler)

    def is_silent(self, *, method: bool) -> bool:
        """Return whether what is passed to a function may have been changed without a word. Of a
        ``method``, whose declaration is elsewhere, LLVM never says it
        (``DwarfUnit::applySubprogramAttributes`` leaves such attributes to the declaration)."""
        return self.llvm and (method or not self.tells_changes) and self.optimised()

    def is_plain(self, *, optimised: bool) -> bool:
        """Return whether clang certainly left a function as it was written, as it does not mark it
        as ``optimised``."""
        return self.llvm and not self.rust and self._tells_optimised and not optimised

    def has_any(self, unit: Any) -> bool:
        """Return whether anything in ``unit`` has a type."""
        if unit.offset not in self._typed:
            self._typed[unit.offset] = attributes.has_types(unit.root)
        return self._typed[unit.offset]

    def formal(self, name: str, die: Any) -> Formal:
        """Return a parameter ``name`` of the type that ``die``, its declaration, refers to."""
        target = None if die is None else attributes.type_of(die)
        if target is None:
            return Formal(name, VOID, 0)
        return self._named(name, self._found(target))

    def type_of(self, die: Any) -> Type:
        """Return the type that ``die`` describes."""
        return self._found(die).type

    def _found(self, die: Any) -> Formal:
        known = self._known.get(die.offset)
        if known is None:
            known = self._known[die.offset] = self._make(die)
        return known

    def _make(self, die: Any) -> Formal:
        if self._language != GO:
            return self._work_out(die)
        from lbtrace.dwarf.go_layout import make_formal  # imported here: most programs are not Go

        return make_formal(die, self._depth)

    def either(self, name: str, die: Any) -> tuple[Formal, ...]:
        """Return the two ways in which the parameter that ``die`` declares may be passed, if debug
        information of the type alone does not show; else nothing. It was meant as a `formal`
        before."""
        target = None if die is None else attributes.type_of(die)
        ways = self._either.get(target.offset, ()) if target is not None else ()
        return tuple(self._named(name, way) for way in ways)

    def _named(self, name: str, known: Formal) -> Formal:
        return Formal(
            name,
            known.type,
            known.size,
            known.scalars,
            known.reference,
            passed_separately=self.rust or known.passed_separately,
            registers_miscounted=known.registers_miscounted,
            # LLVM's optimiser drops ``sret``, at link time of any function.
            result_pointer_lost=self.llvm,
            packed=known.packed,
        )

    def _rust_formal(self, type: Type, size: int, scalars: tuple[Scalar, ...] | None) -> Formal:
        if scalars is None:
            return Formal("", type, size, None, reference=True)
        miscounted = self._miscounts and any(s.size == WIDE for s in scalars)
        return Formal("", type, size, scalars, registers_miscounted=miscounted)

    def _work_out(self, die: Any) -> Formal:  # noqa: PLR0911, PLR0912 - a return for each case
        bare = attributes.bare(die)
        if bare is None:
            return Formal("", VOID, 0)
        type = Recognizer(self._depth).type_of(DieView(die, self._source))
        size = attributes.size_of(bare)
        if type.is_address and bare.tag != attributes.MEMBER_POINTER:
            # Up to LLVM 19 at least.
            uncounted = self.llvm and self.x87 and attributes.is_nullptr(bare)
            return Formal("", type, 8, (Scalar(0, 8, "integer"),), registers_miscounted=uncounted)
        if self._language in C and attributes.is_transparent(bare):
            return Formal("", type, size, None)
        if bare.tag in attributes.RECORDS and not self.rust:
            by_reference = self._by_reference(bare)
            if by_reference is None:
                return Formal("", type, size, None)
            if by_reference:
                return Formal("", type, size, None, reference=True)
        if self.rust:
            # Imported here because most programs are not Rust.
            from lbtrace.dwarf import rust_layout

            try:
                travels = rust_layout.passed(bare, self._rustc)
            except rust_layout.UnknownLayout:
                return Formal("", type, size, None)
            known = self._rust_formal(type, size, travels.scalars)
            if travels.unsure:
                self._either[die.offset] = known, self._rust_formal(type, size, travels.otherwise)
                return Formal("", type, size, None)
            return known
        scalars: list[Scalar] = []
        certain = self._flatten(bare, 0, scalars, attributes.DEPTH)
        # Of a struct clang itself makes two words, or a copy in memory (``classifyArgumentType``
        # in X86.cpp): what LLVM does to an ``__int128`` is done to those alone.
        if bare.tag not in attributes.RECORDS and scalars == [Scalar(0, WIDE, "integer")]:
            return self.wide_integer(type)
        if self.llvm and self.x87 and bare.tag in attributes.RECORDS:
            # Where records with a ``__float128`` are depends on the version, and on what else is
            # in them (LLVM's pull request 75156).
            certain = certain and not any((s.size, s.kind) == (WIDE, "float") for s in scalars)
        if self.x87 and bare.tag in attributes.RECORDS and size > LARGEST_IN_REGISTERS:
            # Only a complex number comes back on the stack of the x87 (psABI 3.2.3, COMPLEX_X87).
            scalars = [replace(s, kind="memory") if s.kind == "x87" else s for s in scalars]
        # Unaligned numbers may be bit fields, with which a record travels otherwise.
        unaligned = any(s.kind == "integer" and s.offset % s.size for s in scalars)
        if not certain or (self._loses_bits and unaligned and size <= LARGEST_IN_REGISTERS):
            return Formal("", type, size, None)
        wide = any(s.size == WIDE for s in scalars)
        packed = wide and attributes.alignment(bare) < WIDE
        return Formal("", type, size, tuple(scalars), packed=packed)

    def wide_integer(self, type: Type = VOID) -> Formal:
        """Return how a function that has the convention of C takes an integer of 16 bytes."""
        scalars = (Scalar(0, WIDE, "integer"),)
        return Formal("", type, WIDE, scalars, registers_miscounted=self._miscounts)

    def _flatten(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:  # noqa: PLR0911 - a return for each case
        """Appends the numbers that make up ``die``, at ``offset``; false if that is uncertain.

        A value of more than sixteen bytes is passed in memory whatever it
        holds, so only its largest alignment matters.
        """
        bare = attributes.bare(die) if die is not None else None
        if bare is None or not depth or len(scalars) > 4 * LARGEST_IN_REGISTERS:
            return False
        size = attributes.number(bare, "DW_AT_byte_size", 0)
        if bare.tag in attributes.POINTERS or attributes.is_nullptr(bare):
            # To clang's ``X86_64ABIInfo::classify`` a ``nullptr`` is no integer.
            spilled = self.llvm and self.x87 and bare.tag not in attributes.POINTERS
            scalars.append(Scalar(offset, 8, "memory" if spilled else "integer"))
            return True
        if bare.tag == attributes.MEMBER_POINTER:
            places = range(0, attributes.size_of(bare), 8)
            scalars.extend(Scalar(offset + at, 8, "integer") for at in places)
            return True
        if bare.tag == "DW_TAG_enumeration_type" and size in (1, 2, 4, 8):
            scalars.append(Scalar(offset, size, "integer"))
            return True
        if bare.tag == "DW_TAG_base_type":
            return _flatten_base(bare, offset, size, scalars)
        if self._language not in C | CPP or "DW_AT_alignment" in bare.attributes:
            return False
        if bare.tag == "DW_TAG_array_type":
            return self._flatten_array(bare, offset, scalars, depth)
        if bare.tag in attributes.RECORDS and "DW_AT_declaration" not in bare.attributes:
            return self._flatten_record(bare, offset, scalars, depth)
        return False

    def _flatten_record(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:
        for member in die.iter_children():
            if member.tag not in ("DW_TAG_member", "DW_TAG_inheritance"):
                continue
            if "DW_AT_external" in member.attributes or "DW_AT_declaration" in member.attributes:
                continue  # a static member
            if "DW_AT_alignment" in member.attributes or not attributes.is_plain(member):
                return False
            if bits := attributes.number(member, "DW_AT_bit_size", 0):
                first = attributes.first_bit(member)
                ends = dict.fromkeys((first // 8, (first + bits - 1) // 8))
                scalars += [Scalar(offset + at, 1, "integer") for at in ends]
                continue
            into = attributes.member_offset(member)
            if not self._flatten(attributes.type_of(member), offset + into, scalars, depth - 1):
                return False
        return True

    def _flatten_array(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:
        count = attributes.count(die)
        if "DW_AT_GNU_vector" in die.attributes or count is None:
            return False
        element: list[Scalar] = []
        target = attributes.type_of(die)
        if not self._flatten(target, 0, element, depth - 1):
            return False
        step = attributes.size_of(target)
        if not step:
            return False
        for n in range(min(count, 2 * LARGEST_IN_REGISTERS)):
            scalars += [Scalar(offset + n * step + s.offset, s.size, s.kind) for s in element]
        return True

    def _by_reference(self, die: Any) -> bool | None:
        """Whether a record travels as a pointer to it: the compiler says so of C++
        classes, or by their members. None where nothing is certain."""
        declared = attributes.number(die, "DW_AT_calling_convention", 0)
        if self._language in CPP and declared in (DW_CC_PASS_BY_REFERENCE, DW_CC_PASS_BY_VALUE):
            return declared == DW_CC_PASS_BY_REFERENCE
        if self._language not in CPP:
            return False
        trivial = is_trivial(die, marks_defaulted=self._marks_defaulted)
        return None if trivial is None else not trivial


def _flatten_base(die: Any, offset: int, size: int, scalars: list[Scalar]) -> bool:
    encoding = attributes.number(die, "DW_AT_encoding", 0)
    if encoding == ATE_FLOAT and size in (2, 4, 8, 16):
        long_double = size == 16 and "128" not in attributes.text(die, "DW_AT_name")
        scalars.append(Scalar(offset, size, "x87" if long_double else "float"))
    elif encoding == ATE_COMPLEX and size in (8, 16, 32):
        half = size // 2
        for at in (offset, offset + half):
            scalars.append(Scalar(at, half, "x87" if half == 16 else "float"))
    elif encoding in (ATE_BOOLEAN, *INTEGERS, *CHARACTERS) and size in (1, 2, 4, 8, 16):
        scalars.append(Scalar(offset, size, "integer"))
    else:
        return False
    return True

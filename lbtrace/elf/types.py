"""DWARF type entries: their name as the source writes it, and how they are passed.

Sources: DWARF 5, chapter 5 and sections 7.8 (encodings) and 7.12 (languages).
"""

from __future__ import annotations

from typing import Any

from lbtrace.elf import compilers, dies, rust_layout
from lbtrace.elf.shapes import (
    ATE_BOOLEAN,
    ATE_COMPLEX,
    ATE_FLOAT,
    CHARACTERS,
    INTEGERS,
    Shaper,
)
from lbtrace.elf.triviality import is_trivial
from lbtrace.model import Formal, Pointer, Scalar, Void

C = frozenset({0x01, 0x02, 0x0C, 0x1D, 0x2C})
CPP = frozenset({0x04, 0x1A, 0x21, 0x2B})
RUST = 0x1C

KEYWORDS = {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
    "DW_TAG_enumeration_type": "enum",
    "DW_TAG_class_type": "class",
}
TELLS_CHANGES = 16
"""The version of LLVM from which on it says where it changed what is passed (D127351)."""
WHOLE_INT128, EXACT_INT128 = 18, 20
"""The versions of LLVM from which on the halves of an ``__int128`` that registers do not hold
stay together, and leave the last register to others, as the convention of x86-64 wants it
(LLVM's review D158169 and pull request 124134)."""
DW_CC_PASS_BY_REFERENCE, DW_CC_PASS_BY_VALUE = 4, 5
LARGEST_IN_REGISTERS = WIDE = 16


def language_of(top: Any) -> int:
    """The ``DW_AT_language`` of a unit, 0 where it has none."""
    attribute = top.attributes.get("DW_AT_language")
    return 0 if attribute is None else int(attribute.value)


class Types:
    """The types of the compilation unit with the entry ``top``; each is worked out once.

    Pointers are looked behind ``depth`` deep. ``x87`` says what a long double is. ``rust``
    and ``llvm`` tell the language, and whose compiler it was, and ``silent`` that it may
    have changed what is passed to a function without saying so.
    """

    def __init__(self, top: Any, depth: int, *, x87: bool = True) -> None:
        language = language_of(top)
        self.rust = language == RUST
        producer = dies.text(top, "DW_AT_producer")
        self.llvm = self.rust or "clang" in producer
        self._rustc = compilers.rustc(producer)
        llvm = compilers.llvm(producer)
        self.silent = self.llvm and llvm < TELLS_CHANGES
        version = llvm if x87 else compilers.NEWEST
        self._halves = version < WHOLE_INT128
        self._shadowed = WHOLE_INT128 <= version < EXACT_INT128
        self._x87 = x87
        self._language = language
        self._depth = depth
        self._known: dict[int, Formal] = {}

    def formal(self, name: str, die: Any) -> Formal:
        """A parameter ``name`` of the type that ``die``, its declaration, refers to."""
        target = None if die is None else dies.type_of(die)
        if target is None:
            return Formal(name, Void(), 0)
        known = self._known.get(target.offset)
        if known is None:
            known = self._known[target.offset] = self._work_out(target)
        return Formal(
            name,
            known.type,
            known.size,
            known.scalars,
            known.reference,
            split=self.rust or known.split,
            shadowed=self._shadowed and any(s.size == WIDE for s in known.scalars or ()),
            forgotten=self.llvm,  # its optimiser drops ``sret``, at link time of any function
        )

    def _work_out(self, die: Any) -> Formal:  # noqa: PLR0911
        bare = dies.bare(die)
        if bare is None:
            return Formal("", Void(), 0)
        shaper = Shaper(
            lambda d: self._name(d, "", dies.DEPTH),
            rust=self.rust,
            depth=self._depth,
            x87=self._x87,
        )
        type, size = shaper.shape(die), dies.size_of(bare)
        if isinstance(type, Pointer) and bare.tag != dies.MEMBER_POINTER:
            return Formal("", type, 8, (Scalar(0, 8, "integer"),))
        if bare.tag in dies.RECORDS and not self.rust:
            by_reference = self._by_reference(bare)
            if by_reference is None:
                return Formal("", type, size, None)
            if by_reference:
                return Formal("", type, size, None, reference=True)
        if self.rust:
            try:
                layout = rust_layout.passed(bare, self._rustc)
            except rust_layout.Uncertain:
                return Formal("", type, size, None)
            if layout is None:
                return Formal("", type, size, None, reference=True)
            divided = self._divided(layout)
            return Formal("", type, size, divided)
        scalars: list[Scalar] = []
        certain = self._flatten(bare, 0, scalars, dies.DEPTH)
        if self._halves and scalars == [Scalar(0, WIDE, "integer")]:
            return Formal("", type, size, self._divided(tuple(scalars)), split=True)
        return Formal("", type, size, tuple(scalars) if certain else None)

    def _divided(self, scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        """The numbers as this compiler passes them: old ones make two of an ``__int128``."""
        if not self._halves:
            return scalars
        steps = {s: WIDE // 2 if (s.size, s.kind) == (WIDE, "integer") else s.size for s in scalars}
        return tuple(
            Scalar(s.offset + at, steps[s], s.kind)
            for s in scalars
            for at in range(0, s.size, steps[s])
        )

    def _flatten(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:  # noqa: PLR0911
        """Appends the numbers that make up ``die``, at ``offset``; false if that is uncertain.

        A value of more than sixteen bytes is passed in memory whatever it
        holds, so only its largest alignment matters.
        """
        bare = dies.bare(die) if die is not None else None
        if bare is None or not depth or len(scalars) > 4 * LARGEST_IN_REGISTERS:
            return False
        size = dies.number(bare, "DW_AT_byte_size", 0)
        if bare.tag in dies.POINTERS:
            scalars.append(Scalar(offset, 8, "integer"))
            return True
        if bare.tag == dies.MEMBER_POINTER:
            places = range(0, dies.size_of(bare), 8)
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
        if bare.tag in dies.RECORDS and "DW_AT_declaration" not in bare.attributes:
            return self._flatten_record(bare, offset, scalars, depth)
        return False

    def _flatten_record(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:
        for member in die.iter_children():
            if member.tag not in ("DW_TAG_member", "DW_TAG_inheritance"):
                continue
            if "DW_AT_external" in member.attributes or "DW_AT_declaration" in member.attributes:
                continue  # a static member
            if "DW_AT_alignment" in member.attributes or not dies.is_plain(member):
                return False
            if "DW_AT_bit_size" in member.attributes:
                bits = dies.number(member, "DW_AT_data_bit_offset", -1)
                if bits < 0:
                    bits = 8 * dies.member_offset(member)
                scalars.append(Scalar(offset + bits // 8, 1, "integer"))
                continue
            into = dies.member_offset(member)
            if not self._flatten(dies.type_of(member), offset + into, scalars, depth - 1):
                return False
        return True

    def _flatten_array(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:
        count = dies.count(die)
        if "DW_AT_GNU_vector" in die.attributes or count is None:
            return False
        element: list[Scalar] = []
        target = dies.type_of(die)
        if not self._flatten(target, 0, element, depth - 1):
            return False
        step = dies.size_of(target)
        if not step:
            return False
        for n in range(min(count, 2 * LARGEST_IN_REGISTERS)):
            scalars += [Scalar(offset + n * step + s.offset, s.size, s.kind) for s in element]
        return True

    def _by_reference(self, die: Any) -> bool | None:
        """Whether a record travels as a pointer to it: the compiler says so of C++
        classes, or their members tell. None where nothing is certain."""
        if self._language not in CPP:
            return False
        told = dies.number(die, "DW_AT_calling_convention", 0)
        if told in (DW_CC_PASS_BY_REFERENCE, DW_CC_PASS_BY_VALUE):
            return told == DW_CC_PASS_BY_REFERENCE
        trivial = is_trivial(die)
        return None if trivial is None else not trivial

    def _name(self, die: Any, inner: str, depth: int) -> str:  # noqa: PLR0911
        """The C declaration of ``die`` around the declarator ``inner``."""
        if not depth:
            return "?"
        if die is None:
            return _join("void", inner)
        own = dies.text(die, "DW_AT_name")
        if own:
            keyword = KEYWORDS.get(die.tag, "") if self._language in C else ""
            return _join(_join(keyword, own), inner)
        target = dies.type_of(die)
        if die.tag in dies.POINTERS:
            inner = dies.POINTERS[die.tag] + inner
            if target is not None and target.tag in ("DW_TAG_subroutine_type", "DW_TAG_array_type"):
                inner = f"({inner})"
            return self._name(target, inner, depth - 1)
        if die.tag == dies.MEMBER_POINTER:
            of = die.get_DIE_from_attribute("DW_AT_containing_type")
            inner = f"{self._name(of, '', depth - 1)}::*{inner}"
            inner = f"({inner})" if dies.leads_to_code(die) else inner
            return self._name(target, inner, depth - 1)
        if die.tag in dies.QUALIFIERS:
            qualifier = dies.QUALIFIERS[die.tag]
            if target is not None and target.tag in dies.POINTERS:
                return self._name(target, _join(qualifier, inner), depth - 1)
            return _join(qualifier, self._name(target, inner, depth - 1))
        if die.tag == "DW_TAG_subroutine_type":
            return self._name(target, f"{inner}({self._parameters(die, depth)})", depth - 1)
        if die.tag == "DW_TAG_array_type":
            count = dies.count(die)
            return self._name(target, f"{inner}[{'' if count is None else count}]", depth - 1)
        keyword = KEYWORDS.get(die.tag, "")
        return _join(f"{keyword} {{…}}" if keyword else "?", inner)

    def _parameters(self, die: Any, depth: int) -> str:
        names = []
        for child in die.iter_children():
            if (
                child.tag == "DW_TAG_formal_parameter"
                and "DW_AT_artificial" not in child.attributes
            ):
                names.append(self._name(dies.type_of(child), "", depth - 1))
            elif child.tag == "DW_TAG_unspecified_parameters":
                names.append("...")
        empty = "void" if "DW_AT_prototyped" in die.attributes and self._language in C else ""
        return ", ".join(names) or empty


def _join(left: str, right: str) -> str:
    return f"{left} {right}" if left and right else left or right


def _flatten_base(die: Any, offset: int, size: int, scalars: list[Scalar]) -> bool:
    encoding = dies.number(die, "DW_AT_encoding", 0)
    if encoding == ATE_FLOAT and size in (2, 4, 8, 16):
        long_double = size == 16 and "128" not in dies.text(die, "DW_AT_name")
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

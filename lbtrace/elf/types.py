"""DWARF type entries: their name as the source writes it, their kind, how they are passed.

Sources: DWARF 5, chapter 5 and sections 7.8 (encodings) and 7.12 (languages).
"""

from __future__ import annotations

from typing import Any

from lbtrace.model import (
    Boolean,
    Character,
    Formal,
    Integer,
    Opaque,
    Pointer,
    Scalar,
    Type,
    Void,
)

DEPTH = 32
"""References followed before a type counts as damaged."""

C = frozenset({0x01, 0x02, 0x0C, 0x1D, 0x2C})
CPP = frozenset({0x04, 0x1A, 0x21, 0x2B})

QUALIFIERS = {
    "DW_TAG_const_type": "const",
    "DW_TAG_volatile_type": "volatile",
    "DW_TAG_restrict_type": "restrict",
    "DW_TAG_atomic_type": "_Atomic",
}
TRANSPARENT = frozenset({*QUALIFIERS, "DW_TAG_typedef"})
POINTERS = {
    "DW_TAG_pointer_type": "*",
    "DW_TAG_reference_type": "&",
    "DW_TAG_rvalue_reference_type": "&&",
}
KEYWORDS = {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
    "DW_TAG_enumeration_type": "enum",
    "DW_TAG_class_type": "class",
}
RECORDS = frozenset({"DW_TAG_structure_type", "DW_TAG_union_type", "DW_TAG_class_type"})

ATE_BOOLEAN, ATE_COMPLEX, ATE_FLOAT, ATE_SIGNED, ATE_SIGNED_CHAR = 2, 3, 4, 5, 6
ATE_UNSIGNED, ATE_UNSIGNED_CHAR, ATE_UTF = 7, 8, 0x10
INTEGERS = frozenset({ATE_SIGNED, ATE_UNSIGNED})
CHARACTERS = frozenset({ATE_SIGNED_CHAR, ATE_UNSIGNED_CHAR, ATE_UTF})
SIGNED = frozenset({ATE_SIGNED, ATE_SIGNED_CHAR})
SMALL_INTEGERS = frozenset({"signed char", "unsigned char"})
"""Characters by their encoding, but numbers to their users (``uint8_t``)."""

DW_CC_PASS_BY_REFERENCE, DW_CC_PASS_BY_VALUE = 4, 5
DW_OP_PLUS_UCONST = 0x23
LARGEST_IN_REGISTERS = 16


def language_of(top: Any) -> int:
    """The ``DW_AT_language`` of a unit, 0 where it has none."""
    attribute = top.attributes.get("DW_AT_language")
    return 0 if attribute is None else int(attribute.value)


def attribute_text(die: Any, name: str) -> str:
    """A string attribute, or ``""``."""
    attribute = die.attributes.get(name)
    if attribute is None or not isinstance(attribute.value, bytes):
        return ""
    return attribute.value.decode("utf-8", "backslashreplace")


class Types:
    """The types of one compilation unit; each is worked out once."""

    def __init__(self, language: int) -> None:
        self._language = language
        self._known: dict[int, Formal] = {}

    def formal(self, name: str, die: Any) -> Formal:
        """A parameter ``name`` of the type that ``die``, its declaration, refers to."""
        target = None if die is None else _type_of(die)
        if target is None:
            return Formal(name, Void(), 0)
        known = self._known.get(target.offset)
        if known is None:
            known = self._known[target.offset] = self._work_out(target)
        return Formal(name, known.type, known.size, known.scalars, known.reference)

    def _work_out(self, die: Any) -> Formal:
        bare = _bare(die)
        if bare is None:
            return Formal("", Void(), 0)
        size = _number(bare, "DW_AT_byte_size", 0)
        name = self._name(die, "", DEPTH)
        type = self._type(bare, name, size)
        if isinstance(type, Pointer):
            return Formal("", type, 8, (Scalar(0, 8, "integer"),))
        if not isinstance(type, Opaque):
            return Formal("", type, size, (Scalar(0, size, "integer"),))
        if bare.tag in RECORDS and self._by_reference(bare):
            return Formal("", type, size, None, reference=True)
        scalars: list[Scalar] = []
        certain = self._flatten(bare, 0, scalars, DEPTH)
        return Formal("", type, size, tuple(scalars) if certain else None)

    def _type(self, bare: Any, name: str, size: int) -> Type:  # noqa: PLR0911
        if bare.tag in POINTERS:
            return Pointer(name)
        if bare.tag == "DW_TAG_unspecified_type" and "nullptr" in name:
            return Pointer(name)
        if bare.tag != "DW_TAG_base_type" or size not in (1, 2, 4, 8):
            return Opaque(name)
        encoding = _number(bare, "DW_AT_encoding", 0)
        if encoding == ATE_BOOLEAN:
            return Boolean(name, size)
        if attribute_text(bare, "DW_AT_name") in SMALL_INTEGERS or encoding in INTEGERS:
            return Integer(name, size, encoding in SIGNED)
        if encoding in CHARACTERS:
            return Character(name, size, encoding in SIGNED)
        return Opaque(name)

    def _flatten(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:  # noqa: PLR0911
        """Appends the numbers that make up ``die``, at ``offset``; false if that is uncertain.

        A value of more than sixteen bytes is passed in memory whatever it
        holds, so only its largest alignment matters.
        """
        bare = _bare(die) if die is not None else None
        if bare is None or not depth or len(scalars) > 4 * LARGEST_IN_REGISTERS:
            return False
        size = _number(bare, "DW_AT_byte_size", 0)
        if bare.tag in POINTERS:
            scalars.append(Scalar(offset, 8, "integer"))
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
        if bare.tag in RECORDS and "DW_AT_declaration" not in bare.attributes:
            return self._flatten_record(bare, offset, scalars, depth)
        return False

    def _flatten_record(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:
        settled = _number(die, "DW_AT_calling_convention", 0) == DW_CC_PASS_BY_VALUE
        for member in die.iter_children():
            if member.tag == "DW_TAG_subprogram" and not settled:
                return False  # perhaps a copy constructor, with which it travels as a pointer
            if member.tag not in ("DW_TAG_member", "DW_TAG_inheritance"):
                continue
            if "DW_AT_external" in member.attributes or "DW_AT_declaration" in member.attributes:
                continue  # a static member
            at = member.attributes.get("DW_AT_data_member_location")
            if "DW_AT_alignment" in member.attributes or not _is_plain(at):
                return False
            if "DW_AT_bit_size" in member.attributes:
                bits = _number(member, "DW_AT_data_bit_offset", -1)
                if bits < 0:
                    bits = 8 * _member_offset(at)
                scalars.append(Scalar(offset + bits // 8, 1, "integer"))
                continue
            into = _member_offset(at)
            if not self._flatten(_type_of(member), offset + into, scalars, depth - 1):
                return False
        return True

    def _flatten_array(self, die: Any, offset: int, scalars: list[Scalar], depth: int) -> bool:
        count = _count(die)
        if "DW_AT_GNU_vector" in die.attributes or count is None:
            return False
        element: list[Scalar] = []
        target = _type_of(die)
        if not self._flatten(target, 0, element, depth - 1):
            return False
        step = _size(target, DEPTH)
        if not step:
            return False
        for n in range(min(count, 2 * LARGEST_IN_REGISTERS)):
            scalars += [Scalar(offset + n * step + s.offset, s.size, s.kind) for s in element]
        return True

    def _by_reference(self, die: Any) -> bool:
        """Whether the compiler says that a C++ class travels as a pointer to it."""
        return (
            self._language in CPP
            and _number(die, "DW_AT_calling_convention", 0) == DW_CC_PASS_BY_REFERENCE
        )

    def _name(self, die: Any, inner: str, depth: int) -> str:  # noqa: PLR0911
        """The C declaration of ``die`` around the declarator ``inner``."""
        if not depth:
            return "?"
        if die is None:
            return _join("void", inner)
        own = attribute_text(die, "DW_AT_name")
        if own:
            keyword = KEYWORDS.get(die.tag, "") if self._language in C else ""
            return _join(_join(keyword, own), inner)
        target = _type_of(die)
        if die.tag in POINTERS:
            inner = POINTERS[die.tag] + inner
            if target is not None and target.tag in ("DW_TAG_subroutine_type", "DW_TAG_array_type"):
                inner = f"({inner})"
            return self._name(target, inner, depth - 1)
        if die.tag in QUALIFIERS:
            qualifier = QUALIFIERS[die.tag]
            if target is not None and target.tag in POINTERS:
                return self._name(target, _join(qualifier, inner), depth - 1)
            return _join(qualifier, self._name(target, inner, depth - 1))
        if die.tag == "DW_TAG_subroutine_type":
            return self._name(target, f"{inner}({self._parameters(die, depth)})", depth - 1)
        if die.tag == "DW_TAG_array_type":
            count = _count(die)
            return self._name(target, f"{inner}[{'' if count is None else count}]", depth - 1)
        keyword = KEYWORDS.get(die.tag, "")
        return _join(f"{keyword} {{…}}" if keyword else "?", inner)

    def _parameters(self, die: Any, depth: int) -> str:
        names = []
        for child in die.iter_children():
            if child.tag == "DW_TAG_formal_parameter":
                names.append(self._name(_type_of(child), "", depth - 1))
            elif child.tag == "DW_TAG_unspecified_parameters":
                names.append("...")
        empty = "void" if "DW_AT_prototyped" in die.attributes and self._language in C else ""
        return ", ".join(names) or empty


def _join(left: str, right: str) -> str:
    return f"{left} {right}" if left and right else left or right


def _number(die: Any, name: str, default: int) -> int:
    attribute = die.attributes.get(name)
    return attribute.value if attribute and isinstance(attribute.value, int) else default


def _is_plain(attribute: Any) -> bool:
    """Whether a member lies at a constant offset; a virtual base does not."""
    return (
        attribute is None
        or isinstance(attribute.value, int)
        or attribute.value[:1] == [DW_OP_PLUS_UCONST]
    )


def _member_offset(attribute: Any) -> int:
    if attribute is None:
        return 0
    if isinstance(attribute.value, int):
        return attribute.value
    # DWARF 2 writes the offset as an expression: DW_OP_plus_uconst and a ULEB128.
    return sum((byte & 0x7F) << 7 * n for n, byte in enumerate(attribute.value[1:]))


def _type_of(die: Any) -> Any:
    attribute = die.attributes.get("DW_AT_type")
    if attribute is None:
        return None
    if attribute.form == "DW_FORM_ref_sig8" and die.cu["version"] >= 5:
        return _type_unit(die.dwarfinfo, attribute.raw_value)
    return die.get_DIE_from_attribute("DW_AT_type")


def _type_unit(dwarf: Any, signature: int) -> Any:
    """The type of a type unit, which DWARF 5 keeps among the others (section 7.5.1.3)."""
    for unit in dwarf.iter_CUs():
        if unit.header.get("unit_type") == "DW_UT_type" and unit["type_signature"] == signature:
            return unit.get_DIE_from_refaddr(unit.cu_offset + unit["type_offset"])
    raise KeyError(signature)


def _bare(die: Any) -> Any:
    """``die`` without typedefs and qualifiers; None is void."""
    for _ in range(DEPTH):
        if die is None or die.tag not in TRANSPARENT:
            return die
        die = _type_of(die)
    raise ValueError("types refer to each other in a circle")


def _size(die: Any, depth: int) -> int:
    bare = _bare(die)
    if bare is None or not depth:
        return 0
    if bare.tag == "DW_TAG_array_type" and "DW_AT_byte_size" not in bare.attributes:
        return (_count(bare) or 0) * _size(_type_of(bare), depth - 1)
    return 8 if bare.tag in POINTERS else _number(bare, "DW_AT_byte_size", 0)


def _count(die: Any) -> int | None:
    """The number of elements of an array; None where it has no fixed bound."""
    total = 1
    for child in die.iter_children():
        if child.tag != "DW_TAG_subrange_type":
            continue
        count = _number(child, "DW_AT_count", -1)
        if count < 0:
            count = _number(child, "DW_AT_upper_bound", -2) + 1
        if count < 0:
            return None
        total *= count
    return total


def _flatten_base(die: Any, offset: int, size: int, scalars: list[Scalar]) -> bool:
    encoding = _number(die, "DW_AT_encoding", 0)
    if encoding == ATE_FLOAT and size in (2, 4, 8, 16):
        long_double = size == 16 and "128" not in attribute_text(die, "DW_AT_name")
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

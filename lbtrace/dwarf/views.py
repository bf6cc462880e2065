"""DWARF's types as views, which kinds of values are recognised by.

Sources: DWARF 5, chapter 5 and section 7.8 (encodings).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lbtrace.dwarf import attributes, lost_bits
from lbtrace.recognize.view import MemberView, VariantPart

if TYPE_CHECKING:
    from lbtrace.recognize.view import Encoding, FormOfType

ATE_BOOLEAN, ATE_COMPLEX, ATE_FLOAT, ATE_SIGNED, ATE_SIGNED_CHAR = 2, 3, 4, 5, 6
ATE_UNSIGNED, ATE_UNSIGNED_CHAR, ATE_UTF = 7, 8, 0x10
INTEGERS = frozenset({ATE_SIGNED, ATE_UNSIGNED})
CHARACTERS = frozenset({ATE_SIGNED_CHAR, ATE_UNSIGNED_CHAR, ATE_UTF})

ENCODINGS: dict[int, Encoding] = {
    ATE_BOOLEAN: "boolean",
    ATE_COMPLEX: "complex",
    ATE_FLOAT: "float",
    ATE_SIGNED: "signed",
    ATE_SIGNED_CHAR: "signed character",
    ATE_UNSIGNED: "unsigned",
    ATE_UNSIGNED_CHAR: "unsigned character",
    ATE_UTF: "character",
}

FORMS: dict[str, FormOfType] = {
    "DW_TAG_base_type": "base",
    "DW_TAG_enumeration_type": "enumeration",
    "DW_TAG_array_type": "array",
    attributes.MEMBER_POINTER: "member pointer",
    **dict.fromkeys(attributes.POINTERS, "pointer"),
    **dict.fromkeys(attributes.RECORDS, "record"),
}

WORD = 8
"""Bytes of a pointer."""

REFERENCES = frozenset({"DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"})

PACK = "DW_TAG_GNU_template_parameter_pack"


class UnitViews:
    """What is the same of all types of a compilation unit: its ``language``, what writes the
    name of an entry, whether a long double is one of the x87, and whether the compiler
    ``loses_bits`` of bit fields (`lbtrace.dwarf.lost_bits`). What constants are ``qualified`` by is
    looked for only where that is asked for."""

    def __init__(
        self,
        write: Callable[[Any], str],
        language: str,
        *,
        x87: bool,
        loses_bits: bool = False,
        qualified: bool = False,
    ) -> None:
        self.qualified = qualified
        self.write, self.language, self.x87, self.loses_bits = write, language, x87, loses_bits


class DieView:
    """A type that ``die``, an entry of debug information, describes: a `View`."""

    __slots__ = ("_bare", "_die", "_source")

    def __init__(self, die: Any, source: UnitViews) -> None:
        self._die, self._source = die, source
        self._bare = attributes.bare(die)

    @property
    def key(self) -> int:
        return int(self._die.offset)

    @property
    def form(self) -> FormOfType:
        if self._bare is None:
            return "nothing"
        if attributes.is_nullptr(self._bare) or self._is_transparent_pointer():
            return "pointer"
        return FORMS.get(self._bare.tag, "other")

    def _is_transparent_pointer(self) -> bool:
        """Whether callers pass a pointer, as to ``connect``: its size tells, as is usual."""
        is_word = self._source.language == "c" and attributes.size_of(self._bare) == WORD
        return is_word and attributes.is_transparent(self._bare)

    @property
    def name(self) -> str:
        return attributes.text(self._bare, "DW_AT_name")

    @property
    def written(self) -> str:
        return self._source.write(self._die)

    @property
    def size(self) -> int:
        return attributes.size_of(self._die)

    @property
    def is_sized(self) -> bool:
        if self.size or self._bare is None:
            return self.size > 0
        if self._bare.tag == "DW_TAG_array_type":
            return None not in self.counts and self.target is not None and self.target.is_sized
        return "DW_AT_byte_size" in self._bare.attributes

    @property
    def definition(self) -> DieView | None:
        if "DW_AT_declaration" not in self._bare.attributes:
            return None
        from lbtrace.dwarf.definitions import find_definition  # imported here: most are defined

        found = find_definition(self._bare)
        return None if found is None else DieView(found, self._source)

    @property
    def alignment(self) -> int:
        return attributes.alignment(self._die)

    @property
    def language(self) -> str:
        return self._source.language

    @property
    def encoding(self) -> Encoding:
        return ENCODINGS.get(attributes.number(self._bare, "DW_AT_encoding", 0), "")

    @property
    def is_x87(self) -> bool:
        wide = self.size == (32 if self.encoding == "complex" else 16)
        return self._source.x87 and wide and "128" not in self.written

    @property
    def is_reference(self) -> bool:
        if self._source.language == "rust":
            return self.name.startswith("&")
        return self._bare.tag in REFERENCES

    @property
    def leads_to_code(self) -> bool:
        plain = self._bare.tag in ("DW_TAG_pointer_type", attributes.MEMBER_POINTER)
        return plain and attributes.leads_to_code(self._bare)

    @property
    def is_polymorphic(self) -> bool:
        return self._source.language == "c++" and self._bare.has("DW_AT_containing_type")

    @property
    def target(self) -> DieView | None:
        target = attributes.type_of(self._bare)
        return None if target is None else DieView(target, self._source)

    @property
    def counts(self) -> Sequence[int | None]:
        if "DW_AT_GNU_vector" in self._bare.attributes:
            return ()
        return attributes.counts(self._bare)

    @property
    def is_open(self) -> bool:
        return attributes.is_open(self._bare)

    @property
    def constants(self) -> Iterator[tuple[int, str]]:
        for child in self._bare.iter_children():
            if child.tag == "DW_TAG_enumerator":
                number = attributes.number(child, "DW_AT_const_value", 0)
                yield number, attributes.text(child, "DW_AT_name")

    @property
    def constant_scopes(self) -> Sequence[str]:
        if not self._source.qualified:
            return ()
        from lbtrace.dwarf.enclosing import constant_scopes  # imported here: it is seldom asked for

        return constant_scopes(self._die)

    @property
    def members(self) -> Iterator[MemberView]:
        misplaced = lost_bits.find_misplaced(self._bare) if self._source.loses_bits else ()
        for child in self._bare.iter_children():
            if child.tag == "DW_TAG_variant_part":
                yield MemberView("", self, 0, placed=False)
            elif child.tag in ("DW_TAG_member", "DW_TAG_inheritance"):
                if "DW_AT_external" in child.attributes or "DW_AT_declaration" in child.attributes:
                    continue  # a static member
                part = self._part(child)
                lost = child.offset in misplaced
                yield part._replace(unknown=lost_bits.MISPLACED) if lost else part

    def _part(self, die: Any) -> MemberView:
        name, base = attributes.text(die, "DW_AT_name"), die.tag == "DW_TAG_inheritance"
        view = DieView(attributes.type_of(die), self._source)
        if not attributes.is_plain(die):
            return MemberView(name, view, 0, is_base=base, placed=False)
        bits = attributes.number(die, "DW_AT_bit_size", 0)
        first = attributes.first_bit(die) if bits else 0
        return MemberView(name, view, attributes.member_offset(die), first, bits, base)

    @property
    def arguments(self) -> Sequence[DieView]:
        return [*self._arguments(self._bare)]

    def _arguments(self, die: Any) -> Iterator[DieView]:
        for child in die.iter_children():
            if child.tag == "DW_TAG_template_type_parameter":
                yield DieView(attributes.type_of(child), self._source)
            elif child.tag == PACK:
                yield from self._arguments(child)

    @property
    def variants(self) -> VariantPart | None:
        part = next((c for c in self._bare.iter_children() if c.tag == "DW_TAG_variant_part"), None)
        if part is None:
            return None
        at, width = -1, 0
        if "DW_AT_discr" in part.attributes:
            member = part.get_DIE_from_attribute("DW_AT_discr")
            at = attributes.member_offset(member)
            width = attributes.size_of(attributes.type_of(member))
        cases: list[tuple[str, int | None, DieView]] = []
        for variant in part.iter_children():
            if variant.tag != "DW_TAG_variant":
                continue
            field = next((c for c in variant.iter_children() if c.tag == "DW_TAG_member"), None)
            if field is None or "DW_AT_discr_list" in variant.attributes:
                return VariantPart(at, width, (), whole=False)
            known = variant.attributes.get("DW_AT_discr_value")
            number = _number(known.value) if known else None
            view = DieView(attributes.type_of(field), self._source)
            cases.append((attributes.text(field, "DW_AT_name"), number, view))
        return VariantPart(at, width, cases)


def _number(constant: Any) -> int:
    """A constant, of which those of sixteen bytes are blocks."""
    return constant if isinstance(constant, int) else int.from_bytes(bytes(constant), "little")

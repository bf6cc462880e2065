"""Debugging information entries: attributes in the forms that DWARF 2 to 5 give them.

Sources: DWARF 5, chapter 7; DWARF 3, section 5.6.6 for older members and bit fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lbtrace.dwarf.languages import FORTRAN, language_of

DEPTH = 32
"""References followed before a type counts as damaged."""

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
RECORDS = frozenset({"DW_TAG_structure_type", "DW_TAG_union_type", "DW_TAG_class_type"})

DW_OP_PLUS_UCONST = 0x23
POINTER_SIZE = 8
DW_ATE_COMPLEX_FLOAT = 3


def text(die: Any, name: str) -> str:
    """Return a string attribute, or ``""``."""
    attribute = die.attributes.get(name)
    if attribute is None or not isinstance(attribute.value, bytes):
        return ""
    return attribute.value.decode("utf-8", "backslashreplace")


def number(die: Any, name: str, default: int) -> int:
    """Return a constant attribute, or ``default``."""
    attribute = die.attributes.get(name)
    return attribute.value if attribute and isinstance(attribute.value, int) else default


def type_of(die: Any) -> Any:
    """Return the entry that ``DW_AT_type`` refers to; None for void."""
    if "DW_AT_type" not in die.attributes:
        return None
    target = die.get_DIE_from_attribute("DW_AT_type")
    # A declaration may say which type unit has the whole type.
    whole = "DW_AT_signature" not in target.attributes
    return target if whole else target.get_DIE_from_attribute("DW_AT_signature")


def bare(die: Any) -> Any:
    """Return ``die`` without typedefs and qualifiers; None is void."""
    for _ in range(DEPTH):
        if die is None or die.tag not in TRANSPARENT:
            return die
        die = type_of(die)
    raise ValueError("types refer to each other in a circle")


NAMESPACES = frozenset({"DW_TAG_namespace", "DW_TAG_module"})
"""Entries that contain functions and variables, but for nested ones, members and closures."""

LINKAGE = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name")

ORIGINS = ("DW_AT_abstract_origin", "DW_AT_specification")


def linkage_name(chain: Iterable[Any]) -> str:
    """Return the name that a function or variable with these entries has in symbols, or ``""``."""
    names = (text(die, name) for die in chain for name in LINKAGE)
    return next(filter(None, names), "")


def origins(die: Any) -> list[Any]:
    """Return ``die`` and what it refers to as its origin or its declaration, in order."""
    found = [die]
    while len(found) < DEPTH:
        reference = next((name for name in ORIGINS if found[-1].has(name)), None)
        if reference is None:
            break
        found.append(found[-1].get_DIE_from_attribute(reference))
    return found


MEMBER_POINTER = "DW_TAG_ptr_to_member_type"
"""To data the offset of a member, to a function its address and what is added to
``this`` (Itanium C++ ABI, 2.3)."""


def size_of(die: Any, depth: int = DEPTH) -> int:
    """Return the size of a type in bytes; 0 where it has none."""
    plain = bare(die)
    if plain is None or not depth:
        return 0
    if plain.tag == "DW_TAG_array_type" and "DW_AT_byte_size" not in plain.attributes:
        return (count(plain) or 0) * size_of(type_of(plain), depth - 1)
    if plain.tag == MEMBER_POINTER:
        return 2 * POINTER_SIZE if leads_to_code(plain) else POINTER_SIZE
    is_address = plain.tag in POINTERS or is_nullptr(plain)
    return POINTER_SIZE if is_address else number(plain, "DW_AT_byte_size", 0)


def is_transparent(bare: Any) -> bool:
    """Return whether a type of C is a union with ``transparent_union``, as gcc describes it where
    the typedef has the attribute: without the members, as which callers pass their arguments."""
    is_union = bare.tag == "DW_TAG_union_type" and "DW_AT_declaration" not in bare.attributes
    return is_union and size_of(bare) > 0 and next(bare.iter_children(), None) is None


def is_nullptr(die: Any) -> bool:
    """Return whether a type is that of ``nullptr``: an address to those who pass it, without a
    size in debug information."""
    return die.tag == "DW_TAG_unspecified_type" and "nullptr" in text(die, "DW_AT_name")


def alignment(die: Any) -> int:
    """Return the alignment that the layout of a type of C suggests: 1 of what is evidently
    packed."""
    return _alignment(die, DEPTH, {})


def _alignment(die: Any, depth: int, known: dict[int, int]) -> int:
    """``known`` are those of records by their offsets: each is looked at once."""
    plain = bare(die)
    if plain is None or not depth:
        return 1
    if plain.tag == "DW_TAG_array_type":
        return _alignment(type_of(plain), depth - 1, known)
    size = size_of(plain)
    if plain.tag not in RECORDS:
        parts = 2 if number(plain, "DW_AT_encoding", 0) == DW_ATE_COMPLEX_FLOAT else 1
        return max(1, POINTER_SIZE if plain.tag == MEMBER_POINTER else size // parts)
    if plain.offset not in known:
        known[plain.offset] = _alignment_of_record(plain, size, depth, known)
    return known[plain.offset]


def _alignment_of_record(record: Any, size: int, depth: int, known: dict[int, int]) -> int:
    largest = 1
    for member in record.iter_children():
        if member.tag in ("DW_TAG_member", "DW_TAG_inheritance") and is_placed(member):
            own = _alignment(type_of(member), depth - 1, known)
            if member_offset(member) % own:
                return 1
            largest = max(largest, own)
    return 1 if size % largest else largest


def is_placed(member: Any) -> bool:
    """Return whether a member lies in every object of its record, in bytes of its own."""
    absent = ("DW_AT_external", "DW_AT_declaration", "DW_AT_bit_size")
    return is_plain(member) and not any(name in member.attributes for name in absent)


def leads_to_code(pointer: Any) -> bool:
    """Return whether what a pointer leads to is a function."""
    target = bare(type_of(pointer))
    return target is not None and target.tag == "DW_TAG_subroutine_type"


UNBOUNDED = -2

BEFORE_FIRST = (1 << 64) - 1
"""What g++ gives as the upper bound of an array without elements: -1, in a form without a sign."""


def counts(array: Any) -> list[int | None]:
    """Return the number of elements in each dimension; None where it has no fixed bound. Fortran
    counts from 1, and its first dimension is the innermost."""
    found: list[int | None] = []
    fortran = _is_fortran(array)
    for child in array.iter_children():
        if child.tag != "DW_TAG_subrange_type":
            continue
        each = number(child, "DW_AT_count", -1)
        if each < 0:
            last = number(child, "DW_AT_upper_bound", UNBOUNDED)
            first = number(child, "DW_AT_lower_bound", int(fortran))
            each = 0 if last == BEFORE_FIRST else last + 1 - (first if last >= first else 0)
        found.append(each if each >= 0 else None)
    return found[::-1] if fortran else found


def _is_fortran(die: Any) -> bool:
    unit = getattr(die, "unit", None)  # pyelftools' entries, which are Go's, have none
    return unit is not None and language_of(unit.root) in FORTRAN


def is_open(array: Any) -> bool:
    """Return whether an array is declared without a bound: ``int v[]``, at the end of a struct."""
    first = next((c for c in array.iter_children() if c.tag == "DW_TAG_subrange_type"), None)
    bounds = ("DW_AT_count", "DW_AT_upper_bound")
    return first is not None and not any(name in first.attributes for name in bounds)


def count(array: Any) -> int | None:
    """Return the number of elements of an array; None where it has no fixed bound."""
    total = 1
    for each in counts(array):
        if each is None:
            return None
        total *= each
    return total


def is_plain(member: Any) -> bool:
    """Return whether a member lies at a constant offset; a virtual base does not."""
    at = member.attributes.get("DW_AT_data_member_location")
    return at is None or isinstance(at.value, int) or at.value[:1] == [DW_OP_PLUS_UCONST]


def member_offset(member: Any) -> int:
    """Return the offset of a member in bytes."""
    at = member.attributes.get("DW_AT_data_member_location")
    if at is None:
        return 0
    if isinstance(at.value, int):
        return at.value
    # DWARF 2 writes the offset as an expression: DW_OP_plus_uconst and a ULEB128.
    return sum((byte & 0x7F) << 7 * n for n, byte in enumerate(at.value[1:]))


def first_bit(member: Any) -> int:
    """Return the offset of a bit field's lowest bit from the start of its record."""
    from_start = number(member, "DW_AT_data_bit_offset", -1)
    if from_start >= 0:
        return from_start
    # DWARF 2 and 3 count from the highest bit of the storage unit.
    storage = number(member, "DW_AT_byte_size", 0) or size_of(type_of(member))
    above = number(member, "DW_AT_bit_offset", 0)
    if above >> 63:  # of a packed record: clang writes a negative one as eight bytes
        above -= 1 << 64
    return 8 * (member_offset(member) + storage) - above - number(member, "DW_AT_bit_size", 0)


def has_types(die: Any) -> bool:
    """Return whether something in ``die`` has a type; functions are not searched."""
    for child in die.iter_children():
        if "DW_AT_type" in child.attributes or child.tag == "DW_TAG_imported_unit":
            return True
        inside = child.tag in ("DW_TAG_namespace", "DW_TAG_module", *RECORDS)
        if inside and has_types(child):
            return True
        if child.tag == "DW_TAG_subprogram" and any(
            "DW_AT_type" in part.attributes for part in child.iter_children()
        ):
            return True
    return False

"""Whether a record is passed by its bytes, inferred from its members.

A C++ class is passed as a pointer to it if its copy or move constructor or its
destructor is not trivial (Itanium C++ ABI, section 3.1.2.3). DWARF lists the
member functions that are declared, and marks those artificial that the compiler
added because something uses them.
"""

from __future__ import annotations

from typing import Any

from lbtrace.dwarf import attributes

REFERENCES = ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
MEMBERS = ("DW_TAG_member", "DW_TAG_inheritance")
TEMPLATE_PARAMETERS = frozenset(
    {
        "DW_TAG_template_type_parameter",
        "DW_TAG_template_value_parameter",
        "DW_TAG_GNU_template_parameter_pack",
    }
)

DW_DEFAULTED_IN_CLASS = 1


def is_trivial(
    record: Any, depth: int = attributes.DEPTH, *, marks_defaulted: bool = True
) -> bool | None:
    """Return whether ``record`` is passed by its bytes; None where that is unknown. The
    compiler ``marks_defaulted`` member functions, as newer versions of gcc; others say nothing."""
    if not depth or "DW_AT_declaration" in record.attributes:
        return None
    verdict: bool | None = True
    for child in record.iter_children():
        found: bool | None = True
        if child.tag == "DW_TAG_subprogram":
            found = _leaves_trivial(child, record, marks_defaulted=marks_defaulted)
        elif child.tag in MEMBERS:
            if "DW_AT_external" in child.attributes or "DW_AT_declaration" in child.attributes:
                continue
            if not attributes.is_plain(child) or "DW_AT_virtuality" in child.attributes:
                return False
            held = _record_in(child)
            if held is not None:
                found = is_trivial(held, depth - 1, marks_defaulted=marks_defaulted)
        if found is False:
            return False
        if found is None:
            verdict = None
    return verdict


def _list_records(record: Any) -> list[Any]:
    """The records of which a record consists, each once."""
    found: dict[int, Any] = {}
    waiting = [record]
    while waiting:
        for member in waiting.pop().iter_children():
            held = _record_in(member) if member.tag in MEMBERS else None
            if held is not None and held.offset not in found:
                found[held.offset] = held
                waiting.append(held)
    return list(found.values())


def _record_in(member: Any) -> Any:
    """The record that a member is, or an array of which it is; else None."""
    target = _element(member)
    return target if target is not None and target.tag in attributes.RECORDS else None


def _element(member: Any) -> Any:
    """The type of a member, or of the elements of the array that it is."""
    target = attributes.bare(attributes.type_of(member))
    for _ in range(attributes.DEPTH):
        if target is None or target.tag != "DW_TAG_array_type":
            break
        target = attributes.bare(attributes.type_of(target))
    return target


def _leaves_trivial(function: Any, record: Any, *, marks_defaulted: bool) -> bool | None:
    """What a member function says: a virtual one brings a hidden pointer to copy."""
    if "DW_AT_virtuality" in function.attributes:
        return False
    destroys = attributes.text(function, "DW_AT_name").startswith("~")
    if not destroys and not _copies(function, record):
        return True
    if "DW_AT_deleted" in function.attributes:
        return None
    if "DW_AT_artificial" in function.attributes:
        # That of the compiler is trivial if those are that it calls for the members.
        return True if destroys or not _prefers_templates(record) else None
    defaulted = attributes.number(function, "DW_AT_defaulted", 0) == DW_DEFAULTED_IN_CLASS
    return True if defaulted else False if marks_defaulted else None


def _prefers_templates(record: Any) -> bool:
    """Whether something within a record may be copied or moved by a template, which is preferred to
    a trivial constructor that fits less."""
    return any(
        child.tag == "DW_TAG_subprogram" and _is_preferred(child, held)
        for held in _list_records(record)
        for child in held.iter_children()
    )


def _is_preferred(function: Any, record: Any) -> bool:
    tags = {child.tag for child in function.iter_children()}
    if not tags & TEMPLATE_PARAMETERS or not _constructs(function, record):
        return False
    return "DW_TAG_GNU_template_parameter_pack" in tags or _takes_own(function, record)


def _copies(function: Any, record: Any) -> bool:
    """Whether this is a copy or move constructor, which templates never are ([class.copy.ctor])."""
    if not _constructs(function, record) or not _takes_own(function, record):
        return False
    return all(child.tag not in TEMPLATE_PARAMETERS for child in function.iter_children())


def _constructs(function: Any, record: Any) -> bool:
    """Whether this is a constructor. A class without a name, as of lambdas, has only artificial
    ones, under any name."""
    name = attributes.text(function, "DW_AT_name")
    if own := attributes.text(record, "DW_AT_name").split("<")[0]:
        return name.split("<", maxsplit=1)[0] == own
    return "DW_AT_artificial" in function.attributes and not name.startswith("operator")


def _takes_own(function: Any, record: Any) -> bool:
    """Whether the first parameter refers to an object of ``record``."""
    declared = (
        child
        for child in function.iter_children()
        if child.tag == "DW_TAG_formal_parameter" and "DW_AT_artificial" not in child.attributes
    )
    first = next(declared, None)
    target = None if first is None else attributes.type_of(first)
    if target is None or target.tag not in REFERENCES:
        return False
    referred = attributes.bare(attributes.type_of(target))
    return referred is not None and referred.offset == record.offset

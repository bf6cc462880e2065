"""Whether a C++ class is passed in registers, inferred from its members.

A class is passed as a pointer to it if its copy or move constructor or its
destructor is not trivial (Itanium C++ ABI, section 3.1.2.3). DWARF lists the
member functions that are declared; a compiler that adds one itself marks it
artificial, and then nothing is certain.
"""

from __future__ import annotations

from typing import Any

from lbtrace.dwarf import attributes

REFERENCES = ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")


def is_trivial(record: Any, depth: int = attributes.DEPTH) -> bool | None:
    """Return whether ``record`` is passed by its bytes; None where that is unknown."""
    if not depth or "DW_AT_declaration" in record.attributes:
        return None
    verdict: bool | None = True
    for child in record.iter_children():
        found: bool | None = True
        if child.tag == "DW_TAG_subprogram":
            found = _leaves_trivial(child, record)
        elif child.tag in ("DW_TAG_member", "DW_TAG_inheritance"):
            if "DW_AT_external" in child.attributes or "DW_AT_declaration" in child.attributes:
                continue
            if not attributes.is_plain(child) or "DW_AT_virtuality" in child.attributes:
                return False
            found = _member(child, depth)
        if found is False:
            return False
        if found is None:
            verdict = None
    return verdict


def _member(member: Any, depth: int) -> bool | None:
    target = attributes.bare(attributes.type_of(member))
    for _ in range(attributes.DEPTH):
        if target is None or target.tag != "DW_TAG_array_type":
            break
        target = attributes.bare(attributes.type_of(target))
    if target is None or target.tag not in attributes.RECORDS:
        return True
    return is_trivial(target, depth - 1)


def _leaves_trivial(function: Any, record: Any) -> bool | None:
    """What a member function says: a virtual one brings a hidden pointer to copy."""
    if "DW_AT_virtuality" in function.attributes:
        return False
    name = attributes.text(function, "DW_AT_name")
    if not name.startswith("~") and not _copies(function, name, record):
        return True
    if "DW_AT_artificial" in function.attributes or "DW_AT_deleted" in function.attributes:
        return None
    return "DW_AT_defaulted" in function.attributes


def _copies(function: Any, name: str, record: Any) -> bool:
    """Whether this is a copy or move constructor."""
    own = attributes.text(record, "DW_AT_name").split("<")[0]
    if not own or name.split("<", maxsplit=1)[0] != own:
        return False
    declared = [
        child
        for child in function.iter_children()
        if child.tag == "DW_TAG_formal_parameter" and "DW_AT_artificial" not in child.attributes
    ]
    if not declared:
        return False
    target = attributes.type_of(declared[0])
    if target is None or target.tag not in REFERENCES:
        return False
    referred = attributes.bare(attributes.type_of(target))
    return referred is not None and referred.offset == record.offset

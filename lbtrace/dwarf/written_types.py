"""Types as the source writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lbtrace.dwarf import attributes

KEYWORDS = {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
    "DW_TAG_enumeration_type": "enum",
    "DW_TAG_class_type": "class",
}


class Writer:
    """Writes types of a language, which `lbtrace.recognize.view.View` names; those of C++ as people
    do, unless ``full_names``."""

    def __init__(self, language: str, *, full_names: bool) -> None:
        self._is_c = language == "c"
        self._shorten: Callable[[str], str] = str
        if language == "c++" and not full_names:
            from lbtrace.elf import cpp_names  # imported here because many programs are not C++

            self._shorten = cpp_names.shorten_unqualified

    def write(self, die: Any) -> str:
        """Return the C declaration of a type, without a declarator."""
        return self._name(die, "", attributes.DEPTH)

    def _name(self, die: Any, inner: str, depth: int) -> str:  # noqa: PLR0911 - a return for each case
        """The C declaration of ``die`` around the declarator ``inner``."""
        if not depth:
            return "?"
        if die is None:
            return _join("void", inner)
        own = attributes.text(die, "DW_AT_name")
        if own:
            keyword = KEYWORDS.get(die.tag, "") if self._is_c else ""
            return _join(_join(keyword, self._shorten(own)), inner)
        target = attributes.type_of(die)
        if die.tag in attributes.POINTERS:
            inner = attributes.POINTERS[die.tag] + inner
            if target is not None and target.tag in ("DW_TAG_subroutine_type", "DW_TAG_array_type"):
                inner = f"({inner})"
            return self._name(target, inner, depth - 1)
        if die.tag == attributes.MEMBER_POINTER:
            of = die.get_DIE_from_attribute("DW_AT_containing_type")
            inner = f"{self._name(of, '', depth - 1)}::*{inner}"
            inner = f"({inner})" if attributes.leads_to_code(die) else inner
            return self._name(target, inner, depth - 1)
        if die.tag in attributes.QUALIFIERS:
            qualifier = attributes.QUALIFIERS[die.tag]
            if target is not None and target.tag in attributes.POINTERS:
                return self._name(target, _join(qualifier, inner), depth - 1)
            return _join(qualifier, self._name(target, inner, depth - 1))
        if die.tag == "DW_TAG_subroutine_type":
            return self._name(target, f"{inner}({self._parameters(die, depth)})", depth - 1)
        if die.tag == "DW_TAG_array_type":
            counts = attributes.counts(die)
            shown = "".join(f"[{'' if count is None else count}]" for count in counts)
            return self._name(target, f"{inner}{shown or '[]'}", depth - 1)
        keyword = KEYWORDS.get(die.tag, "")
        return _join(f"{keyword} {{…}}" if keyword else "?", inner)

    def _parameters(self, die: Any, depth: int) -> str:
        names = []
        for child in die.iter_children():
            if (
                child.tag == "DW_TAG_formal_parameter"
                and "DW_AT_artificial" not in child.attributes
            ):
                names.append(self._name(attributes.type_of(child), "", depth - 1))
            elif child.tag == "DW_TAG_unspecified_parameters":
                names.append("...")
        empty = "void" if "DW_AT_prototyped" in die.attributes and self._is_c else ""
        return ", ".join(names) or empty


def _join(left: str, right: str) -> str:
    return f"{left} {right}" if left and right else left or right

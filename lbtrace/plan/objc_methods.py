"""The symbols of Objective-C's methods by their names in the source.

Debug information and debuggers write ``-[Class method:]``, ``+[Class method:]`` of one of the
class, and ``-[Class(Category) method:]``. Sources: ``objc_build_internal_instname`` and the like
of gcc (objc-gnu-runtime-abi-01.cc), ``SymbolNameForMethod`` of clang (CGObjCGNU.cpp).
"""

from __future__ import annotations

import re

METHOD = re.compile(r"([-+])\[([\w*?]+)(?:\(([\w*?]*)\))?\s+([\w:*?]+)\]")
SELECTOR = re.compile(r"\w+:(?:\w*:)*")

LETTERS = {"-": "i", "+": "c"}


def find_symbol(pattern: str) -> str:
    """Return the symbol of the method that ``pattern`` names, or a pattern for the symbols of
    several; empty if it names none."""
    found = METHOD.fullmatch(pattern)
    if found is None:
        return ""
    sign, owner, category, selector = found.groups("")
    return f"_{LETTERS[sign]}_{owner}_{category}_{_flatten(selector)}"


def find_part(pattern: str) -> str:
    """Return what the symbols of methods hold that have this selector, such as ``add:to:``; of
    other patterns themselves."""
    if SELECTOR.fullmatch(pattern):
        return f"_{_flatten(pattern)}"
    return find_symbol(pattern) or pattern


def _flatten(selector: str) -> str:
    return selector.replace(":", "_")

"""What was meant by a pattern that matches no function as it stands: a declaration as a language
writes it, or several names in one."""

from __future__ import annotations

import re
from collections.abc import Callable

from lbtrace.errors import option

_DECLARATION = re.compile(
    r"(?:.*[\s*&])?(?P<name>[\w:~.$]+)\s*(?:<[^()]*>\s*)?\(.*\)(?:[\s\w&]|->)*[;:{]?\s*", re.DOTALL
)
_PREFIXED = re.compile(r"[\w:<>,\s*&]*[\s*&](?P<name>[\w:~.$]+)\s*;?\s*")
"""A name behind its type, or behind the word that defines it: ``static int f``, ``func main.f``."""
_SEPARATOR = re.compile(r"[\s,;|]+")
_NAME = re.compile(r"[\w:~.$*?@]+")


def advise(pattern: str, asked: str, matches: Callable[[str], bool]) -> str:
    """Return what to write instead of ``pattern``, a value of the option ``asked``; empty where
    that is not clear. ``matches`` tells whether a pattern matches anything."""
    names = [name for name in _SEPARATOR.split(pattern) if name]
    known = [name for name in names if _NAME.fullmatch(name) and matches(name)]
    if len(known) > 1 and all(map(_NAME.fullmatch, names)):
        return f"write {option(asked)} once for each: {', '.join(known)}"
    for form in (_DECLARATION, _PREFIXED):
        declared = form.fullmatch(pattern)
        if declared and declared["name"] != pattern and matches(declared["name"]):
            return f"give the name alone: {option(asked, declared['name'])}"
    if len(known) == 1 and all(map(_NAME.fullmatch, names)):
        return f"only {known[0]} matches: {option(asked, known[0])}"
    return ""

"""What was meant by a pattern that matches no function as it stands: a declaration as C writes it,
or several names in one."""

from __future__ import annotations

import re
from collections.abc import Callable

from lbtrace.errors import option

_DECLARATION = re.compile(r"(?:.*[\s*&])?(?P<name>[\w:~.$]+)\s*\(.*\)[\s\w&]*;?", re.DOTALL)
_SEPARATOR = re.compile(r"[\s,;|]+")
_NAME = re.compile(r"[\w:~.$*?@]+")


def advise(pattern: str, asked: str, matches: Callable[[str], bool]) -> str:
    """Return what to write instead of ``pattern``, a value of the option ``asked``; empty where
    that is not clear. ``matches`` tells whether a pattern matches anything."""
    declared = _DECLARATION.fullmatch(pattern)
    if declared and declared["name"] != pattern and matches(declared["name"]):
        return f"give the name alone: {option(asked, declared['name'])}"
    names = [name for name in _SEPARATOR.split(pattern) if name]
    if len(names) > 1 and all(map(_NAME.fullmatch, names)) and any(map(matches, names)):
        return f"write {option(asked)} once for each: {', '.join(names)}"
    return ""

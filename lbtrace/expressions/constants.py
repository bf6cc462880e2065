"""Constants of enumerations, by name: ``GREEN``, or ``Color::GREEN`` as C++ and Rust write it.

A name may be qualified by as much of what an enumeration lies in as one likes: ``Color::GREEN``
fits ``ns::Color`` as well, but ``ns::Color::GREEN`` not a ``Color`` outside of ``ns``, and
``::Color::GREEN`` none that lies in anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lbtrace.expressions.tree import ExpressionError
from lbtrace.model import Type

LISTED = 8
"""Constants that an error lists."""


def find_constants(name: str, types: Iterable[Type]) -> dict[int, str]:
    """Return the numbers that ``name`` stands for in those of ``types`` that have it, each with the
    whole name that it has there."""
    scope, last = _split(name)
    found: dict[int, str] = {}
    for type in types:
        value = next((value for value, known in type.constants() if known == last), None)
        if value is not None and _is_of(type, scope):
            found.setdefault(value, _whole_name(type, last))
    return found


def ambiguous_constant(at: int, name: str, found: Mapping[int, str]) -> ExpressionError:
    """Return what is wrong with a ``name`` that stands for several numbers."""
    what = f"{name} is {' or '.join(map(str, found))}, as enumerations here differ"
    ways = [way for way in dict.fromkeys(found.values()) if way != name]
    return ExpressionError(at, what, f"write {' or '.join(ways)}, or the number")


def _whole_name(type: Type, last: str) -> str:
    """A constant of ``type``, qualified by all that this lies in, as far as that is known."""
    if not type.constant_scopes:
        return "::".join([*(type.name.split() or [""])[-1:], last])
    scope = next((each for each in type.constant_scopes if each), "")
    return f"::{scope}::{last}" if scope else f"::{last}"


def unknown_constant(at: int, name: str, type: Type) -> ExpressionError:
    """Return what is wrong with a ``name`` that an enumeration has not."""
    scope, last = _split(name)
    known = [each for _, each in type.constants()]
    whose = type.name.removeprefix("const ") or "this enumeration"
    hint = f"its constants are {_listed(known, last)}"
    if scope is not None and last in known:
        whole = next((f" or {each}::{last}" for each in type.constant_scopes if each), "")
        hint = f"write {last} alone{whole}, if that of {whose} is meant"
    return ExpressionError(at, f"{name} is no constant of {whose}", hint)


def text_for_constant(at: int, text: str, type: Type, *, equality: bool) -> ExpressionError:
    """Return what is wrong where a value of an enumeration is compared with ``text``: by
    ``equality``, or its beginning."""
    known = [each for _, each in type.constants()]
    what = f"this is text, and {type.name or 'the value'} is an enumeration"
    hint = f"its constants, without quotes, are {_listed(known, _split(text)[1])}"
    if not equality:
        hint = f"compare it with == or !=; {hint}"
    elif find_constants(text, [type]):
        hint = f"write {text} without quotes"
    return ExpressionError(at, what, hint)


def _split(name: str) -> tuple[str | None, str]:
    """What qualifies a name, None where nothing does, and the constant."""
    scope, qualified, last = name.rpartition("::")
    return scope if qualified else None, last


def _is_of(type: Type, scope: str | None) -> bool:
    """Whether a constant of ``type`` may be qualified by ``scope``, if by anything."""
    if scope is None:
        return True
    if not type.constant_scopes:  # what the type lies in is not known
        return scope.rpartition("::")[2] == (type.name.split() or [""])[-1]
    whole = [f"::{known}" if known else "" for known in type.constant_scopes]
    if not scope or scope.startswith("::"):
        return scope in whole
    return any(known.endswith(f"::{scope}") for known in whole)


def _listed(known: Iterable[str], wanted: str) -> str:
    """Names of constants, those like the ``wanted`` one first."""
    from difflib import get_close_matches  # imported here because only a wrong name needs it

    folded: dict[str, list[str]] = {}
    for name in known:
        folded.setdefault(name.casefold(), []).append(name)
    near = get_close_matches(wanted.casefold(), folded, LISTED, 0.5)
    names = [name for each in dict.fromkeys([*near, *folded]) for name in folded[each]]
    return ", ".join(names[:LISTED]) + ", …" * (len(names) > LISTED)

"""Checks of what programs in Python pass to lbtrace: each says in a `UsageError` which argument is
wrong and what to give. Bounds are those of the command line."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from lbtrace.errors import UsageError

LARGEST_RING = 1 << 31
"""The kernel takes the size of a map in 32 bits, and of a ring only powers of two."""

LARGEST = 10**9 - 1
"""Of a number: no option has a use for more."""

ARGUMENTS = 64
"""That ``args`` shows at most: four times as many as a probe has room for."""

CALLERS = 127
"""Of a call that are shown at most: one less than the frames of a stack in bpf_src/wire.h."""

POINTERS = 5
"""That ``depth`` follows at most, one after the other."""

SHORTEST = 1e-6
"""Seconds of the shortest trace that ends by the time."""

TEXT = 4095
"""Bytes of a string that are shown at most: a byte less than a large chunk of an event has."""

SHOWN = 60
"""Characters of a wrong value that an error repeats."""


def check_number(name: str, value: object, least: int, most: int = LARGEST) -> int:
    """Return ``value`` as a whole number from ``least`` to ``most``."""
    bounds = f"from {least} to {most:,}" if most != LARGEST else f"from {least} on"
    hint = f"give a whole number {bounds}"
    try:
        number = index(value)  # type: ignore[arg-type]  # it says so
    except TypeError:
        raise wrong_kind(name, value, "a whole number", hint) from None
    if isinstance(value, bool):
        raise wrong_kind(name, value, "a whole number", hint)
    if number < least:
        raise _wrong(name, value, "is too small", hint)
    if number > most:
        raise _wrong(name, value, "is too large", hint)
    return number


def check_pids(value: object) -> tuple[int, ...]:
    """Return the numbers of one process, or of several, each once."""
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    values: Iterable[object] = value if several else [value]  # type: ignore[assignment]  # tested
    pids = [check_number("pid", each, 1) for each in values]
    if not pids:
        raise UsageError("pid is empty", "give the pid of a process")
    return tuple(dict.fromkeys(pids))


def check_boolean(name: str, value: object) -> bool:
    """Return ``value``, which is True or False."""
    if not isinstance(value, bool):
        raise wrong_kind(name, value, "a bool", "give True or False")
    return value


def check_text(
    name: str, value: object, hint: str, *, empty: bool = False, kind: str = "a string"
) -> str:
    """Return ``value``, which is a string, and may be ``empty``. ``kind`` is what it should be."""
    if not isinstance(value, str):
        raise wrong_kind(name, value, kind, hint)
    if not (value or empty):
        raise UsageError(f"{name} is empty", hint)
    if "\0" in value:
        raise _wrong(name, value, "holds a NUL character", hint)
    return value


def check_texts(name: str, value: object, hint: str) -> tuple[str, ...]:
    """Return ``value``, a string or several, as a tuple of strings that are not empty."""
    if isinstance(value, str):
        return (check_text(name, value, hint),)
    several = _check_several(name, value, "a string or a list of strings", hint)
    return tuple(check_text(f"{name}[{n}]", each, hint) for n, each in enumerate(several))


def check_patterns(name: str, value: object, hint: str) -> tuple[str, ...]:
    """Return ``value``, a pattern or several, also with commas between, as a tuple of patterns."""
    return split_listed(check_texts(name, value, hint))


def check_path(name: str, value: object, hint: str) -> str:
    """Return ``value``, a string or an `os.PathLike`, as a string."""
    return check_text(name, _path(value), hint, kind="a path")


def check_paths(name: str, value: object, hint: str) -> tuple[str, ...]:
    """Return ``value``, a path or several, as a tuple of strings."""
    if isinstance(value, str | os.PathLike):
        return (check_path(name, value, hint),)
    several = _check_several(name, value, "a path or a list of paths", hint)
    return tuple(check_path(f"{name}[{n}]", each, hint) for n, each in enumerate(several))


def check_command(value: object) -> tuple[str, ...]:
    """Return ``value`` as the words of a command: its name, and arguments, which may be empty."""
    hint = 'give its words: command=["./prog", "argument"]'
    if isinstance(value, str | os.PathLike):
        what = "is one string, but a command is a list of words"
        raise _wrong("command", value, what, f"{hint}; shlex.split() makes them")
    several = _check_several("command", value, "a list of strings", hint)
    return tuple(
        check_text(f"command[{n}]", _path(word), hint, empty=True) for n, word in enumerate(several)
    )


def check_choice(name: str, value: object, choices: Sequence[str]) -> Any:
    """Return ``value``, which is one of ``choices``."""
    if value in choices:
        return value
    # Imported here because only a mistyped choice needs it.
    from difflib import get_close_matches

    near = get_close_matches(value, choices, 1) if isinstance(value, str) else ()
    hint = f"give one of {', '.join(map(repr, choices))}"
    raise _wrong(name, value, "is unknown", f"the nearest is {near[0]!r}; {hint}" if near else hint)


def check_seconds(name: str, value: object) -> float:
    """Return ``value``, a number of seconds from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise wrong_kind(name, value, "a number of seconds", "give one, such as 0.5")
    if value < 0:
        raise _wrong(name, value, "is negative", "give seconds from 0 on")
    return value


def wrong_kind(name: str, value: object, kind: str, hint: str) -> UsageError:
    """Return the error for a ``value`` that is not what ``kind`` says."""
    return UsageError(f"{name} is {_shorten(value)}, not {kind}", hint)


def _check_several(name: str, value: object, kind: str, hint: str) -> Iterable[object]:
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise wrong_kind(name, value, kind, hint)
    return value


def _path(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _wrong(name: str, value: object, what: str, hint: str) -> UsageError:
    return UsageError(f"{name}={_shorten(value)} {what}", hint)


def _shorten(value: object) -> str:
    shown = repr(value)
    return f"{shown[:SHOWN]}…" if len(shown) > SHOWN else shown


def split_listed(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns of functions, each of several with commas as one of its own. Commas in
    brackets belong to a name, as do those in a regular expression."""
    found: list[str] = []
    for pattern in patterns:
        regex = pattern.startswith("/") and pattern.endswith("/")
        if "," not in pattern or regex or "operator," in pattern:
            found.append(pattern)
            continue
        depth, parts = 0, [""]
        for character in pattern:
            depth += (character in "(<[{") - (character in ")>]}")
            if character == "," and depth <= 0:
                parts.append("")
            else:
                parts[-1] += character
        found += filter(None, map(str.strip, parts))
    return tuple(found)

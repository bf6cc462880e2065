"""Text of others, made fit for a terminal.

Names, values, paths and messages come from files and processes that are not to be
trusted. On a terminal they may move the cursor, change its title, hide or reorder what
is placed beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

_SIMPLE = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\\": r"\\"}

_INVISIBLE = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
"""Characters without a shape of their own that are printable all the same: those of
Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties.txt) that are marks or letters,
and the blank Braille pattern."""


def clean(text: str) -> str:
    """Return ``text`` with every character visible, and none that steers a terminal.

    Control characters (C0, C1, so ESC, CSI, OSC, CR, LF), characters that set the
    direction of writing, invisible, unassigned and private ones are written ``\\x1b``,
    ``\\u202e``, ``\\U000e0001``; bytes that are not UTF-8 (lone surrogates from U+DC80
    on, PEP 383) ``\\xff``. In a text in which something is written so, a backslash is
    ``\\\\``; all other texts stay as they are.
    """
    if is_clean(text):
        return text
    return "".join([visible(char) for char in text])


def is_clean(text: str) -> bool:
    """Return whether `clean` leaves ``text`` as it is."""
    return text.isprintable() and (text.isascii() or not _invisible_finder()(text))


@cache
def _invisible_finder() -> Callable[[str], object]:
    return re.compile(_INVISIBLE).search  # compiled here because most texts are ASCII


def visible(char: str) -> str:
    """Return how `clean` writes one character of a text that cannot stay as it is."""
    if char in _SIMPLE:
        return _SIMPLE[char]
    return char if is_clean(char) else escape(char)


def escape(char: str) -> str:
    """Return the number of a character as C writes it; a byte that is not UTF-8 as itself."""
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def in_quotes(text: str) -> str:
    """Return ``text`` between quotation marks, for a message; as `repr`, but for bytes that are not
    UTF-8, which are written as `clean` does."""
    mark = '"' if "'" in text and '"' not in text else "'"
    return f"{mark}{clean(text)}{mark}"


def shortened(text: str, most: int) -> str:
    """Return ``text`` without its middle where it has more than ``most`` characters."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def to_json(data: Any, **options: Any) -> str:
    """Return ``data`` as JSON (RFC 8259) in ASCII without control characters, DEL included."""
    from json import dumps  # imported here because most commands write none

    return dumps(data, **options).replace("\x7f", "\\u007f")


def some(names: list[str]) -> str:
    """Return the first of ``names``, and how many more there are."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3:,} more" if len(names) > 3 else shown


def counted(number: int, one: str, many: str = "") -> str:
    """Return how many there are, in words: ``1 call``, ``2,000 calls``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(nanoseconds: int) -> str:
    """Return a duration with three significant digits and the unit that suits it."""
    if nanoseconds < 1000:
        return f"{nanoseconds} ns"
    value = float(nanoseconds)
    for unit in ("µs", "ms", "s"):
        value /= 1000
        if value < 999.5 or unit == "s":
            break
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"

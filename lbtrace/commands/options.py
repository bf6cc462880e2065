"""The forms in which options are written: numbers, times, sizes."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def natural(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def whole(text: str) -> int:
    """A whole number from 0 on."""
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def count(text: str) -> int | None:
    """``none`` (0), ``auto`` (None) or a whole number."""
    if text in ("none", "auto"):
        return 0 if text == "none" else None
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"{text!r} is neither a number, nor none, nor auto")
    return int(text)


def seconds(text: str) -> float:
    """A time such as ``10s``, ``500ms``, ``2m`` or plain seconds, in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text)
    if not match:
        raise ArgumentTypeError(f"{text!r} is not a time: write 10s, 500ms or 2m")
    return float(match[1]) * _SECONDS[match[2]]


def size(text: str) -> int:
    """A size such as ``512K``, ``8M`` or plain bytes, in bytes."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        raise ArgumentTypeError(f"{text!r} is not a size: write 512K or 8M")
    return int(match[1]) * _BYTES[match[2]]

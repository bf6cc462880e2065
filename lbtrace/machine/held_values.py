"""What registers hold, as far as a function's code shows."""

from __future__ import annotations

from enum import IntEnum


class Value(IntEnum):
    """What a register holds.

    ``FOREIGN``: what was computed, loaded or copied otherwise. ``ARGUMENT``: what it held at the
    start, for the caller to choose. ``UNKNOWN``: the same of a register that calls preserve, what
    was loaded by it, constants, and what may be the frame's. ``OWN``: what was derived from the
    stack pointer, or loaded from the frame.
    """

    FOREIGN = 0
    ARGUMENT = 1
    UNKNOWN = 2
    OWN = 3

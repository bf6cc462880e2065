"""What decides whether a jump under a probe leaves the function."""

from __future__ import annotations

from msgspec import Struct


class Jump(Struct, frozen=True):
    """Where a jump leads whose target is computed: to what the registers ``base``
    and ``index`` (none where empty) and ``offset`` add up to, the index times
    ``scale``, or, where it ``loads``, to what memory there holds. ``inside`` are
    the addresses in the function, as distances from the jump."""

    base: str = ""
    index: str = ""
    scale: int = 1
    offset: int = 0
    loads: bool = False
    inside: tuple[tuple[int, int], ...] = ()

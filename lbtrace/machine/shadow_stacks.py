"""Stacks that hold return addresses a second time, and which kernels know of them."""

from __future__ import annotations

from msgspec import Struct


class ShadowStacks(Struct, frozen=True):
    """What a processor with shadow stacks has as a ``flag`` in /proc/cpuinfo. From the version
    ``since`` of Linux on programs may use them, and from ``known`` on uretprobes know of them."""

    flag: str
    since: tuple[int, int]
    known: tuple[int, int]

"""The code of a function."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from lbtrace.machine import Machine
from lbtrace.machine.code import Code, Read

BEGINNING = 512
"""Bytes of a function within which it makes its frame and loads its parameters."""


class FunctionBody(Struct, frozen=True):
    """What a step may read.

    ``beginning``: gives the first bytes of the function, so many at most.
    ``read``: reads any code of the file, at an address, of a size.
    """

    machine: Machine
    beginning: Callable[[int], Code]
    read: Read

"""A binary, with what of it is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stubs
from lbtrace.elf.symbols import Symbols
from lbtrace.machine import Machine
from lbtrace.model import Function


class TracedBinary(NamedTuple):
    """A binary, its symbols, its PLT stubs, and the functions selected in it: the addresses of the
    ``outer`` ones below which all others are traced, and of those ``added`` that are traced for no
    other reason."""

    image: Image
    symbols: Symbols
    stubs: Stubs
    functions: Sequence[Function]
    outer: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()


def jumps_away(image: Image, function: Function) -> bool:
    """Return whether ``function`` may be left by a jump, judged by its undecoded bytes."""
    code = image.code(function.address, function.size)
    leads = Machine(image.machine).jump_patterns.jumps(code)
    return any(target is None or not 0 < target < len(code) for target in leads)

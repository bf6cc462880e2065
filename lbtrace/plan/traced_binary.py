"""A binary, with what of it is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stubs
from lbtrace.machine import Machine
from lbtrace.model import Function


class TracedBinary(NamedTuple):
    """A binary, its PLT stubs and the functions selected in it."""

    image: Image
    stubs: Stubs
    functions: Sequence[Function]


def jumps_away(image: Image, function: Function) -> bool:
    """Return whether ``function`` may be left by a jump, judged by its undecoded bytes."""
    code = image.code(function.address, function.size)
    leads = Machine(image.machine).jump_patterns.jumps(code)
    return any(target is None or not 0 < target < len(code) for target in leads)

"""Coroutines that handlers of signals make on stacks of their own.

sigaltstack(2) sets up a stack, and a signal runs a handler there, which keeps where it is by setjmp
and returns. The thread gives the stack up for signals, and a jump goes on there later: so do GNU
Pth, QEMU (util/coroutine-sigaltstack.c) and libco's sjlj.c. By names, this does not differ from a
handler that leaves what has failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from lbtrace.elf import symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError
from lbtrace.plan import hidden_calls, stack_switches
from lbtrace.plan.known_names import SYSTEM

SETTER = "sigaltstack"
"""What sets up such a stack."""

JUMPS = frozenset(stack_switches.JUMPS)
SIGNALS = frozenset({"raise", "kill", "tgkill", "pthread_kill", "sigsuspend", "sigqueue"})
"""What makes a handler run at a known time."""

_WANTED = Wanted({SETTER} | JUMPS | SIGNALS)


def find_jump(image: Image) -> str:
    """Return by what a file may go on with coroutines that it makes so, or ``""``; the C library
    makes none."""
    return image.once(_jump)


def _jump(image: Image) -> str:
    if SYSTEM.match(image.once(Dynamic).soname):
        return ""
    names = {*_names(image)}
    jump = min(names & JUMPS, default="")
    if not jump or names.isdisjoint(SIGNALS):
        return ""
    sets_up = SETTER in names or any(hidden_calls.asked_names(image, (SETTER,)))
    return jump if sets_up else ""


def _names(image: Image) -> Iterator[str]:
    """What a file imports of this, and maybe other names; or a program without a loader has."""
    dynamic = image.once(Dynamic)
    yield from dynamic.imports.wanted(_WANTED)
    if not dynamic.needed and image.has_symbol_table:
        try:
            own = image.once(symbols.read).functions.wanted(_WANTED)
        except BinaryError:
            return
        yield from (name for f in own for name in (f.name, *f.aliases))

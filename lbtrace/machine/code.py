"""Code, and what reading it finds: exits, calls, spills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from lbtrace.model import Fetch, Site


class Code(Struct, frozen=True):
    """The code of a function: ``code`` begins at ``address`` (``offset`` in the file).

    ``limit`` is the address beyond which no probe of it may be placed: its end or the next symbol.
    """

    code: bytes
    address: int
    offset: int
    limit: int


class Call(NamedTuple):
    """What looks like a direct call: where it is, where it returns to, and what it calls."""

    address: int
    after: int
    target: int


CONSTANT = "constant"
"""What takes the place of a register's name where a value is always the same."""

CALLER_STACK = "stack"
"""What takes the place of a register's name where a value is on the stack of the caller."""


class ArgumentStores(Struct, frozen=True):
    """What a function stores in its frame before it branches. ``first`` has for each byte, by its
    distance from the stack pointer at entry, what is stored there first (`find_source`), in order.
    ``bases`` are the distances of the registers by which it is reached."""

    first: Mapping[int, tuple[str, int]]
    bases: Mapping[str, int]

    def find_source(self, base: str, offset: int) -> tuple[str, int]:
        """Return where at entry what is stored first ``offset`` bytes from a register is: the name
        of the register that holds it, and which byte of that it is; `CALLER_STACK` and the
        distance from the stack pointer; `CONSTANT` if it is always the same, or "" if it is
        something else."""
        if base not in self.bases:
            return "", 0
        at = self.bases[base] + offset
        return self.first.get(at) or ((CALLER_STACK, at) if at > 0 else ("", 0))


ExitKind: TypeAlias = Literal["return", "tail"]
"""A return to the caller, or a jump to another function that returns in its place."""


class Origin(NamedTuple):
    """Where what a register holds later is now: in the lowest ``bits`` of a ``register``, to all
    of which ``offset`` is added; or ``on_stack``, ``offset`` bytes from the stack pointer at entry.
    Without a register it is the constant ``offset``. Fewer bits than 64 are extended, by their
    sign if ``signed``."""

    register: str = ""
    offset: int = 0
    bits: int = 64
    signed: bool = False
    on_stack: bool = False

    def after(self, step: Origin | None) -> Origin | None:  # noqa: PLR0911 - a return for each case
        """Return where it is before the instruction by which ``step`` comes into the ``register``;
        None where it is nowhere."""
        if step is None or self == Origin(self.register):
            return step
        if self.bits == 64:  # something is added
            if step.on_stack or step.bits != 64:
                return None
            return step._replace(offset=step.offset + self.offset)
        if not step.register and not step.on_stack:
            low = step.offset & (1 << self.bits) - 1
            negative = self.signed and low >> self.bits - 1
            return Origin(offset=low - (1 << self.bits) if negative else low)
        if step.bits < self.bits:
            return None if step.signed else step
        if step.offset and not step.on_stack:
            return None
        return step._replace(bits=self.bits, signed=self.signed)


class EpilogueEntry(Struct, frozen=True):
    """A ``site`` that the kernel emulates, from which on a function does nothing but return.

    ``origins`` say of the registers that it still writes where there is what they hold at the
    return; None where it is nowhere. It still writes memory if it ``stores``.
    """

    site: Site
    origins: Mapping[str, Origin | None]
    stores: bool


class Exit(Struct, frozen=True):
    """An instruction by which a function is left.

    The stack pointer is there what it was at entry. Each call that returns there passes exactly
    one of ``entries``, exactly once, if there are any. A jump leads to ``target``, 0 where that is
    not known; one through a word of memory has its address in ``slot``.
    """

    kind: ExitKind
    site: Site
    entries: tuple[EpilogueEntry, ...] = ()
    target: int = 0
    slot: int = 0


class Exits(Struct, frozen=True):
    """How a function is left: ``exits``, in the order of their addresses.

    ``hidden`` describes the further exits, which no probe can watch. ``loops_to_entry`` says that a
    jump leads back to the first instruction. ``pads`` are those of the places asked about at which
    it does continue after exceptions.
    """

    exits: tuple[Exit, ...]
    hidden: tuple[str, ...] = ()
    loops_to_entry: bool = False
    pads: tuple[int, ...] = ()


class FloatSpills(Struct, frozen=True):
    """A place after a function's first instructions, and what is known there.

    ``words`` say what fetches the content that registers had at entry, and how many
    of its lowest bytes: integer registers by their name, vector registers as in
    ``float in xmm0``. ``slots`` say which of them lies where in memory, as a distance
    from the stack pointer at entry; ``bases`` are those of what DWARF calls
    registers, by their number, and of `CFA`; ``once`` those of bytes that were written
    exactly once since.
    """

    site: Site
    words: dict[str, tuple[Fetch, int]]
    slots: dict[int, str]
    bases: dict[int, int]
    once: frozenset[int]


Read: TypeAlias = Callable[[int, int], bytes]
"""Reads bytes of a binary: address and size."""


class InferredRegisters(Struct, frozen=True):
    """Values in registers, inferred from the code of a function that does not declare them.

    ``registers`` are those that hold arguments, by the arguments' offsets among
    those that are on the stack or saved there; None where the code does not show it. Then
    ``read_first`` is how many of the convention's integer registers hold arguments, at least.
    ``results`` are the sizes of the results in the first of these, as far as they are known.
    """

    registers: dict[int, str] | None
    read_first: int
    results: tuple[int, ...]

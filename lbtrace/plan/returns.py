"""How the returns of the traced functions are seen, and why that way.

A uretprobe is cheap, but replaces the return address, of which the kernel
keeps at most 64 a thread. Probes on the exits of a function (*sites*) have
neither limit nor effect on the stack, and cost a single-step a return.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from lbtrace.arch import Architecture, Code, Exits
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import SHF_EXECINSTR, Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.errors import UsageError
from lbtrace.model import Function

Returns: TypeAlias = Literal["auto", "uretprobe", "sites", "none"]
"""What the user may ask for."""

KEEP_ADDRESS = frozenset(
    {
        *("setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "vfork", "__vfork"),
        *("getcontext", "swapcontext", "__getcontext", "__swapcontext", "__start_context"),
        *("_start", "_dl_start_user", "__restore_rt", "__restore"),
        *("_dl_runtime_resolve", "_dl_runtime_resolve_fxsave", "_dl_runtime_resolve_xsave"),
        *("_dl_runtime_resolve_xsavec", "_dl_runtime_profile_sse", "_dl_runtime_profile_avx"),
    }
)
"""Functions whose return address must stay what it is: they keep it for
later, or are reached otherwise than by a call, so that something else lies
where it would be."""

Kind: TypeAlias = Literal["uretprobe", "sites", "none"]


class Way(NamedTuple):
    """How the returns of a function are seen, and why; the reason may be empty."""

    kind: Kind
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


GO_STACKS = Way("sites", "Go moves its stacks")
"""The way of all functions of Go."""


class Chooser:
    """Tells the way of each function of an image. ``hazard`` is what forbids
    uretprobes in the processes that run it, or ``""``; ``recursive`` says of
    functions, by address, that they are."""

    def __init__(
        self,
        image: Image,
        table: Symbols,
        wish: Returns,
        hazard: str,
        recursive: Mapping[int, str],
    ) -> None:
        self._image = image
        self._table = table
        self._wish = wish
        self._hazard = hazard
        self._recursive = recursive

    def way(self, function: Function) -> Way:
        """How the returns of ``function`` are seen.

        Raises `UsageError` where what the user asks for would break the program.
        """
        go = self._table.go
        if self._wish == "none":
            return Way("none", "--returns none")
        if go and go.start <= function.address < go.end:
            if self._wish == "uretprobe":
                raise UsageError(
                    f"{function.name}: a uretprobe crashes Go programs, which move their stacks",
                    "leave --returns out, or use --returns sites",
                )
            return GO_STACKS
        if keeps_address(self._image, function):
            kind: Kind = "none" if self._wish == "uretprobe" else "sites"
            return Way(kind, "its return address must stay as it is")
        if self._wish != "auto":
            return Way(self._wish, f"--returns {self._wish}")
        reason = self._hazard or self._recursive.get(function.address, "")
        return Way("sites" if reason else "uretprobe", reason)


def keeps_address(image: Image, function: Function) -> bool:
    """Whether a uretprobe on ``function`` would harm the program."""
    names = (function.name, *function.aliases)
    return function.address == image.entry or not KEEP_ADDRESS.isdisjoint(names)


class ExitPlaces:
    """Where the functions of an image are left."""

    def __init__(self, image: Image, table: Symbols, architecture: Architecture) -> None:
        self._image = image
        self._table = table
        self._finder = architecture.exit_finder()
        self._unwind = Unwind(image)
        self._cold: dict[str, list[Function]] = {}
        for part in table.cold:
            self._cold.setdefault(part.name.partition(".cold")[0], []).append(part)

    def exits(self, function: Function) -> Exits:
        """The exits of ``function``, in its cold parts as well."""
        names = (function.name, *function.aliases)
        parts = [self._code(function.address, function.size or self._room(function.address))]
        parts += [self._code(c.address, c.size) for name in names for c in self._cold.get(name, ())]
        return self._finder.exits(parts, self._unnamed, self.pads(function))

    def pads(self, function: Function) -> list[int]:
        """Where ``function`` goes on after exceptions."""
        names = (function.name, *function.aliases)
        cold = [part.address for name in names for part in self._cold.get(name, ())]
        starts = (function.address, *cold)
        return [pad for start in starts for pad in self._unwind.landing_pads(start)]

    def _code(self, address: int, size: int) -> Code:
        code = self._image.code(address, size)
        return Code(code, address, self._image.offset(address), address + len(code))

    def _unnamed(self, address: int) -> Code | None:
        """Code that no symbol claims: a part that was split off, or a function
        without a name, which returns in the place of the one that jumped to it."""
        cold = _holding(self._table.cold, address)
        if cold is not None:
            return self._code(cold.address, cold.size)
        if _holding(self._table.functions, address) is not None:
            return None
        room = self._room(address)
        return self._code(address, room) if room else None

    def _room(self, address: int) -> int:
        """Bytes from ``address`` to the next symbol or the end of the section, 0 in a PLT."""
        for section in self._image.sections:
            if section.flags & SHF_EXECINSTR and (
                section.address <= address < section.address + section.size
            ):
                if section.name.startswith(".plt"):
                    return 0
                end = min(self._table.following(address), section.address + section.size)
                return end - address
        return 0


def _holding(functions: Sequence[Function], address: int) -> Function | None:
    """The last of ``functions``, which are in order, that begins before ``address``, if
    it reaches that far."""
    index = bisect_right(functions, address, key=lambda f: f.address)
    if not index:
        return None
    function = functions[index - 1]
    return function if address < function.address + max(function.size, 1) else None

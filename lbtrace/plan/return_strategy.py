"""How the returns of each traced function are seen.

Probes on the exits of a function (*sites*) change no stack, whatever the program does. A uretprobe
is cheaper where ``ret`` would be single-stepped, but replaces the return address: it is used only
where the user asks for it (`lbtrace.plan.uretprobe_guard`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import UsageError, option
from lbtrace.model import Function
from lbtrace.model.choices import Returns

Kind: TypeAlias = Literal["uretprobe", "sites", "none"]


class ReturnStrategy(Struct, frozen=True):
    """How the returns of a function are seen, and why; the reason may be empty."""

    kind: Kind
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


KEPT = "its return address must stay as it is"
ASKED_FOR = "asked for"


class StrategyChooser:
    """Chooses the strategy of each function of an image."""

    def __init__(self, image: Image, table: Symbols, returns: Returns) -> None:
        self._image = image
        self._table = table
        self._returns = returns

    def choose(self, function: Function) -> ReturnStrategy:
        """Return how the returns of ``function`` are seen.

        Raises `UsageError` where the user's choice would break the program.
        """
        if self._returns == "none":
            return ReturnStrategy("none", ASKED_FOR)
        if self._returns != "uretprobe":
            return ReturnStrategy("sites")
        from lbtrace.plan.uretprobe_names import keeps_address  # few ask for uretprobes

        go = self._table.go
        if go and go.start <= function.address < go.end:
            raise UsageError(
                f"{function.name}: a uretprobe crashes Go programs, which move their stacks",
                f"leave {option('returns')} out",
            )
        names = (function.name, *function.aliases)
        if function.address == self._image.entry or keeps_address(names):
            return ReturnStrategy("sites", KEPT)
        return ReturnStrategy("uretprobe", ASKED_FOR)

"""The strategy by which the returns of each traced function are seen, and why.

A uretprobe is cheap, but replaces the return address, of which the kernel
keeps at most 64 a thread. Probes on the exits of a function (*sites*) have
neither limit nor effect on the stack, and cost a single-step a return.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import UsageError, option
from lbtrace.model import Function
from lbtrace.plan import hazard_table
from lbtrace.plan.harmless_functions import Verdict
from lbtrace.plan.uretprobe_hazards import Forbidden

Returns: TypeAlias = Literal["auto", "uretprobe", "sites", "none"]
"""What the user may ask for."""

Kind: TypeAlias = Literal["uretprobe", "sites", "none"]


class ReturnStrategy(NamedTuple):
    """How the returns of a function are seen, and why; the reason may be empty."""

    kind: Kind
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


KEPT = "its return address must stay as it is"

ASKED_FOR = "asked for"
"""Why returns are seen in the way that the user chose."""

GO_STACKS = ReturnStrategy("sites", "Go moves its stacks")
"""The strategy of all Go functions."""


class StrategyChooser:
    """Chooses the strategy of each function of an image. ``forbidden`` is what speaks against
    uretprobes in the processes that run it, ``verdicts`` what is known of functions, ``recursive``
    says of functions that they are; both by address."""

    def __init__(
        self,
        image: Image,
        table: Symbols,
        returns: Returns,
        forbidden: Forbidden,
        verdicts: Mapping[int, Verdict],
        recursive: Mapping[int, str],
    ) -> None:
        self._image = image
        self._table = table
        self._returns = returns
        self._forbidden = forbidden
        self._verdicts = verdicts
        self._recursive = recursive

    def choose(self, function: Function) -> ReturnStrategy:
        """Return how the returns of ``function`` are seen.

        Raises `UsageError` where the user's choice would break the program.
        """
        go = self._table.go
        if self._returns == "none":
            return ReturnStrategy("none", ASKED_FOR)
        if go and go.start <= function.address < go.end:
            if self._returns == "uretprobe":
                raise UsageError(
                    f"{function.name}: a uretprobe crashes Go programs, which move their stacks",
                    f"leave {option('returns')} out, or use {option('returns', 'sites')}",
                )
            return GO_STACKS
        verdict = self._verdicts.get(function.address, Verdict())
        if verdict.keeps or keeps_address(self._image, function):
            kind: Kind = "none" if self._returns == "uretprobe" else "sites"
            return ReturnStrategy(kind, verdict.keeps or KEPT)
        if self._returns == "sites":
            return ReturnStrategy("sites", ASKED_FOR)
        harm = self._forbidden.all or (self._forbidden.most if verdict.doubt else "")
        if self._returns == "uretprobe":
            circle = self._recursive.get(function.address, "")
            shallow = f"{ASKED_FOR}; 64 deep and no more, because it {circle}" if circle else ""
            return (
                ReturnStrategy("none", harm)
                if harm
                else ReturnStrategy("uretprobe", shallow or ASKED_FOR)
            )
        misleads = self._forbidden.left if verdict.doubt else ""
        reason = harm or misleads or self._recursive.get(function.address, "")
        return ReturnStrategy("sites" if reason else "uretprobe", reason)


def keeps_address(image: Image, function: Function) -> bool:
    """Return whether a uretprobe on ``function`` would harm the program, by its name."""
    names = (function.name, *function.aliases)
    return function.address == image.entry or hazard_table.keeps_address(names)

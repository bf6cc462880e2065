"""What an event shows of a call's values, and how they are fetched."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import Locations
from lbtrace.abi.locations import Detail
from lbtrace.model import Condition, Fetch, Grouping, Prototype, Value
from lbtrace.recognize.sharing import collected

SHALLOW = Detail()


class CallValues(Struct, frozen=True):
    """How a function's values travel: what an event shows, and how to fetch it.

    ``fetches`` belong to the entry, ``result_fetches`` to the return; slots
    index them. ``cut`` counts parameters that could be read but have no slot
    left. Values that are aggregated instead of shown are in the ``grouping`` of the probe that does
    so: that of the return, if it ``waits`` for what is known there; then ``entry_grouping`` is what
    the entry keeps for it. With ``shows_left`` calls that an exception leaves are shown, too,
    though conditions are on the result.
    """

    parameters: tuple[Value, ...] = ()
    result: Value | None = None
    fetches: tuple[Fetch, ...] = ()
    result_fetches: tuple[Fetch, ...] = ()
    cut: int = 0
    conditions: tuple[Condition, ...] = ()
    result_conditions: tuple[Condition, ...] = ()
    entry_grouping: Grouping | None = None
    grouping: Grouping | None = None
    waits: bool = False
    shows_left: bool = False

    @property
    def is_conditional(self) -> bool:
        """Whether only some calls are shown."""
        return bool(self.conditions or self.result_conditions)

    @property
    def asks_return(self) -> bool:
        """Whether calls whose return is not seen are of no use."""
        return bool(self.result_conditions) or self.waits

    @property
    def kept(self) -> str:
        """The registers of whose content at entry the result is fetched, separated by spaces."""
        found = [fetch.register for fetch in self.result_fetches if fetch.base == "kept"]
        return " ".join(dict.fromkeys(found)) if found else ""

    @property
    def registers(self) -> set[str]:
        """Those that must hold at the probe of the entry what they held at entry."""
        return {f.register for f in self.fetches if f.base == "register"} | {*self.kept.split()}

    def at(self, address: int, register: str) -> CallValues:
        """Return the same where the entry's probe is at ``address`` of its file, which is what
        ``register`` holds there: what lies in the file is relative to it."""
        fetches = (*self.fetches, *self.result_fetches)
        if not fetches or all(fetch.base != "file" for fetch in fetches):
            return self

        def moved(fetch: Fetch, base: Literal["register", "kept"]) -> Fetch:
            if fetch.base != "file":
                return fetch
            return replace(fetch, base=base, register=register, offset=fetch.offset - address)

        return replace(
            self,
            fetches=tuple(moved(f, "register") for f in self.fetches),
            result_fetches=tuple(moved(f, "kept") for f in self.result_fetches),
        )


def plan_values(
    prototype: Prototype, places: Locations, limit: int, detail: Detail = SHALLOW
) -> CallValues:
    """Return what to fetch of a function whose values lie at ``places``."""
    shown = [(f.name, f.shown_type) for f in prototype.parameters]
    placed = list(zip(shown, places.parameters, strict=True))
    parameters, entry = collected(
        limit,
        detail,
        lambda own: tuple(own.value(*each, place) for each, place in placed),
    )
    declared = prototype.result
    if declared is None or not declared.type.has_values:
        return CallValues(parameters, None, entry.fetches, (), entry.cut)
    result, after = collected(
        limit, detail, lambda own: own.value("", declared.type, places.result)
    )
    return CallValues(parameters, result, entry.fetches, after.fetches, entry.cut)

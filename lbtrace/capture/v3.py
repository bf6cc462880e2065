"""Versions 1 to 3 of the format: a probe of kind ``call`` was two probes with one number;
probes that close no call were returns of function 0; the next event carried the losses.

The structs here are frozen as they were; structs that have only gained fields since are the present
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from lbtrace.model import (
    CLOSE,
    KIND,
    LOSS,
    NO_FUNCTION,
    OPEN,
    UNWATCHED,
    Batch,
    Binary,
    Condition,
    Fetch,
    Function,
    GoLayout,
    Plan,
    Probe,
    Site,
)
from lbtrace.model.wire import EVENT
from lbtrace.probes import ROLES

ENTRY, RETURN, LOSS_OF_OLD, UNWATCHED_OF_OLD = 1, 2, 3, 4
"""Kinds of events."""

ROLE_OF_KIND = {
    "call": "opens",
    "entry": "opens",
    "return": "closes",
    "goroutine end": "lane end",
}
"""The present names of roles that have changed."""


class OldProbe(msgspec.Struct, frozen=True):
    """A probe of versions 1 to 3. Kind ``call`` stands for two probes, at entry and return; any
    other kind for one, sent as a return unless it is an ``entry``."""

    function: int
    kind: str
    site: Site
    fetches: tuple[Fetch, ...] = ()
    result_fetches: tuple[Fetch, ...] = ()
    conditions: tuple[Condition, ...] = ()
    result_conditions: tuple[Condition, ...] = ()
    foreign: bool = False
    binary: int = 0
    keeps: str = ""


class OldPlan(msgspec.Struct):
    """A plan in versions 2 and 3; in version 1 it has one ``binary``, and ``go`` besides."""

    functions: tuple[Function, ...]
    probes: tuple[OldProbe, ...]
    binaries: tuple[Binary, ...] = ()
    notes: tuple[str, ...] = ()
    binary: Binary | None = None
    go: GoLayout | None = None

    def upgraded(self) -> tuple[Plan, Upgrade]:
        """Return the plan in the present form, and the upgrade of its batches."""
        binaries = self.binaries
        if self.binary is not None:
            binaries = (msgspec.structs.replace(self.binary, go=self.go),)
        upgrade = Upgrade(self.probes)
        return Plan(binaries, self.functions, upgrade.probes, self.notes), upgrade


class Upgrade:
    """Makes the present ``probes``, and batches with their numbers. None stands for a probe that
    could not be read: its number is among the ``unknown`` ones."""

    def __init__(self, probes: Sequence[OldProbe | None]) -> None:
        self._numbers: list[int] = []
        self._hooked: set[int] = set()
        self.unknown: set[int] = set()
        made: list[Probe] = []
        for number, old in enumerate(probes):
            self._numbers.append(len(made))
            if old is None:
                self.unknown.add(len(made))
            elif old.kind == "call":
                self._hooked.add(number)
            made += _upgraded(old) if old else [UNREADABLE]
        self.probes = tuple(made)

    def batch(self, batch: Batch) -> Batch:
        """Return a batch with records of the present version."""
        records: list[bytes] = []
        for record in EVENT.iter_unpack(batch.events):
            records += self._records(record)
        return Batch(b"".join(records), batch.blobs, batch.threads, batch.entries, batch.gap)

    def _records(self, record: tuple[int, ...]) -> Iterable[bytes]:
        time, frame, goroutine, old, pid, tid, kind, faults, lost, blob, *values = record
        number = self._number(old, kind & KIND)
        head = (time, frame, goroutine, number, pid, tid)
        bits = kind & ~KIND
        if lost:
            # Which of the returns were closes, and which points, is not known.
            words = lost & 0xFFFF | (lost >> 16) << 32
            yield EVENT.pack(*head, LOSS | bits, 0, 0, 0, words, *[0] * 5)
        if kind & KIND != LOSS_OF_OLD:
            yield EVENT.pack(
                *head, self._kind(number, kind & KIND) | bits, faults, 0, blob, *values
            )

    def _number(self, old: int, kind: int) -> int:
        if old >= len(self._numbers):  # the matcher says that there is no such probe
            return min(len(self.probes) + old - len(self._numbers), LAST_NUMBER)
        return self._numbers[old] + (kind == RETURN and old in self._hooked)

    def _kind(self, number: int, kind: int) -> int:
        if kind == ENTRY:
            return OPEN
        if kind == RETURN:
            role = self.probes[number].role if number < len(self.probes) else ""
            return ROLES[role].event if role in ROLES else CLOSE
        return UNWATCHED if kind == UNWATCHED_OF_OLD else KIND  # an invalid kind


LAST_NUMBER = (1 << 32) - 1
"""Of a probe, as far as records have room."""

UNREADABLE = Probe(Site(0, 0), "unreadable")
"""Stands for a probe that cannot be read."""


def _upgraded(old: OldProbe) -> list[Probe]:
    role = ROLE_OF_KIND.get(old.kind, old.kind)
    of_function = role in ROLES and ROLES[role].of_function
    opens = role == "opens"
    first = Probe(
        old.site,
        role,
        old.function if of_function else NO_FUNCTION,
        fetches=old.fetches if opens else old.result_fetches,
        conditions=old.conditions if opens else old.result_conditions,
        action="keep" if opens and old.result_conditions else "send",
        foreign=old.foreign,
        binary=old.binary,
        keeps=old.keeps,
    )
    if old.kind != "call":
        return [first]
    closes = msgspec.structs.replace(
        first,
        role="closes",
        source="uretprobe",
        fetches=old.result_fetches,
        conditions=old.result_conditions,
        action="send",
    )
    return [first, closes]

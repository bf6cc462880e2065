"""Compares two reports: what has changed, and what may be noise."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from lbtrace.answers.row import Row
from lbtrace.answers.table import align
from lbtrace.model import Losses
from lbtrace.text import clean, duration, to_json

SURE = 3.0
"""Standard errors of the difference of two means beyond which it is no noise: of a thousand
functions that have not changed, about three are beyond."""

FEWEST = 5
"""Durations of which the spread says something."""

OF_SIDES = Row.__struct_fields__[Row.__struct_fields__.index("calls") :]
"""What is known of each side: the numbers."""

HEADING = ("CHANGE", "BEFORE", "AFTER", "AVG", "CALLS", "FUNCTION")


class Change(Struct, frozen=True):
    """What a function's calls took ``before`` and ``after``, each None where there were none.

    ``total`` is by how much the total has grown, in ns. ``mean`` is by which part the mean has
    (0.5: half as much again); ``noise`` says that this is within what the spread of the durations
    explains. Both are None where a side has fewer than five durations.
    """

    name: str
    key: str
    path: tuple[str, ...]
    before: Row | None
    after: Row | None
    total: int
    mean: float | None = None
    noise: bool | None = None


def compare(before: Sequence[Row], after: Sequence[Row]) -> list[Change]:
    """Return a change for each row of either, the largest first. Files may lie elsewhere, and have
    another name where their functions cannot be taken for others."""
    former, latter = ({_identity(row): row for row in rows} for rows in (before, after))
    renamed = _find_renamed(former, latter)
    changes = []
    for identity in former | {i: row for i, row in latter.items() if i not in renamed.values()}:
        old, new = former.get(identity), latter.get(renamed.get(identity, identity))
        total = (new.total if new else 0) - (old.total if old else 0)
        name, key, path, _ = identity
        mean, noise = _compare_means(old, new)
        changes.append(Change(name, key, path, old, new, total, mean, noise))
    return sorted(changes, key=lambda change: (-abs(change.total), change.name, change.key))


_Identity = tuple[str, str, tuple[str, ...], str]
"""The name, key and path of a row, and the name of its file."""


def _identity(row: Row) -> _Identity:
    return row.name, row.key, row.path, os.path.basename(row.binary)


def _find_renamed(before: Iterable[_Identity], after: Iterable[_Identity]) -> dict[Any, Any]:
    """What only one side has in a file of this name, by what only the other one has."""
    both = {*before} & {*after}
    sides: list[dict[Any, list[_Identity]]] = [{}, {}]
    for side, identities in zip(sides, (before, after), strict=True):
        for identity in identities:
            if identity not in both:
                side.setdefault(identity[:-1], []).append(identity)
    former, latter = sides
    alone = (of for of in former if len(former[of]) == len(latter.get(of, ())) == 1)
    return {former[of][0]: latter[of][0] for of in alone}


def _compare_means(old: Row | None, new: Row | None) -> tuple[float | None, bool | None]:
    """By which part the mean has grown, and whether that may be noise (Welch's t)."""
    if old is None or new is None or not old.mean or new.mean is None:
        return None, None
    if old.deviation is None or new.deviation is None or min(old.timed, new.timed) < FEWEST:
        return None, None
    error = (old.deviation**2 / old.timed + new.deviation**2 / new.timed) ** 0.5
    difference = new.mean - old.mean
    return difference / old.mean, abs(difference) <= SURE * error


def write_changes(changes: Sequence[Change]) -> str:
    """Return lines for a person."""
    lines = [HEADING]
    for change in changes:
        name = " < ".join(map(clean, reversed(change.path))) or clean(change.name)
        if change.key:
            name += f" [{clean(change.key)}]"
        before, after = change.before, change.after
        lines.append(
            (
                f"{'-' if change.total < 0 else '+'}{duration(abs(change.total))}",
                duration(before.total) if before else "-",
                duration(after.total) if after else "-",
                _describe_mean(change),
                _describe_calls(before.calls if before else 0, after.calls if after else 0),
                name,
            )
        )
    return align(lines, len(HEADING) - 1)


def _describe_mean(change: Change) -> str:
    if change.before is None or change.after is None:
        return "new" if change.before is None else "gone"
    if change.mean is None:
        return "?"
    return "noise" if change.noise else f"{change.mean:+.1%}"


def _describe_calls(before: int, after: int) -> str:
    return f"{after:,}" if before == after else f"{before:,} → {after:,}"


def write_changes_json(changes: Sequence[Change], lost: Sequence[Losses]) -> str:
    """Return a JSON object, with what each trace has lost."""
    made = {"changes": msgspec.to_builtins(changes), "lost": msgspec.to_builtins(lost)}
    return to_json(made) + "\n"


def flat(changes: Sequence[Change]) -> tuple[Sequence[str], list[list[Any]]]:
    """Return names and values for each change: what it is of, what changed, and the numbers of each
    side."""
    own = ("name", "key", "path", "total", "mean", "noise")
    fields = [*own, *(f"{side}_{field}" for side in ("before", "after") for field in OF_SIDES)]

    def cells(change: Change) -> list[Any]:
        sides = (
            getattr(row, field, None) for row in (change.before, change.after) for field in OF_SIDES
        )
        return [*(getattr(change, field) for field in own), *sides]

    return fields, [*map(cells, changes)]

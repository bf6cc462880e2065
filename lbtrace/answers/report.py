"""Sums up captures."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING

import msgspec

from lbtrace.answers.profile import NUMBERS, By, Profile
from lbtrace.answers.row import Row, in_order
from lbtrace.calls.fast_path import FastMatcher
from lbtrace.calls.iterator import check_sends
from lbtrace.calls.matcher import CallMatcher
from lbtrace.capture import Capture, read_capture
from lbtrace.errors import DependencyError, UsageError
from lbtrace.model import Aggregates, Losses, Plan
from lbtrace.validation import check_choice

if TYPE_CHECKING:
    import pandas


class Rows(list[Row]):
    """The rows of a report, the longest total first.

    ``losses`` is what the trace lost, by cause, ``unkept`` the number of calls in no row, because
    there were more than 100,000 rows, ``complete`` whether the trace was recorded to its end.
    """

    losses: Losses
    unkept: int
    complete: bool

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame of pandas with a row each, whose columns are the fields of `Row`.

        Raises `DependencyError` where pandas is not installed (``pip install 'lbtrace[pandas]'``).
        """
        try:
            import pandas
        except ImportError as error:
            raise DependencyError(
                "pandas is not installed, or cannot be imported", "pip install 'lbtrace[pandas]'"
            ) from error
        rows = [msgspec.structs.astuple(row) for row in self]
        return pandas.DataFrame(rows, columns=[*Row.__struct_fields__])


def check_argument(plan: Plan, name: str) -> str:
    """Return the name of an argument. Raises `UsageError` where no function has such a one."""
    known = {each.name for function in plan.functions for each in function.parameters}
    if name not in known:
        some = ", ".join(sorted(known)[:10]) or "there are none"
        raise UsageError(f"no argument is called {name}", f"arguments of this trace: {some}")
    return name


def check_key(plan: Plan, by: str) -> tuple[By, str]:
    """Return what ``thread``, ``arg:NAME`` and the like mean, and the name. Raises `UsageError`."""
    kind, _, argument = by.partition(":") if isinstance(by, str) else ("", "", "")
    if kind == "arg" and argument:
        return "argument", check_argument(plan, argument)
    return check_choice("by", by, (*(name for name in NUMBERS if name != "argument"),)), ""


def rows_of(profile: Profile, losses: Losses, return_depth: int, *, complete: bool) -> Rows:
    """Return the rows of a profile, with what is said about them."""
    rows = Rows(in_order(profile.rows(), "total"))
    return_depth = max(losses.return_depth, return_depth)
    rows.losses = msgspec.structs.replace(losses, return_depth=return_depth)
    rows.unkept, rows.complete = profile.unkept, complete
    return rows


def match_all(capture: Capture, matcher: CallMatcher) -> None:
    """Give a matcher all calls of a capture."""
    for batch in capture.batches():
        if isinstance(batch, Aggregates):
            continue
        if batch.gap:
            matcher.finish()  # what was missed may hold the ends of all calls
        matcher.feed(batch)
    matcher.finish()


def sum_up(path: str | PathLike[str], by: str = "function") -> Rows:
    """Sum up the calls of a capture. Raises `CaptureError`, `UsageError`."""
    with read_capture(fspath(path)) as capture:
        check_sends(capture.plan)
        key, argument = check_key(capture.plan, by)
        profile = Profile(capture.plan, key, argument)
        depth = max(capture.plan.shown_depth, 0) or None
        matcher = FastMatcher(capture.plan, profile, max_depth=depth)
        match_all(capture, matcher)
        return rows_of(profile, capture.losses, matcher.return_depth, complete=capture.complete)

"""Reports for programs."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING

import msgspec

from lbtrace.answers.profile import NUMBERS, By, Profile
from lbtrace.answers.row import Row, in_order
from lbtrace.calls.fast_path import FastMatcher
from lbtrace.calls.iterator import check_sends
from lbtrace.capture import read_capture
from lbtrace.errors import DependencyError
from lbtrace.model import Aggregates, Losses
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


def report(path: str | PathLike[str], *, by: str = "function") -> Rows:
    """Sum up the calls of the capture at ``path``: a `Row` for each function, or with ``by`` for
    each ``"thread"``, ``"caller"``, ``"path"`` or ``"arg:NAME"`` as well.

    Raises `CaptureError` where the file cannot be read, `UsageError` where ``by`` is something
    else, or the trace sends no calls. Needs no privileges.
    """
    kind, _, argument = by.partition(":") if isinstance(by, str) else ("", "", "")
    key: By
    if kind == "arg" and argument:
        key = "argument"
    else:
        key = check_choice("by", by, (*(name for name in NUMBERS if name != "argument"),))
    with read_capture(fspath(path)) as capture:
        check_sends(capture.plan)
        profile = Profile(capture.plan, key, argument)
        depth = max(capture.plan.shown_depth, 0) or None
        matcher = FastMatcher(capture.plan, profile, max_depth=depth)
        for batch in capture.batches():
            if isinstance(batch, Aggregates):
                continue
            if batch.gap:
                matcher.finish()  # what was missed may hold the ends of all calls
            matcher.feed(batch)
        matcher.finish()
        rows = Rows(in_order(profile.rows(), "total"))
        lost = max(capture.losses.return_depth, matcher.return_depth)
        rows.losses = msgspec.structs.replace(capture.losses, return_depth=lost)
        rows.unkept, rows.complete = profile.unkept, capture.complete
    return rows

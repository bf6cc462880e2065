"""Reports for programs: of a capture, or of a trace while it runs."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from lbtrace.answers.report import Rows, sum_up
from lbtrace.errors import UsageError

if TYPE_CHECKING:
    from lbtrace.live_report import LiveReport

StrPath: TypeAlias = str | PathLike[str]


@overload
def report(path: StrPath, *, by: str = ...) -> Rows: ...


@overload
def report(*, by: str = ..., **selected: Any) -> LiveReport: ...


def report(
    path: StrPath | None = None, *, by: str = "function", **selected: Any
) -> Rows | LiveReport:
    """Sum up the calls of the capture at ``path``: a `Row` for each function, or with ``by`` for
    each ``"thread"``, ``"caller"``, ``"path"`` or ``"arg:NAME"`` as well. Needs no privileges.

    Without one, trace: return a table of the same rows, read while it runs (`LiveReport`).
    ``selected`` is what `lbtrace.trace` takes: ``functions``, ``command``, ``pid``, ``where``. Each
    call is sent; `lbtrace.latency` has the kernel add up.

    Raises `CaptureError` where the file cannot be read, `UsageError` where ``by`` is something
    else, no argument has that name, or the capture has no calls; else what `lbtrace.trace` raises.
    """
    if path is not None:
        for name in selected:
            raise UsageError(f"a capture is named, and {name}= is about a trace", "leave one out")
        return sum_up(path, by)
    for name in ("action", "columns"):
        if name in selected:
            raise UsageError(f"lbtrace.report() takes no {name}=", "lbtrace.count() counts")
    if not by.startswith("arg:"):  # no other key needs values
        selected.setdefault("args", 0)
    from lbtrace.api import trace  # imported here: captures need neither
    from lbtrace.live_report import LiveReport

    return LiveReport(trace(**selected), by)

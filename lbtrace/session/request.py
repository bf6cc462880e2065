"""What is asked of a trace, before anything is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lbtrace.model import Plan, Target
from lbtrace.system.file import File
from lbtrace.targets.reach import Reach

if TYPE_CHECKING:
    from lbtrace.plan.return_strategy import Returns
    from lbtrace.probes import Mode


class Request(Struct, frozen=True):
    """What to trace: the arguments of `lbtrace.session.prepare.prepare`."""

    target: Target
    binaries: tuple[str, ...]
    patterns: tuple[str, ...]
    args: int | None
    arg: tuple[str, ...]
    where: str
    depth: int
    strings: int
    returns: Returns
    force: bool
    mode: Mode | None
    action: str
    sources: tuple[str, ...]
    lines: tuple[str, ...]
    places: tuple[str, ...]
    locals: bool
    markers: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    inlined: bool = False
    unsafe: bool = False

    @property
    def names_code(self) -> bool:
        """Whether more than markers is asked for."""
        return bool(self.patterns or self.sources or self.lines or self.places or self.within)

    @property
    def seeks_files(self) -> bool:
        """Whether the files with the wanted markers are to be found, as none is named."""
        return bool(self.markers) and not self.binaries


class Prepared(Struct, frozen=True):
    """What a `Session` takes: the plan, its ``files``, open, and which processes its probes
    ``reach``. ``notes`` are remarks on the files, besides those that the plan has. Where the plan
    may grow, ``later`` says what is to be traced of files that are mapped later."""

    plan: Plan
    target: Target
    files: tuple[File, ...]
    reach: Reach
    notes: tuple[str, ...]
    later: Request | None = None

"""What is asked of a trace, before anything is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lbtrace.model import Plan, Target
from lbtrace.model.choices import Choices
from lbtrace.system.file import File
from lbtrace.targets.reach import Reach

if TYPE_CHECKING:
    from lbtrace.probes import Mode


class Request(Choices, frozen=True, kw_only=True):
    """What is chosen of ``binaries`` in ``target``, or of those that run there; ``mode`` is how
    probes are to be attached, None for the best way that the kernel has."""

    target: Target
    binaries: tuple[str, ...] = ()
    mode: Mode | None = None

    @property
    def names_code(self) -> bool:
        """Whether more than markers is asked for."""
        named = self.patterns or self.sources or self.lines or self.places or self.within
        return bool(named) or self.takes_own

    @property
    def needs_files(self) -> bool:
        """Whether there is nothing to trace without a file: what is in the kernel is in none."""
        in_kernel = self.syscalls or self.tracepoints or self.kernel or self.blocking
        return bool(self.names_code or self.markers or self.binaries or not in_kernel)

    @property
    def seeks_files(self) -> bool:
        """Whether the files with the wanted markers are to be found, as none is named."""
        return bool(self.markers) and not self.binaries


class Prepared(Struct, frozen=True):
    """What a `Session` takes: the plan, its ``files``, open, and which processes its probes
    ``reach``. ``notes`` are warnings on the files, besides those that the plan has. Where the plan
    may grow, ``later`` says what is to be traced of files that are mapped later."""

    plan: Plan
    target: Target
    files: tuple[File, ...]
    reach: Reach
    notes: tuple[str, ...]
    later: Request | None = None
    exchanging: str = ""
    """A file that exchanges what is on stacks in a process that runs now."""

"""What is asked of a trace, before anything is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from lbtrace.errors import UsageError, option
from lbtrace.model import Plan, Target
from lbtrace.model.choices import Choices
from lbtrace.naming import NAMING
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
        named = any(NAMING[name].place == "code" for name in self.named)
        return bool(named or self.patterns or self.within or self.takes_own)

    @property
    def needs_files(self) -> bool:
        """Whether there is nothing to trace without a file: what is in the kernel is in none."""
        in_files = any(NAMING[name].place != "kernel" for name in self.named)
        return bool(in_files or self.names_code or self.binaries or self.libcalls)

    @property
    def seeks_files(self) -> bool:
        """Whether the files with the wanted markers are to be found, as none is named."""
        return "usdt" in self.named and not self.binaries

    def check(self) -> None:
        """Raise `UsageError` where something is asked about what is not asked for."""
        functions = f"name them with {option('func')} or {option('source')}"
        markers = f"name them with {option('usdt')}"
        returns = f"add {option('returns', 'uretprobe')}, or leave it out"
        named = self.patterns or "source" in self.named
        chosen = self.patterns or self.libcalls or any(NAMING[n].functions for n in self.named)
        for name, wrong, what, hint in (
            ("inlined", self.inlined and not named, "functions", functions),
            ("exclude", self.exclude and self.named and not chosen, "functions", functions),
            ("provider", self.providers and "usdt" not in self.named, "markers", markers),
            ("unsafe", self.unsafe and self.returns != "uretprobe", "uretprobes", returns),
        ):
            if wrong:
                raise UsageError(f"{option(name)} is about {what}", hint)
        if self.blocking:
            self._check_blocking()

    def _check_blocking(self) -> None:
        """That nothing is asked about calls, and something of a process, where it is asked on which
        stacks threads are blocked."""
        if not (self.target.pids or self.target.command):
            raise UsageError(
                f"{option('off_cpu')} is about processes, and none is named",
                f"give {option('pid')}, or a command",
            )
        about_calls = {
            **{"func": self.patterns, "libcalls": self.libcalls, **self.named},
            **{"within": self.within, "exclude": self.exclude, "where": self.where},
            **{"errors": self.errors, "arg": self.arg},
        }
        for name in filter(about_calls.get, about_calls):
            raise UsageError(
                f"{option('off_cpu')} is about all that threads wait for,"
                f" and {option(name)} about calls",
                "leave one out; to see how long calls were blocked, trace them with"
                f" {option('off_cpu')}",
            )


def slower(where: str, time: int) -> str:
    """Return the condition that a call took longer than so many ns, and ``where`` holds of it,
    unless that is empty. Raises `UsageError`."""
    if not where:
        return f"duration > {time}ns"
    from lbtrace.expressions import syntax  # imported here: few join two conditions

    syntax.condition(where)  # what is wrong with it is said of it alone
    return f"({where}) and duration > {time}ns"


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
    patched: Mapping[tuple[int, int], tuple[int, ...]] = {}
    """The code that is changed in memory (`lbtrace.targets.patched_code.find_patched`)."""

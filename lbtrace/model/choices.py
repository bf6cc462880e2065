"""What a user chooses to trace of some binaries, and what to show of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Returns: TypeAlias = Literal["auto", "uretprobe", "sites", "none"]


class Choices(Struct, frozen=True):
    """What `lbtrace.trace` and ``lbtrace attach`` choose, but for the target and its binaries.

    ``patterns`` are exact names, globs or ``/regular expressions/`` of functions, ``named`` is
    what else is named, by option (`lbtrace.naming.NAMING`), of each option something. At lines and
    addresses are all ``locals`` shown or none; files of ``providers`` tell more of markers.
    Functions that a pattern of ``exclude``, or one of ``patterns`` after a ``!`` means are left
    out; where nothing is named, the functions that the program's own sources define are traced.
    ``inlined``: points where the functions were inlined as well. ``within`` are patterns of
    functions below whose calls all that is recorded happens. ``args`` is the number of arguments
    shown; None means those of the prototype, or one without debug information. ``arg`` are
    expressions to show instead, ``where`` is one that must hold; ``errors``: of calls whose result
    is an error. ``off_cpu``: durations are split into running, runnable and blocked, and stretches
    of so many ns in which a thread was blocked are shown, or with action ``stacks`` counted, of any
    length; 0: not asked. ``depth`` pointers are
    followed, ``strings`` bytes of a string read. ``returns`` says how returns are seen
    (`lbtrace.plan.return_strategy`). ``force`` allows more than `lbtrace.plan.function_plans.LIMIT`
    functions, ``unsafe`` uses uretprobes although the table of `lbtrace.plan.uretprobe_guard`
    objects. ``libcalls``: also functions of libraries that the program calls, these calls.
    ``full_names``: names of C++ are not shortened to what people write. ``action`` is what
    becomes of a call: it is sent, or the kernel aggregates something from it (`lbtrace.tables`),
    ``by`` these expressions, with ``columns`` such as ``sum(size)``.
    """

    patterns: tuple[str, ...] = ()
    args: int | None = None
    returns: Returns = "auto"
    force: bool = False
    unsafe: bool = False
    action: str = "send"
    named: Mapping[str, tuple[str, ...]] = {}
    locals: bool = False
    providers: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    inlined: bool = False
    arg: tuple[str, ...] = ()
    where: str = ""
    errors: bool = False
    off_cpu: int = 0
    depth: int = 0
    strings: int = 64
    full_names: bool = False
    exclude: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    libcalls: bool = False

    @property
    def blocking(self) -> bool:
        """Whether it is asked on which stacks threads are blocked."""
        return bool(self.off_cpu) and self.action == "stacks"

    @property
    def takes_own(self) -> bool:
        """Whether nothing is named, so that the program's own functions are traced."""
        return not (self.patterns or self.named or self.libcalls or self.blocking)

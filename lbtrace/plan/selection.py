"""What to trace of some binaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from lbtrace.abi.locations import Detail
from lbtrace.elf.loaded_files import Closure
from lbtrace.fetch.call_values import SHALLOW
from lbtrace.machine.long_nops import AskNop, avoid_nops
from lbtrace.model import SENDING
from lbtrace.plan.return_strategy import Returns
from lbtrace.plan.value_selection import ValueSelection

if TYPE_CHECKING:
    from lbtrace.expressions.tree import Request
    from lbtrace.providers import Definitions


class Selection(Struct, frozen=True):
    """What to trace of some binaries.

    ``patterns`` are exact names, globs or ``/regular expressions/``, ``sources`` the ends of paths
    of source files whose functions are traced as well, with globs. ``lines`` are lines of source
    files (``FILE:LINE``), ``places`` addresses in files (``FILE:0xADDRESS``, ``FILE:+0xOFFSET``),
    where points are recorded, with all ``locals`` or without, ``markers`` places that authors left
    for tracers (``PROVIDER:NAME``), of which the user's own ``definitions`` may tell more.
    Those that ``awaited`` names may come in files that are loaded later.
    ``inlined``: points where the functions were inlined as well. ``within`` are patterns of
    functions below whose calls all that is recorded happens. ``args`` is the number of arguments
    shown; None means those of the prototype, or one without debug information. ``returns`` says how
    returns are seen (`lbtrace.plan.return_strategy`), ``hazard`` why uretprobes crash
    programs on this kernel, if so, ``watched`` who watches system calls; ``beside`` is what runs
    there, traced or not, None where that may be any program. ``strangers``: a uretprobe would be
    hooked in processes outside the request as well,
    ``altstack_checked``: the entry program refuses the hook of a call on an alternate signal stack,
    ``any_program``: what is traced may run in programs that are not known.
    ``earlier``: what is traced may have run before, a process that alone has probes (``one``), or
    ``any``. ``patched`` are addresses of code, by the identity of the file, that is not in the
    processes what it is in the file, ``breakpoints`` those where a debugger may have one.
    ``ask_nop`` tells how probes on nops may be used there.
    ``action`` is what becomes of a call: it is sent, or the kernel gathers something from it
    (`lbtrace.tables`).
    ``loads_later``: other files than those named may be loaded later, of which an error may be.
    ``unsafe`` uses uretprobes although the table of `lbtrace.plan.uretprobe_guard` objects.
    ``force`` allows more than `lbtrace.plan.planner.LIMIT` functions. ``detail`` and ``request``
    are those of `lbtrace.plan.value_selection.ValueSelection`.
    """

    patterns: tuple[str, ...]
    args: int | None = None
    returns: Returns = "auto"
    force: bool = False
    hazard: str = ""
    watched: str = ""
    beside: Closure | None = Closure()
    earlier: Literal["", "one", "any"] = ""
    strangers: bool = False
    altstack_checked: bool = False
    any_program: bool = False
    patched: Mapping[tuple[int, int], tuple[int, ...]] = {}
    breakpoints: Mapping[tuple[int, int], tuple[int, ...]] = {}
    detail: Detail = SHALLOW
    request: Request | None = None
    action: str = "send"
    sources: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    locals: bool = False
    markers: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    definitions: Definitions | None = None
    ask_nop: AskNop = avoid_nops
    within: tuple[str, ...] = ()
    inlined: bool = False
    unsafe: bool = False
    loads_later: bool = False

    @property
    def gathers(self) -> bool:
        """Whether calls are not sent."""
        return self.action not in SENDING

    @property
    def values(self) -> ValueSelection:
        """Which values are shown."""
        return ValueSelection(self.args, self.detail, self.request)

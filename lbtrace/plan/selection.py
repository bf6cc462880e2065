"""What to trace of some binaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from lbtrace.abi.locations import Detail
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure
from lbtrace.model import SENDING
from lbtrace.model.choices import Choices
from lbtrace.plan.value_selection import ValueSelection, parse, parse_chosen

if TYPE_CHECKING:
    from lbtrace.expressions.tree import Request


class Selection(Choices, frozen=True):
    """What is chosen, and what is known of the target.

    ``hazard`` says why uretprobes crash programs on this kernel, if so, ``watched`` who watches
    system calls; ``mapped_files`` are all files that the target maps; None if unknown.
    ``other_processes``: a uretprobe would be hooked in processes outside the request as well,
    ``altstack_checked``: the entry program refuses the hook of a call on an alternate signal stack,
    ``single``: each probe has a link of its own, which takes time to detach,
    ``any_program``: what is traced may run in programs that are not known. ``patched``
    are addresses of code, by the identity of the file, that is not in the processes what it is in
    the file, ``breakpoints`` those where a debugger may have one, ``points`` those that calls of
    functions have to be around.
    ``loads_later``: other files than those named may be loaded later, of which an error may be.
    Of files that are ``marked`` only markers are traced. ``growth``: markers may come in files that
    are loaded ``later``, or this is an ``addition`` of one. ``request`` is what ``arg`` and
    ``where`` ask for (`lbtrace.plan.value_selection.parse`).
    """

    hazard: str = ""
    watched: str = ""
    mapped_files: Closure | None = Closure()
    other_processes: bool = False
    altstack_checked: bool = False
    single: bool = False
    any_program: bool = False
    patched: Mapping[tuple[int, int], tuple[int, ...]] = {}
    breakpoints: Mapping[tuple[int, int], tuple[int, ...]] = {}
    points: Mapping[tuple[int, int], tuple[int, ...]] = {}
    request: Request | None = None
    marked: Sequence[Image] = ()
    growth: Literal["", "later", "addition"] = ""
    loads_later: bool = False

    @property
    def detail(self) -> Detail:
        """How much is read of a value."""
        return Detail(self.depth, self.strings)

    @property
    def aggregates(self) -> bool:
        """Whether calls are not sent."""
        return self.action not in SENDING

    @property
    def values(self) -> ValueSelection:
        """Which values are shown."""
        measured = bool(self.off_cpu) and not self.aggregates
        return ValueSelection(
            *(self.args, self.detail, self.request),
            full_names=self.full_names,
            off_cpu=measured,
            inlined=self.inlined,
            counted=self.args is None and not self.aggregates,
        )

    def of_any_call(self, *, apart: bool) -> Selection:
        """What is asked for of calls from which values are asked for ``apart``: only a filter that
        is about any call; by what is aggregated is asked of all."""
        apart &= not (self.by or self.columns or (self.aggregates and self.arg))
        if not apart or self.request is None:
            return self
        filters = self.request.selects_any_call
        return replace(self, request=replace(self.request, wanted=()) if filters else None)

    def from_program(self) -> Selection:
        """What is asked for of functions of which only calls that the program makes count."""
        where = "from_program != 0"
        if self.request is None:
            return replace(self, request=parse((), where))
        where = f"{where} and ({self.where})" if self.where else where
        request = parse_chosen(self, where)
        return replace(self, request=request and replace(request, aggregates=self.aggregates))

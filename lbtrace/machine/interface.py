"""What the package of a processor offers. `lbtrace.machine.Machine` asks its modules for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

from lbtrace.machine.code import (
    Code,
    EpilogueEntry,
    Exits,
    FloatSpills,
    InferredRegisters,
    Read,
)
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.shadow_stacks import ShadowStacks
from lbtrace.model import Fetch, Site

UNFIT = "kernels refuse a probe on the instruction, or handle it wrongly"
"""Why there can be none, as a clause for users."""


class SitePlanner(Protocol):
    """Chooses the sites of probes. One object serves any number of functions."""

    def choose(
        self,
        code: Code,
        keep: Collection[str],
        *,
        returns: bool,
        begins: Callable[[], bool] = lambda: True,
        never_back: Callable[[int], bool] = lambda target: False,
    ) -> Site | None:
        """Return the cheapest place at which the registers ``keep`` hold what they held at entry.

        With ``returns`` the stack pointer points at the return address there. ``begins``
        says whether nothing but calls leads to the first instruction, ``never_back`` of a target
        of jumps whether no code there leads back.
        None if the kernel refuses a probe at every place that would do.
        """

    def point(self, code: Code) -> Site | str:
        """Return a site at the first instruction of ``code``, which is amid a function; or why no
        probe can be there, as a clause."""

    def spills(self, code: Code, read: Read) -> Iterator[FloatSpills]:
        """Return the places further on, in order, at which memory or integer registers hold
        what vector registers held at entry.

        A probe there fires once a call, before anything is called or written that is
        not the function's own.
        """

    def results(
        self, code: Code, returns: Collection[int], read: Read
    ) -> dict[str, tuple[Fetch, int]]:
        """Return what fetches the vector registers with a result, as in `FloatSpills`, from integer
        registers that hold the same at each of the addresses ``returns``."""


class ExitFinder(Protocol):
    """Finds the exits of functions. One object serves any number of them."""

    def exits(self, parts: Sequence[Code], around: Around, pads: Sequence[int] = ()) -> Exits:
        """Return the exits of the function with the code ``parts``; it begins with the first.

        ``around`` is the binary around it. At ``pads`` it continues after exceptions.
        """

    def reached(
        self,
        parts: Sequence[Code],
        around: Around,
        pads: Sequence[int] = (),
        *,
        uncertain: bool = False,
    ) -> dict[int, int]:
        """Return the instructions of the same function that control flow reaches, and their
        ends; with ``uncertain`` also those of which others make it uncertain that they are any."""

    def leads_to(self, code: Code, address: int) -> bool:
        """Return whether the instructions of ``code``, one after the other from its beginning,
        come to one at ``address``."""

    def may_loop_to_entry(self, parts: Sequence[Code]) -> bool:
        """Return whether bytes in a function's ``parts`` look like a jump to the beginning of the
        first one, or to parts without a name; asked before `exits`, which costs more."""

    def jumps(self, code: Code, to: range) -> Iterator[int]:
        """The addresses of whatever in ``code`` looks like a direct jump ``to`` some others."""

    def surely_returns(
        self, code: memoryview, address: int, returns: Callable[[int], bool]
    ) -> bool:
        """Return whether a path through the function at ``address`` ends in a return, if
        only those that it calls return of which ``returns`` says so."""

    def never_returns(self, body: Body, around: Around) -> bool:
        """Return whether no path through the function ends in a return or in another function."""


class GoSitePlanner(Protocol):
    """Chooses the places of probes in functions compiled by Go, and infers their values."""

    REGISTERS_SINCE: tuple[int, int]
    """The version of Go from which on functions take values in registers."""

    G: str
    """The register that has the goroutine, from that version on or always."""

    KEEPS_G: bool
    """Whether a register has the goroutine in every function, in assembly, too."""

    def entry(self, code: Code, keep: Collection[str]) -> Site | None:
        """Return a site at which a probe fires once per call, even if the function starts again
        with a larger stack, and the registers ``keep`` hold what they held at entry; None if there
        is none."""

    def finds_g(self, code: Code) -> bool:
        """Return whether the code finds the goroutine by itself, as no register has it."""

    def changes_g(self, code: Code) -> bool:
        """Return whether the function may return with something else in the goroutine's register
        than it was called with."""

    def finds_g_after(self, entry: EpilogueEntry) -> bool:
        """Return whether a function may put the goroutine into its register only after ``entry``,
        having called what left something else there."""

    def infer_registers(self, code: Code, integers: Sequence[str]) -> InferredRegisters:
        """Infer from the code which of the registers ``integers`` hold arguments and results."""

    def kept(self, code: Code) -> frozenset[str] | None:
        """Return the registers of arguments that are saved while the stack grows: where it has
        grown, others hold something else at the site of `entry`. None where it does not grow."""


class Kernel(Protocol):
    """``kernel.py``: what Linux has of the machine."""

    @property
    def PT_REGS(self) -> tuple[str, ...]:
        """The words of ``struct pt_regs``."""

    @property
    def PLAIN_ARGUMENTS(self) -> tuple[str, ...]:
        """What an event of an entry holds where its spec is plain: ``bpf_src/registers.h``."""

    @property
    def PLAIN_RESULTS(self) -> tuple[str, ...]:
        """The same of a return."""

    @property
    def BREAKPOINT(self) -> bytes:
        """The instruction that uprobes write over another."""

    @property
    def SYSTEM_CALL(self) -> bytes:
        """The instruction that calls the kernel."""

    def begins_short(self, code: bytes) -> bool:
        """Return whether the instruction with which ``code`` begins ends where a breakpoint there
        does, so that the next instruction can have one, too."""

    @property
    def SHADOW_STACKS(self) -> ShadowStacks | None:
        """What is known of shadow stacks; None where there are none."""


class Linking(Protocol):
    """``linking.py``: what linkers and the dynamic loader do. Numbers are types of relocations."""

    @property
    def RELATIVE(self) -> int:
        """The load address plus the addend."""

    @property
    def INDIRECT(self) -> int:
        """The relocation that fills a word with what a function returns."""

    @property
    def SLOTS(self) -> Collection[int]:
        """The address of a symbol, in a word of the GOT."""

    @property
    def THREAD_OFFSET(self) -> int:
        """How far a thread-local variable is from the thread pointer."""

    @property
    def CACHE_FLAGS(self) -> int:
        """The flags of libraries for the machine in ``/etc/ld.so.cache``."""

    def thread_place(self, code: bytes) -> int | None:
        """Return how far from the thread pointer the address lies that a function returns which
        begins with ``code`` and does nothing else; None of other functions."""

    def thread_block(self, size: int, alignment: int) -> int:
        """Return where a program's own thread-local storage is, from the thread pointer on."""

    def stubs(self, code: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Return the PLT stubs in a section at ``start``, and the slots through which they jump."""

    def slot_calls(self, code: bytes, start: int) -> Iterator[int]:
        """Return the slots through which code at ``start`` seems to call or jump (``-fno-plt``)."""


class JumpPatterns(Protocol):
    """``jump_patterns.py``: what can be said without decoding."""

    def reached(self, code: bytes, start: int) -> Iterator[int]:
        """Return the addresses to which code at ``start`` may jump, or which it may call."""

    def jumps(self, code: bytes) -> Iterator[int | None]:
        """Return where in ``code``, or outside of it, jumps lead; None for those through
        pointers."""


OPTIONAL = (
    "argument_stores",
    "caller_reads",
    "entry_reads",
    "prologues",
    "register_reads",
    "result_writes",
    "returned_first",
    "stack_exchanges",
    "type_marks",
)
"""Modules that a package may have: what compilers did to the values of a function, and coroutines
to stacks. Where one is missing, `lbtrace.machine.Machine` says that nothing is known."""

"""Programs that run on other stacks than those of their threads.

Layouts: ``ucontext_t`` in glibc's ``sysdeps/unix/sysv/linux/x86/sys/ucontext.h``
(and aarch64's, alike), ``stack_t`` in the kernel's ``asm-generic/signal.h``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache

from lbtrace import arch
from lbtrace.arch import StackSwitch
from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.elf.symbols import SHF_EXECINSTR, Symbols
from lbtrace.model import Fetch, Probe, ProbeKind, Site

EXCEPTIONS = (
    *("__cxa_throw", "__cxa_begin_catch", "__cxa_rethrow"),
    *("_Unwind_Resume", "_Unwind_RaiseException", "rust_eh_personality"),
)
"""Functions of a program through which exceptions, or Rust's panics, may pass."""

JUMPS = ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk")
"""Functions that leave calls behind. Of a call in the place of one that was left,
uretprobes cannot tell whether it was made by it."""

SWITCHES = ("makecontext", "swapcontext", "setcontext")
COROUTINE = re.compile(r"\.(actor|resume)$|\[clone \.(actor|resume)\]$")
"""The parts of a C++ coroutine, as gcc and clang name them."""

OFFERS = frozenset(JUMPS + SWITCHES)
OF_LIBRARIES = re.compile(r"_*(sig)?longjmp|_Unwind_|_*(set|swap)context$|_*_start_context$")
"""What takes up stacks in every static program, whether it is called or not."""

SETTERS: dict[str, tuple[ProbeKind, int, int]] = {
    "makecontext": ("stack", 16, 32),
    "sigaltstack": ("signal stack", 0, 16),
}
"""Who sets up a stack, and where behind the first argument its address and
its size are: ``uc_stack.ss_sp``, ``uc_stack.ss_size``; ``ss_sp``, ``ss_size``."""

FIRST_ARGUMENT = {"x86_64": "di", "aarch64": "x0"}


def reason(image: Image, table: Symbols, stubs: Mapping[int, Stub]) -> str:
    """Why the return addresses on this program's stacks should stay as they are, or ``""``."""
    names = {stub.name for stub in stubs.values()}
    coroutine = ""
    for function in table.functions:
        name = function.name
        if _matters(name, offered=name in table.versions):
            names.add(name)
        elif "." in name and not coroutine and COROUTINE.search(name):
            coroutine = f"the program has coroutines ({name})"
    thrower = next((name for name in EXCEPTIONS if name in names), "")
    if thrower:
        return f"exceptions follow return addresses ({thrower})"
    switch = next((name for name in SWITCHES if name in names), "")
    if coroutine or switch:
        return coroutine or f"the program switches stacks ({switch})"
    jump = next((name for name in JUMPS if name in names), "")
    if jump:
        return f"calls may be left by {jump}"
    found = switches(image, table)
    if not found:
        return ""
    place = _name(table, found[0].address) or f"{found[0].address:#x}"
    return f"the program switches stacks by itself ({place})"


def switches(image: Image, table: Symbols) -> list[StackSwitch]:
    """Where the program's own code takes up other stacks.

    The C library does so for those that call it, which is seen by their calls.
    """
    if not OFFERS.isdisjoint(table.versions):
        return []
    return [s for s in _switches(image) if not OF_LIBRARIES.match(_name(table, s.address))]


@lru_cache(maxsize=2)
def _switches(image: Image) -> list[StackSwitch]:
    """All of them; what asks for them asks more than once, and large code takes 10 ms."""
    search = arch.of(image.machine).stack_switches
    return [
        found
        for section in image.sections
        if section.flags & SHF_EXECINSTR
        for found in search(image.code(section.address, section.size), section.address)
    ]


def _name(table: Symbols, address: int) -> str:
    """The function that holds ``address``."""
    index = bisect_right(table.functions, address, key=lambda f: f.address)
    function = table.functions[index - 1] if index else None
    inside = function is not None and address < function.address + function.size
    return function.name if function is not None and inside else ""


def _matters(name: str, *, offered: bool) -> bool:
    """Whether a definition of ``name`` says something about the binary, which may be a
    library that offers it to others. Every static program has the unwinder."""
    if name in SWITCHES or name in JUMPS:
        return not offered
    return name in EXCEPTIONS and (offered or not name.startswith("_Unwind"))


def probes(image: Image, table: Symbols, stubs: Mapping[int, Stub]) -> Iterator[Probe]:
    """Probes that tell where the program sets up stacks, by calling through
    ``stubs`` or functions of its own, or switches them by itself. The function
    they name means nothing."""
    places = {at: stub.name for at, stub in stubs.items() if stub.name in SETTERS}
    places |= {f.address: name for f in table.functions for name in (f.name, *f.aliases)
               if name in SETTERS}  # fmt: skip
    register = FIRST_ARGUMENT[image.machine]
    for address, name in places.items():
        kind, start, size = SETTERS[name]
        fetches = tuple(
            Fetch(register=register, offset=offset, read="integer") for offset in (start, size)
        )
        site = Site(address, image.offset(address), reason=f"tells the stacks of {name}")
        yield Probe(0, kind, site, result_fetches=fetches)
    for switch in switches(image, table):
        if switch.pointer is not None:
            site = Site(switch.address, image.offset(switch.address), reason="takes up a stack")
            yield Probe(0, "switch", site, result_fetches=(switch.pointer,))

"""Programs that run on other stacks than those of their threads.

Layouts: ``ucontext_t`` in glibc's ``sysdeps/unix/sysv/linux/x86/sys/ucontext.h``
(and aarch64's, alike), ``stack_t`` in the kernel's ``asm-generic/signal.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.elf.symbols import Symbols
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

SETTERS: dict[str, tuple[ProbeKind, int, int]] = {
    "makecontext": ("stack", 16, 32),
    "sigaltstack": ("signal stack", 0, 16),
}
"""Who sets up a stack, and where behind the first argument its address and
its size are: ``uc_stack.ss_sp``, ``uc_stack.ss_size``; ``ss_sp``, ``ss_size``."""

FIRST_ARGUMENT = {"x86_64": "di", "aarch64": "x0"}


def reason(table: Symbols, stubs: Mapping[int, Stub]) -> str:
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
    return f"calls may be left by {jump}" if jump else ""


def _matters(name: str, *, offered: bool) -> bool:
    """Whether a definition of ``name`` says something about the binary, which may be a
    library that offers it to others. Every static program has the unwinder."""
    if name in SWITCHES or name in JUMPS:
        return not offered
    return name in EXCEPTIONS and (offered or not name.startswith("_Unwind"))


def probes(image: Image, table: Symbols, stubs: Mapping[int, Stub]) -> Iterator[Probe]:
    """Probes that tell where the program sets up stacks, by calling through
    ``stubs`` or functions of its own. The function they name means nothing."""
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

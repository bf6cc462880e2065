"""Where code goes on that calls have been left for: behind exceptions and longjmp.

All that lies below the stack pointer there is gone. Probes that tell it keep calls
made from there from counting as made inside of those that were left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from lbtrace import arch
from lbtrace.arch import Code
from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.elf.symbols import SHF_EXECINSTR, Symbols
from lbtrace.model import Probe, Site

TWICE = frozenset({"setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp"})
"""Functions that return once more where longjmp leads."""

CATCH = re.compile(
    r"__cxa_begin_catch$|_R.*_3std9panicking(3try|12catch_unwind)7cleanup$"
    r"|_ZN3std9panicking(3try|12catch_unwind)7cleanup17h\w+E$"
)
"""What every handler of C++ calls first (Itanium C++ ABI, exception handling, 2.5.3), and
where Rust catches panics (library/std/src/panicking.rs)."""

LONGEST_INSTRUCTION = 15
"""Intel SDM 2.3.11."""


def probes(
    image: Image, table: Symbols, stubs: Mapping[int, Stub], pads: Iterable[int]
) -> Iterator[Probe]:
    """Probes at the landing ``pads`` of traced functions, and where others of ``image``
    catch exceptions, or call setjmp. The function they name means nothing."""
    architecture = arch.of(image.machine)
    planner = architecture.planner()
    twice, catches = _called(table, stubs)
    behind = set(pads)
    for section in image.sections:
        if twice and section.flags & SHF_EXECINSTR:
            code = image.code(section.address, section.size)
            behind.update(architecture.behind_calls(code, section.address, twice, table.starts))
    for address in sorted(behind):
        code = image.code(address, LONGEST_INSTRUCTION)
        only = Code(code, address, image.offset(address), address + 1)
        site = planner.choose(only, (), returns=False)
        if site is not None:
            yield _probe(replace(site, sp_delta=-architecture.CALL_SINKS))
    for address in sorted(catches):
        yield _probe(Site(address, image.offset(address)))


def _probe(site: Site) -> Probe:
    return Probe(0, "landing", replace(site, reason="tells which calls were left"))


def _called(table: Symbols, stubs: Mapping[int, Stub]) -> tuple[set[int], set[int]]:
    """Where functions that return twice, and those that handlers call, begin, or their stubs."""
    twice: set[int] = set()
    catches: set[int] = set()
    named = [(at, stub.name) for at, stub in stubs.items()]
    named += [(f.address, name) for f in table.functions for name in (f.name, *f.aliases)]
    for address, name in named:
        if name in TWICE:
            twice.add(address)
        elif CATCH.match(name):
            catches.add(address)
    return twice, catches

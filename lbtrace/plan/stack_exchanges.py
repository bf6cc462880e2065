"""Probes where coroutines exchange what is on one stack.

greenlet copies the part of the C stack that a coroutine uses to the heap, and that of the one that
goes on back to where it was (``slp_switch``, src/greenlet/platform/switch_amd64_unix.h; gevent and
eventlet stand on it). So calls of several that wait have the same frames, and a return may be that
of any. Between two exchanges all calls and returns are of one coroutine: the calls that are open at
an exchange end there, as far as can be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Probe, Site
from lbtrace.plan.code_context import CodeContext
from lbtrace.plan.python_packages import find_modules

MODULE = "greenlet/_greenlet"
"""What exchanges what is on stacks, as its package has it."""


def find_loadable(programs: Iterable[str]) -> list[str]:
    """Return the files that exchange what is on stacks and that ``programs`` may load."""
    return find_modules(programs, MODULE)


def plan_probes(image: Image) -> Iterator[Probe]:
    """Yield probes on the instructions by which ``image`` takes up what was exchanged: they move
    the stack pointer by a register's value."""
    try:
        table = image.once(symbols.read_any)
    except BinaryError:
        return
    machine = Machine(image.machine)
    sites = ProbeSites(machine, CodeContext(image, table, machine))
    for section in image.sections:
        if not section.flags & SHF_EXECINSTR:
            continue
        code = image.view(section.address, section.size)
        for address in machine.find_stack_exchanges(code, section.address):
            site = sites.at(address)
            if isinstance(site, Site):
                yield Probe(replace(site, reason="exchanges what is on the stack"), "exchange")

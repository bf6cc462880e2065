"""Switches between stacks that a process has set up before its trace begins.

Calls of makecontext tell where the stacks of a program lie (`lbtrace.plan.stack_switches`), so the
C library's switches between them need no probes. Those that were set up earlier are known only by
these switches: where swapcontext and setcontext load the stack pointer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Fetch, Probe, Site
from lbtrace.plan.code_context import Surroundings

SWITCHING = ("swapcontext", "setcontext")
"""The functions whose code does it. What begins to run by makecontext ends in the latter."""

WANTED = Wanted(SWITCHING)


def plan_probes(image: Image) -> Iterator[Probe]:
    """Yield probes on the instructions by which the C library that ``image`` is, or has a copy of,
    continues on other stacks."""
    try:
        table = image.once(symbols.read)
    except BinaryError:
        return
    machine = Machine(image.machine)
    sites = ProbeSites(machine, Surroundings(image, table, machine))
    for function in table.functions.wanted(WANTED):
        if not {function.name, *function.aliases}.intersection(SWITCHING):
            continue
        code = image.view(function.address, function.size)
        start_of = partial(_same, function.address)
        for switch in machine.find_stack_switches(code, function.address, start_of):
            site = sites.at(switch.address)
            if switch.pointer is not None and isinstance(site, Site):
                yield _probe(site, switch.pointer, machine)


def _same(start: int, _: int) -> int:
    return start


def _probe(site: Site, pointer: Fetch, machine: Machine) -> Probe:
    """What reports a switch. A context has the stack pointer that its caller continues with: above
    the return address. Nothing shows that one is on the same stack, but a call made there."""
    reporting = replace(
        site, sp_delta=machine.return_address_size, reason="continues on another stack"
    )
    return Probe(reporting, "switch", fetches=(pointer, Fetch(base="constant", offset=0)))

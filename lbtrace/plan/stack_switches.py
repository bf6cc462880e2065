"""Programs that run on other stacks than those of their threads.

Layouts: ``ucontext_t`` in glibc's ``sysdeps/unix/sysv/linux/x86/sys/ucontext.h``
(and aarch64's, alike), ``stack_t`` in the kernel's ``asm-generic/signal.h``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache

from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.elf import symbols
from lbtrace.elf.functions import Functions
from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stubs
from lbtrace.elf.symbol_table import Wanted
from lbtrace.elf.symbols import SHF_EXECINSTR, Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.code import StackSwitch
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Fetch, Probe, Prototype, Site
from lbtrace.plan import labelled_code
from lbtrace.plan.code_context import Surroundings
from lbtrace.plan.value_selection import long

JUMPS = ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk")
SWITCHES = ("makecontext", "swapcontext", "setcontext")
OFFERS = frozenset(JUMPS + SWITCHES)
"""Functions of the C library that take up stacks for those that call them."""

OF_LIBRARIES = re.compile(r"_*(sig)?longjmp|_Unwind_|_*(set|swap)context$|_*_start_context$")
"""What takes up stacks in every static program, whether it is called or not."""

SETTERS: dict[str, tuple[str, int]] = {
    "makecontext": ("stack", 16),
    "sigaltstack": ("signal stack", 0),
}
"""Functions that set up a stack, the role of the probe on them, and where after the first
argument its ``stack_t`` is: ``uc_stack``, or the argument itself."""

DESCRIPTION = ((0, 8), (16, 8), (8, 4))
"""Offsets and sizes in a ``stack_t`` of ``ss_sp``, ``ss_size`` and ``ss_flags``."""

WANTED = Wanted(SETTERS)


def _first_argument(machine: str) -> str:
    """The register in which a function of C gets its first argument."""
    (location,) = locate_values(machine, Prototype((long(""),))).parameters
    return min(location.registers)


def switches(image: Image, table: Symbols, sites: ProbeSites | None = None) -> list[StackSwitch]:
    """Return where the program's own code takes up other stacks: where a function's code leads to
    what looks like it."""
    found = _candidates(image, table)
    if not found:
        return []
    if sites is None:
        machine = Machine(image.machine)
        sites = ProbeSites(machine, Surroundings(image, table, machine))
    return [switch for switch in found if sites.is_instruction(switch.address)]


def find_unseen(image: Image, table: Symbols, seen: Container[int]) -> int | None:
    """Return where the program's own code takes up another stack, or seems to, besides where that
    is ``seen``: in code that no symbol or only one without a type names, or in a way that does not
    tell which stack it is. What is amid a function, but not seen to be reached, is none, unless the
    function has others: where one is inlined, the address that it pushes leads on."""
    found = [s for s in _candidates(image, table) if (s.resumes or s.back) and s.keeps]
    unseen = [switch for switch in found if switch.address not in seen]
    if not unseen:
        return None
    machine, unwind = Machine(image.machine), Unwind(image)
    around = Surroundings(image, table, machine)
    sites = ProbeSites(machine, around)
    for switch in unseen:
        address = switch.address
        if sites.is_instruction(address) or _is_beside(table, address, found):
            return address
        before = (labelled_code.start_before(table, address), unwind.end_before(address))
        start = max((each for each in before if each is not None), default=None)
        if start is None or unwind.range_of(address) is not None:
            continue
        code = around.stretch(start, address + 1)
        if address - start < labelled_code.FARTHEST and machine.exit_finder().leads_to(
            code, address
        ):
            return address
    return None


def _is_beside(table: Symbols, address: int, switches: Sequence[StackSwitch]) -> bool:
    """Whether the function that has an address has several of the ``switches``, by a register each:
    OCaml raises exceptions by loads."""
    function = table.functions.holding(address)
    if function is None:
        return False
    within = range(function.address, function.address + function.size)
    beside = [s for s in switches if s.address in within and s.pointer]
    held = {s.address for s in beside if s.pointer and s.pointer.read == "value"}
    return address in held and len(held) > 1


def first_unnamed(image: Image) -> int | None:
    """Return where a file without symbols seems to take up another stack, and to come back."""
    return next((s.address for s in _similar(image) if s.resumes and s.keeps), None)


def switching_functions(image: Image, table: Symbols) -> Iterator[tuple[int, str]]:
    """Yield where the program takes up other stacks, and the functions that do, by their addresses,
    with their names; assembly may be called that has no symbol, or none with a type."""
    for switch in _candidates(image, table):
        function = table.functions.holding(switch.address)
        if function is not None and switch.address < function.address + function.size:
            yield function.address, function.name
        yield switch.address, f"code at {switch.address:#x}"


def _candidates(image: Image, table: Symbols) -> list[StackSwitch]:
    """What looks like switches, but for those of the C library: it switches for those that
    call it, which is seen by their calls."""
    if any(map(table.default_version, OFFERS)):
        return []
    return [s for s in _similar(image) if not OF_LIBRARIES.match(_name(table, s.address))]


@lru_cache(maxsize=2)
def _similar(image: Image) -> list[StackSwitch]:
    """What looks like one; it is asked for more than once, and large code takes 10 ms."""
    return [*similar(image)]


def similar(image: Image) -> Iterator[StackSwitch]:
    """Yield what looks like a switch of stacks; what is no code may look so too."""
    search, start_of = Machine(image.machine).find_stack_switches, _starts(image)
    for section in image.sections:
        if section.flags & SHF_EXECINSTR:
            code = image.view(section.address, section.size)
            yield from search(code, section.address, start_of)


def _functions(image: Image) -> Functions | None:
    """Those that symbols name; None in a file that is stripped."""
    try:
        return image.once(symbols.read).functions
    except BinaryError:
        return None


def _starts(image: Image) -> Callable[[int], int | None]:
    """What tells where the code around an address begins that a symbol or a frame description is
    for. Assembly may have neither: then it is what follows the code before it."""
    unwind = Unwind(image)

    def start_of(address: int) -> int | None:
        functions = image.once(_functions)
        extent = functions.extent(address) if functions else None
        if extent is not None and address in extent:
            return extent.start
        start = unwind.start_of(address)
        return unwind.end_before(address) if start is None else start

    return start_of


def _name(table: Symbols, address: int) -> str:
    """The function that holds ``address``."""
    function = table.functions.holding(address)
    inside = function is not None and address < function.address + function.size
    return function.name if function is not None and inside else ""


def plan_probes(image: Image, table: Symbols, stubs: Stubs, sites: ProbeSites) -> Iterator[Probe]:
    """Yield probes that report where the program sets up stacks, by calling through ``stubs`` or
    functions of its own, or switches them by itself."""
    places = {at: name for at, name in stubs.wanted(WANTED) if name in SETTERS}
    own = table.functions.wanted(WANTED)
    places |= {f.address: name for f in own for name in (f.name, *f.aliases) if name in SETTERS}
    register = _first_argument(image.machine)
    for address, name in places.items():
        role, start = SETTERS[name]
        fetches = tuple(
            Fetch(register=register, offset=start + offset, read="integer", size=size)
            for offset, size in DESCRIPTION
        )
        site = sites.start(address, image.offset(address), stub=address in stubs)
        if site is not None:
            reporting = replace(site, reason=f"reports the stacks of {name}")
            yield Probe(reporting, role, fetches=fetches)
    for switch, found in _sites(image, table, stubs, sites):
        if switch.pointer is not None and isinstance(found, Site):
            reporting = replace(found, reason="enters another stack")
            left = Fetch(base="constant", offset=int(not switch.keeps))
            yield Probe(reporting, "switch", fetches=(switch.pointer, left))
            back = sites.at(switch.back.address) if switch.back else None
            if switch.back and isinstance(back, Site):
                reporting = replace(back, reason="comes back to its stack")
                yield Probe(reporting, "switch back", fetches=(switch.back.pointer,))


def _sites(
    image: Image, table: Symbols, stubs: Stubs, sites: ProbeSites
) -> Iterator[tuple[StackSwitch, Site | str]]:
    """Yield the switches to which code leads that symbols of functions name, or labels that are
    called, and the sites there."""
    others: list[StackSwitch] = []
    for switch in _candidates(image, table):
        if sites.is_instruction(switch.address):
            yield switch, sites.at(switch.address)
        elif switch.resumes:
            others.append(switch)
    labelled = labelled_code.sites_at_labels(image, table, stubs, [s.address for s in others])
    if labelled is not None:
        yield from ((switch, labelled.at(switch.address)) for switch in others)

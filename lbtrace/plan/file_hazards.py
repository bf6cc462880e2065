"""What a file has against uretprobes in the processes that map it.

It is judged by the names that it imports or has copies of (`lbtrace.plan.hazard_table`),
whatever way it calls them; a program without a dynamic section by its symbols. What they do not
show is searched for in its code.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from lbtrace.elf import symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.go import build
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.elf.symbols import SHF_EXECINSTR, SHT_SYMTAB, Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.code import StackSwitch
from lbtrace.plan import hidden_calls, signal_coroutines, stack_switches
from lbtrace.plan.hazard_table import (
    CALLED,
    HAZARDS,
    RECORDS,
    SETS_HANDLERS,
    SWITCHED,
    SYSTEM,
    THROWN,
    UNWOUND,
    Danger,
    Hazard,
    hazard_of,
    plain_name,
    wanted_names,
    wanted_patterns,
)
from lbtrace.system.lookups import remembering

GO = "Go's runtime switches stacks"
SWITCH = "code switches stacks by itself"
ON_SIGNAL_STACKS = "coroutines may run on stacks for signals"

STATIC = ("_Unwind_", "__register_frame", "dl_iterate_phdr", "_dl_find_object", "__gcc_personality")
"""What every static program has a copy of, used or not: beginnings of names of libgcc and
the C library."""

CPP_BEGINNINGS = ("_ZNSt", "_ZNKSt", "_ZSt")
CPP_NAMES = frozenset(
    {
        *("_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t", "__dynamic_cast"),
        *("__cxa_bad_cast", "__cxa_bad_typeid", "__cxa_throw_bad_array_new_length"),
    }
)
"""What a file imports in which exceptions may begin though it has no code for any: operator new,
dynamic_cast, the standard library."""

_OFFERED = frozenset({"stack", "left", "handler"})
"""The dangers of functions that a file defines. No file has a copy of ``dlopen`` to load
plugins."""


class Finding(NamedTuple):
    """What a file has against uretprobes: a clause, and by which name that is seen."""

    danger: Danger
    why: str
    path: str
    name: str = ""
    imported: bool = False

    def describe(self, path: str) -> str:
        """Return the reason as the user reads it, for functions of the file at ``path``."""
        if path == self.path:
            return f"{self.why} ({self.name})" if self.name else self.why
        file = os.path.basename(self.path)
        has = "imports" if self.imported else "at" if self.name.startswith("0x") else "has"
        return f"{self.why} ({file} {has} {self.name})" if self.name else f"{self.why} ({file})"


@remembering(512)
def of_file(path: str, _identity: object = None) -> tuple[Finding, ...]:
    """Return what the file at ``path`` has against uretprobes in its processes, one of each
    danger."""
    try:
        image = Image.open(path)
        return tuple(_findings(image))
    except BinaryError:
        return ()  # mapped, but no code


def may_switch_itself(path: str, identity: object) -> Literal["", "seems", "unsearched"]:
    """Return whether code of the file at ``path`` seems to switch stacks by itself, or may do so:
    it is not searched where a name tells of a hazard."""
    found = [each for each in of_file(path, identity) if each.danger == "stack"]
    if any(each.why == SWITCH for each in found):
        return "seems"
    by_name = any(each.why != GO and not each.name.startswith("0x") for each in found)
    return "unsearched" if by_name else ""


def of_traced_file(image: Image, table: Symbols, *, every: bool = True) -> Iterator[Finding]:
    """The same for a traced file, with what its own code shows: without ``every`` only where
    nothing else speaks for that danger, as code takes long to read."""
    named = any(section.type == SHT_SYMTAB for section in image.sections)
    found = [*_findings(image, scan=not named)]
    yield from found
    known = any(finding.danger == "stack" for finding in found)
    left = any(finding.why in (THROWN, SWITCHED) for finding in found)
    handles = not left and _sets_handlers(image, image.once(Dynamic))
    if not every and known and not handles:
        return
    if why := stack_switches.why_hazardous(image, table):
        yield Finding("stack", why, image.path)
        if handles:
            yield Finding("handler", SWITCHED, image.path)


def _findings(image: Image, *, scan: bool = True) -> Iterator[Finding]:
    """The first finding of each danger in the table, and all of what handlers of signals may do.
    With ``scan`` the code is searched for switches of stacks, where no name tells."""
    path = image.path
    dynamic = image.once(Dynamic)
    if SYSTEM.match(dynamic.soname):
        return
    dangers: dict[Danger, None] = {}
    if build.is_go(image):
        yield Finding("stack", GO, path)
        yield Finding("handler", GO, path, "Go")
        dangers.update({"stack": None})
    handles = _sets_handlers(image, dynamic)
    named = _ranked(image, dynamic, handles=handles)
    for hazard, name, imported in named:
        # A handler's may be harmless in a process, and hides no other then.
        if hazard.danger not in dangers or hazard.danger == "handler":
            dangers[hazard.danger] = None
            yield Finding(hazard.danger, hazard.why, path, name, imported)
    if "stack" not in dangers:
        by_signals = [*_on_signal_stacks(image, named)]
        yield from by_signals
        dangers.update({finding.danger: None for finding in by_signals})
    acts = {""}
    for hazard, name, imported in named if handles else ():
        if hazard.in_handler not in acts:
            acts.add(hazard.in_handler)
            yield Finding("handler", hazard.in_handler, path, name, imported)
    if handles and THROWN not in acts and (name := _of_cpp(dynamic)):
        acts.add(THROWN)
        yield Finding("handler", THROWN, path, name, imported=True)
    handles = handles and acts.isdisjoint((THROWN, SWITCHED))
    wanted = scan and (handles or "stack" not in dangers)
    if wanted and (address := _switch(image)) is not None:
        yield Finding("stack", SWITCH, path, f"{address:#x}")
        if handles:
            yield Finding("handler", SWITCHED, path, f"{address:#x}")
    elif "stack" not in dangers and (address := _walker(image)) is not None:
        yield Finding("stack", "code follows frame pointers", path, f"{address:#x}")


def _ranked(image: Image, dynamic: Dynamic, *, handles: bool) -> list[tuple[Hazard, str, bool]]:
    """The hazards among the names in a file that decide, the first of each danger before others;
    ``handles``: it sets handlers of signals."""
    named = [*_named(image, dynamic, wanted_names())]
    if more := _open_patterns(named, handles=handles):
        named += _named(image, dynamic, wanted_patterns(more))
    if all(hazard.danger != "loads" for hazard, _, _ in named):  # that speaks against as much
        named += _asked(image)
    named.sort(key=_rank)
    return named


def _on_signal_stacks(image: Image, named: Iterable[tuple[Hazard, str, bool]]) -> Iterator[Finding]:
    """What there is against uretprobes where the names in a file are those of coroutines that
    handlers of signals make."""
    if all(name != signal_coroutines.SETTER for _, name, _ in named):
        return
    if jump := signal_coroutines.find_jump(image):
        imported = jump in image.once(Dynamic).imports
        yield Finding("stack", ON_SIGNAL_STACKS, image.path, jump, imported)


_ORDER = {id(hazard): number for number, hazard in enumerate(HAZARDS)}


def _rank(found: tuple[Hazard, str, bool]) -> tuple[int, int, str]:
    hazard, name, _ = found
    order = hazard.names.index(name) if name in hazard.names else len(hazard.names)
    return _ORDER[id(hazard)], order, name


def _open_patterns(found: Iterable[tuple[Hazard, str, bool]], *, handles: bool) -> frozenset[int]:
    """The hazards whose patterns may still give the first finding of a danger, by number; of a
    file that ``handles`` signals also those that show what its handlers may do."""
    in_handlers = {"", *(hazard.in_handler for hazard, _, _ in found)}
    first: dict[Danger, int] = {}
    for hazard, _, _ in found:
        number = _ORDER[id(hazard)]
        first[hazard.danger] = min(number, first.get(hazard.danger, number))
    return frozenset(
        number
        for number, hazard in enumerate(HAZARDS)
        if hazard.pattern
        and (
            number < first.get(hazard.danger, len(HAZARDS))
            or (handles and hazard.in_handler not in in_handlers)
        )
    )


def _named(image: Image, dynamic: Dynamic, wanted: Wanted) -> Iterator[tuple[Hazard, str, bool]]:
    """The hazards among ``wanted`` names that a file imports, or has a copy of."""
    for name in dynamic.imports.wanted(wanted):
        hazard = hazard_of(name)
        if hazard:
            yield hazard, name, True
    static = not dynamic.needed
    for name in {*dynamic.exports.wanted(wanted), *_local(image, wanted)}:
        plain = plain_name(name)
        hazard = hazard_of(plain)
        if hazard and hazard.danger in _OFFERED and not (static and plain.startswith(STATIC)):
            yield hazard, plain, False


def _asked(image: Image) -> Iterator[tuple[Hazard, str, bool]]:
    """The hazards among the names for which a file may ask the loader."""
    for name in hidden_calls.asked_names(image, hidden_calls.NAMES):
        if hazard := hazard_of(name):
            yield hazard, name, True


def _sets_handlers(image: Image, dynamic: Dynamic) -> bool:
    """Whether code of a file sets handlers of signals that may leave what they interrupt."""
    if RECORDS.match(dynamic.soname):
        return False
    wanted = Wanted(SETS_HANDLERS)
    if any(dynamic.imports.wanted(wanted)):
        return True
    return not dynamic.needed and not SETS_HANDLERS.isdisjoint(_local(image, wanted))


def _of_cpp(dynamic: Dynamic) -> str:
    """A function of the library of C++ that a file imports, if any."""
    names = dynamic.imports.wanted(Wanted(CPP_NAMES, CPP_BEGINNINGS))
    return next((n for n in sorted(names) if n in CPP_NAMES or n.startswith(CPP_BEGINNINGS)), "")


def _local(image: Image, wanted: Wanted) -> set[str]:
    """The names of functions in a symbol table that the loader has no use of; those ``wanted``,
    and maybe others."""
    if not any(section.type == SHT_SYMTAB for section in image.sections):
        return set()
    try:
        table = image.once(symbols.read)
    except BinaryError:
        return set()
    return {name for f in table.functions.wanted(wanted) for name in (f.name, *f.aliases)}


def _switch(image: Image) -> int | None:
    """Where code seems to take up another stack."""
    found = own_switches(image.path, image.file.identity)
    return found[0].address if found else None


@remembering(512)
def own_switches(path: str, _identity: object) -> tuple[StackSwitch, ...]:
    """Return where code of a file seems to take up other stacks; large code takes long to
    search."""
    try:
        return tuple(stack_switches.similar(Image.open(path)))
    except BinaryError:  # replaced since
        return ()


def _walker(image: Image) -> int | None:
    """Where code seems to read return addresses by frame pointers."""
    search, following = Machine(image.machine).find_walkers, image.once(Unwind).following
    return next((at for part in _code(image) for at in search(*part, following)), None)


def _code(image: Image) -> Iterator[tuple[memoryview, int]]:
    """The sections of code, and their addresses."""
    for section in image.sections:
        if section.flags & SHF_EXECINSTR:
            yield image.view(section.address, section.size), section.address


@remembering(512)
def unwinds(path: str, _identity: object = None) -> bool:
    """Whether functions of the file at ``path`` may clean up when they are unwound."""
    try:
        dynamic = Image.open(path).once(Dynamic)
    except BinaryError:
        return False
    if SYSTEM.match(dynamic.soname) or CALLED.match(dynamic.soname):
        return False
    # What a static program has of a C library is not told from what it uses.
    return not dynamic.needed or not dynamic.imports.isdisjoint(UNWOUND)

"""Why return addresses must stay as they are in the processes that run a binary.

Asked are the files that a process maps, traced or not: what the loader brings with a
program, or what a running process has mapped. Each is judged by the names that it imports or has
copies of (`lbtrace.plan.hazard_table`), whatever way it calls them; a program without a dynamic
section by its symbols. What is not known counts as dangerous: a library that is not found, plugins
where something imports ``dlopen``, any program where other programs may run a library.

Two questions are answered. *May calls that are open be thrown through, moved away from or
read?* Then only functions that call nothing of the kind may have a uretprobe
(`lbtrace.plan.harmless_functions`). *May any call be harmed, by a signal handler?* The kernel keeps
a list of pending returns for each thread, and drops those whose frames lie below the stack pointer
at the next hooked call. A handler on an alternate stack above the thread's has such a stack
pointer: whatever hooked function it calls, all that the interrupted code has pending is
dropped, and the first of those to return executes the trampoline without a pending return,
which is SIGILL. That the functions are leaves does not help: one is interrupted, and the
handler calls it, or another. So where an alternate stack may be set up no function has a
uretprobe, unless the entry program refuses the hook on such stacks.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from lbtrace.elf import symbols
from lbtrace.elf.dynamic import AnyOf, Dynamic
from lbtrace.elf.go import build
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure, closure
from lbtrace.elf.symbol_table import Wanted
from lbtrace.elf.symbols import SHF_EXECINSTR, SHT_SYMTAB, Symbols
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.plan import stack_switches
from lbtrace.plan.call_graph import TracedBinary
from lbtrace.plan.hazard_table import (
    HAZARDS,
    SYSTEM,
    Danger,
    Hazard,
    hazard_of,
    plain_name,
    wanted_names,
    wanted_patterns,
)
from lbtrace.system.lookups import remembering

STRANGERS = "processes outside the request would be changed, too"
ANY_PROGRAM = "any program may run it, even one that throws"
GO = "Go's runtime switches stacks"
ALTSTACKS = "signal handlers may run on alternate stacks"

STATIC = ("_Unwind_", "__register_frame", "dl_iterate_phdr", "_dl_find_object", "__gcc_personality")
"""What every static program has a copy of, used or not: beginnings of names of libgcc and
the C library."""

_UNWINDS = frozenset({"_Unwind_Resume", "__gcc_personality_v0", "__gxx_personality_v0"})
"""What a file imports whose functions clean up when they are unwound. Where none does,
threads that are cancelled at any instruction end without reading return addresses."""

_HANDLED = frozenset({"sigaction", "signal", "__sysv_signal", "bsd_signal", "sigset", "sigvec"})
_THROWN = frozenset({"__cxa_throw", "__cxa_rethrow"})
"""What sets handlers of signals, and what such a handler in the same file may throw with (gcc
-fnon-call-exceptions): through any function that it interrupts. Rust's handlers cannot."""

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


class Forbidden(NamedTuple):
    """Why no uretprobe may be used in the processes of a binary: in ``most`` functions, all
    but harmless ones, or in ``all``; empty where nothing is known against them. ``left``
    says why one may mislead in most, though it harms nothing. ``others`` are the names that
    other files offer there, None where that may be any."""

    most: str = ""
    all: str = ""
    left: str = ""
    others: Container[str] | None = frozenset()


class _Process(NamedTuple):
    """What one process maps, and what was not found of it."""

    paths: tuple[str, ...]
    missing: tuple[str, ...] = ()


def forbidden(
    parts: Sequence[TracedBinary],
    tables: Sequence[Symbols],
    beside: Closure | None,
    *,
    strangers: bool = False,
    altstack_checked: bool = False,
) -> list[Forbidden]:
    """Return what is against uretprobes in the processes that run each of ``parts``.

    ``beside`` is what the traced processes map besides, None where that may be anything.
    See `lbtrace.plan.selection.Selection` for the others.
    """
    own = {
        part.image.file.identity: tuple(_own(part.image, table, every=False))
        for part, table in zip(parts, tables, strict=True)
    }
    processes = [*_processes(parts, beside)]
    found: list[Forbidden] = []
    for part in parts:
        image = part.image
        mine = [p for p in processes if not image.is_program or _holds(p, image)]
        unknown = not image.is_program and (beside is None or strangers)
        findings = [f for process in mine for f in _of_process(process, own)]
        findings.sort(key=lambda finding: finding.path != image.path)  # its own come first
        missing = next((name for process in mine for name in process.missing), "")
        found.append(_decided(image, findings, missing, unknown, strangers, altstack_checked))
        if not unknown:
            found[-1] = found[-1]._replace(others=_offered(mine, image))
    return found


def survey(image: Image, beside: Closure | None) -> list[str]:
    """Return all that is known against uretprobes in the processes that run ``image``, in words."""
    try:
        table = image.once(symbols.read)
    except BinaryError:
        return []
    part = TracedBinary(image, {}, ())
    own = {image.file.identity: tuple(_own(image, table))}
    found = [f for p in _processes([part], beside) for f in _of_process(p, own)]
    if image.is_program:  # what it starts maps files of its own
        found = [finding for finding in found if finding.danger != "starts"]
    return list(dict.fromkeys(finding.describe(image.path) for finding in found))


def _decided(
    image: Image,
    findings: Sequence[Finding],
    missing: str,
    unknown: bool,
    strangers: bool,
    altstack_checked: bool,
) -> Forbidden:
    first: dict[Danger, str] = {}
    for finding in findings:
        if altstack_checked and finding.name in ("sigaltstack", "Go"):
            continue
        first.setdefault(finding.danger, finding.describe(image.path))
    starts = "" if image.is_program else first.get("starts", "")
    anything = ANY_PROGRAM if unknown else f"{ANY_PROGRAM}: {starts}" if starts else ""
    absent = f"{missing}, which it needs, is not found" if missing else ""
    loads = first.get("loads", "")
    stranger = STRANGERS if strangers else ""
    most = first.get("stack", "") or anything or absent or loads or stranger
    every = first.get("handler", "")
    if not every and not altstack_checked and (doubt := anything or absent or loads):
        every = f"{ALTSTACKS}: {doubt}"
    others = None if anything or strangers else frozenset[str]()
    return Forbidden(most, every, first.get("left", ""), others)


def _processes(parts: Sequence[TracedBinary], beside: Closure | None) -> Iterator[_Process]:
    """The processes of the programs among ``parts``, and the one with what is ``beside``.
    The libraries among ``parts`` may be in any."""
    libraries = [part.image.path for part in parts if not part.image.is_program]
    programs = [part.image for part in parts if part.image.is_program]
    with_libraries = _loaded(libraries)
    if beside is not None and beside.paths:
        yield _Process((*beside.paths, *with_libraries.paths), beside.missing)
        known = set(map(_identity, beside.paths))
        programs = [image for image in programs if image.file.identity not in known]
    for program in programs:
        loaded = closure(program.path, os.environ)
        yield _Process((*loaded.paths, *with_libraries.paths), loaded.missing)
    if not programs and not (beside and beside.paths):
        yield _Process(with_libraries.paths, with_libraries.missing)


def _loaded(libraries: Sequence[str]) -> Closure:
    """What comes with ``libraries`` where a process loads them."""
    if not libraries:
        return Closure()
    return closure(libraries[0], os.environ, more=libraries[1:])


def _holds(process: _Process, image: Image) -> bool:
    return any(_identity(path) == image.file.identity for path in process.paths)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _of_process(
    process: _Process, own: dict[tuple[int, int], tuple[Finding, ...]]
) -> Iterator[Finding]:
    for identity, path in {_identity(path): path for path in process.paths}.items():
        if identity is not None:
            yield from own[identity] if identity in own else of_file(path, identity)


@remembering(512)
def of_file(path: str, _identity: object = None) -> tuple[Finding, ...]:
    """Return what the file at ``path`` has against uretprobes in its processes, one of each
    danger."""
    try:
        image = Image.open(path)
        return tuple(_findings(image))
    except BinaryError:
        return ()  # mapped, but no code


def _own(image: Image, table: Symbols, *, every: bool = True) -> Iterator[Finding]:
    """The same for a traced file, with what its own code shows: without ``every`` only where
    nothing else speaks for that danger, as code takes long to read."""
    named = any(section.type == SHT_SYMTAB for section in image.sections)
    found = [*_findings(image, scan=not named)]
    yield from found
    if not every and any(finding.danger == "stack" for finding in found):
        return
    if why := stack_switches.why_hazardous(image, table):
        yield Finding("stack", why, image.path)


def _findings(image: Image, *, scan: bool = True) -> Iterator[Finding]:
    """One finding of each danger, the first of the table. Without a name that shows the stack the
    code is searched for switches, with ``scan``."""
    path = image.path
    dynamic = image.once(Dynamic)
    if SYSTEM.match(dynamic.soname):
        return
    dangers: dict[Danger, None] = {}
    if build.is_go(image):
        yield Finding("stack", GO, path)
        yield Finding("handler", GO, path, "Go")
        dangers.update({"stack": None})
    named = [*_named(image, dynamic, wanted_names())]
    if more := _open_patterns(named):
        named += _named(image, dynamic, wanted_patterns(more))
    for hazard, name, imported in sorted(named, key=_rank):
        if hazard.danger not in dangers or name == "sigaltstack":
            if name != "sigaltstack":  # which may be checked, and hides no other then
                dangers[hazard.danger] = None
            yield Finding(hazard.danger, hazard.why, path, name, imported)
    if "handler" not in dangers and (name := _thrown_by_handlers(image, dynamic)):
        yield Finding("handler", "signal handlers may throw exceptions", path, name, True)
    if scan and "stack" not in dangers and (address := _switch(image)) is not None:
        yield Finding("stack", "code switches stacks by itself", path, f"{address:#x}")
    elif "stack" not in dangers and (address := _walker(image)) is not None:
        yield Finding("stack", "code follows frame pointers", path, f"{address:#x}")


_ORDER = {id(hazard): number for number, hazard in enumerate(HAZARDS)}


def _rank(found: tuple[Hazard, str, bool]) -> tuple[int, int, str]:
    hazard, name, _ = found
    order = hazard.names.index(name) if name in hazard.names else len(hazard.names)
    return _ORDER[id(hazard)], order, name


def _open_patterns(found: Iterable[tuple[Hazard, str, bool]]) -> frozenset[int]:
    """The hazards whose patterns may still give the first finding of a danger, by number."""
    first: dict[Danger, int] = {}
    for hazard, _, _ in found:
        number = _ORDER[id(hazard)]
        first[hazard.danger] = min(number, first.get(hazard.danger, number))
    return frozenset(
        number
        for number, hazard in enumerate(HAZARDS)
        if hazard.pattern and number < first.get(hazard.danger, len(HAZARDS))
    )


def _named(image: Image, dynamic: Dynamic, wanted: Wanted) -> Iterator[tuple[Hazard, str, bool]]:
    """The hazards among ``wanted`` names that a file imports, or has a copy of."""
    unwinds = not dynamic.imports.isdisjoint(_UNWINDS)
    for name in dynamic.imports.wanted(wanted):
        hazard = hazard_of(name)
        if hazard and (unwinds or name != "pthread_setcanceltype"):
            yield hazard, name, True
    static = not dynamic.needed
    for name in {*dynamic.exports.wanted(wanted), *_local(image, wanted)}:
        plain = plain_name(name)
        hazard = hazard_of(plain)
        if hazard and hazard.danger in _OFFERED and not (static and plain.startswith(STATIC)):
            yield hazard, plain, False


def _thrown_by_handlers(image: Image, dynamic: Dynamic) -> str:
    """With what a file may throw from handlers of signals that it sets; empty where it cannot."""
    wanted = Wanted(_HANDLED | _THROWN)
    names = {*dynamic.imports.wanted(wanted)}
    if not dynamic.needed:
        names |= _local(image, wanted)
    thrown = sorted(names & _THROWN)
    return thrown[0] if thrown and names & _HANDLED else ""


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
    return next((switch.address for switch in stack_switches.similar(image)), None)


def _walker(image: Image) -> int | None:
    """Where code seems to read return addresses by frame pointers."""
    search = Machine(image.machine).find_walkers
    return next((address for part in _code(image) for address in search(*part)), None)


def _code(image: Image) -> Iterator[tuple[memoryview, int]]:
    """The sections of code, and their addresses."""
    for section in image.sections:
        if section.flags & SHF_EXECINSTR:
            yield image.view(section.address, section.size), section.address


def _offered(processes: Sequence[_Process], image: Image) -> Container[str]:
    """What the other files of ``processes`` offer that are none of the system's."""
    mine = image.file.identity
    paths = dict.fromkeys(path for process in processes for path in process.paths)
    return AnyOf([_exports(path, _identity(path)) for path in paths if _identity(path) != mine])


@remembering(512)
def _exports(path: str, _identity: object) -> Container[str]:
    try:
        dynamic = Dynamic(Image.open(path))
    except BinaryError:
        return frozenset()
    return frozenset() if SYSTEM.match(dynamic.soname) else dynamic.exports

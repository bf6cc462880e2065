"""Why return addresses must stay as they are in the processes that run a binary.

Asked are the files that a process maps, traced or not: what the loader brings with a
program, or what a running process has mapped (`lbtrace.plan.file_hazards`). What is not known
counts as dangerous: a library that is not found, plugins where something imports ``dlopen``, any
program where other programs may run a library.

Two questions are answered. *May calls that are open be thrown through, moved away from or
read?* Then only functions that call nothing of the kind may have a uretprobe
(`lbtrace.plan.harmless_functions`). *May any call be harmed, by a signal handler?* The kernel keeps
a list of pending returns for each thread, and drops those whose frames lie below the stack pointer
at the next hooked call. A handler on an alternate stack above the thread's has such a stack
pointer: whatever hooked function it calls, all that the interrupted code has pending is
dropped, and the first of those to return executes the trampoline without a pending return,
which is SIGILL. That the functions are leaves does not help: one is interrupted, and the
handler calls it, or another. So where an alternate stack may be set up no function has a
uretprobe, unless the entry program refuses the hook on such stacks. Nor has any where a file that
sets handlers may throw, end its thread by unwinding, or switch stacks: its handlers may do so to
whatever they interrupt.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from lbtrace.elf import symbols
from lbtrace.elf.dynamic import AnyOf, Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure, closure
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import BinaryError
from lbtrace.plan.call_graph import TracedBinary
from lbtrace.plan.file_hazards import Finding, of_file, of_traced_file, unwinds
from lbtrace.plan.hazard_table import IF_UNWOUND, SYSTEM, Danger
from lbtrace.system.lookups import remembering

STRANGERS = "processes outside the request would be changed, too"
ANY_PROGRAM = "any program may run it, even one that throws"
PROBED = "another tool may probe it in any program, even in one that throws"
ALTSTACKS = "signal handlers may run on alternate stacks"


class Forbidden(NamedTuple):
    """Why no uretprobe may be used in the processes of a binary: in ``most`` functions, all
    but harmless ones, or in ``all``; empty where nothing is known against them. ``left``
    says why one may mislead in most, though it harms nothing. ``others`` are the names that
    other files offer there, None where that may be any."""

    most: str = ""
    all: str = ""
    left: str = ""
    others: Container[str] | None = frozenset()


class Process(NamedTuple):
    """What one process maps, and what was not found of it."""

    paths: tuple[str, ...]
    missing: tuple[str, ...] = ()


def forbidden(
    parts: Sequence[TracedBinary],
    tables: Sequence[Symbols],
    beside: Closure | None,
    *,
    strangers: bool = False,
    shared: bool = False,
    altstack_checked: bool = False,
) -> list[Forbidden]:
    """Return what is against uretprobes in the processes that run each of ``parts``.

    ``beside`` is what the traced processes map besides, None where that may be anything.
    See `lbtrace.plan.selection.Selection` for the others.
    """
    own = {
        part.image.file.identity: tuple(of_traced_file(part.image, table, every=False))
        for part, table in zip(parts, tables, strict=True)
    }
    running = [*processes(parts, beside)]
    found: list[Forbidden] = []
    for part in parts:
        image = part.image
        mine = [p for p in running if not image.is_program or _holds(p, image)]
        unknown = ""
        if not image.is_program:
            unknown = ANY_PROGRAM if beside is None or strangers else PROBED if shared else ""
        findings = [f for process in mine for f in _of_process(process, own)]
        findings.sort(key=lambda finding: finding.path != image.path)  # its own come first
        missing = next((name for process in mine for name in process.missing), "")
        # Where the hook is shared, the program looks at the calls of one process only.
        checked = altstack_checked and unknown != PROBED
        found.append(_decided(image, findings, missing, unknown, strangers, checked))
        if _may_preload(image, beside):
            found[-1] = found[-1]._replace(others=None)
        elif not unknown:
            found[-1] = found[-1]._replace(others=_offered(mine, image))
    return found


def _may_preload(image: Image, beside: Closure | None) -> bool:
    """Whether a program may run in processes that have preloaded what is not known: as it is not
    the command, or not the process, that is traced, but something may start it."""
    if not image.is_program or beside == Closure():
        return False
    return beside is None or image.file.identity not in map(identity_of, beside.paths)


def survey(image: Image, beside: Closure | None) -> list[str]:
    """Return all that is known against uretprobes in the processes that run ``image``, in words."""
    try:
        table = image.once(symbols.read)
    except BinaryError:
        return []
    part = TracedBinary(image, {}, ())
    own = {image.file.identity: tuple(of_traced_file(image, table))}
    found = [f for p in processes([part], beside) for f in _of_process(p, own)]
    if image.is_program:  # what it starts maps files of its own
        found = [finding for finding in found if finding.danger != "starts"]
    return list(dict.fromkeys(finding.describe(image.path) for finding in found))


def _decided(
    image: Image,
    findings: Sequence[Finding],
    missing: str,
    unknown: str,
    strangers: bool,
    altstack_checked: bool,
) -> Forbidden:
    first: dict[Danger, str] = {}
    for finding in findings:
        if altstack_checked and finding.name in ("sigaltstack", "Go"):
            continue
        first.setdefault(finding.danger, finding.describe(image.path))
    starts = "" if image.is_program else first.get("starts", "")
    anything = unknown or (f"{ANY_PROGRAM}: {starts}" if starts else "")
    absent = f"{missing}, which it needs, is not found" if missing else ""
    loads = first.get("loads", "")
    stranger = STRANGERS if strangers else ""
    most = first.get("stack", "") or anything or absent or loads or stranger
    every = first.get("handler", "")
    if not every and not altstack_checked and (doubt := anything or absent or loads):
        every = f"{ALTSTACKS}: {doubt}"
    others = None if anything or strangers else frozenset[str]()
    return Forbidden(most, every, first.get("left", ""), others)


def processes(parts: Sequence[TracedBinary], beside: Closure | None) -> Iterator[Process]:
    """Yield the processes of the programs among ``parts``, and the one with what is ``beside``.
    The libraries among ``parts`` may be in any."""
    libraries = [part.image.path for part in parts if not part.image.is_program]
    programs = [part.image for part in parts if part.image.is_program]
    with_libraries = _loaded(libraries)
    if beside is not None and beside.paths:
        yield Process((*beside.paths, *with_libraries.paths), beside.missing)
        known = set(map(identity_of, beside.paths))
        programs = [image for image in programs if image.file.identity not in known]
    for program in programs:
        loaded = closure(program.path, os.environ)
        yield Process((*loaded.paths, *with_libraries.paths), loaded.missing)
    if not programs and not (beside and beside.paths):
        yield Process(with_libraries.paths, with_libraries.missing)


def _loaded(libraries: Sequence[str]) -> Closure:
    """What comes with ``libraries`` where a process loads them."""
    if not libraries:
        return Closure()
    return closure(libraries[0], os.environ, more=libraries[1:])


def _holds(process: Process, image: Image) -> bool:
    return any(identity_of(path) == image.file.identity for path in process.paths)


def identity_of(path: str) -> tuple[int, int] | None:
    """Return device and inode of the file at ``path``; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _of_process(
    process: Process, own: dict[tuple[int, int], tuple[Finding, ...]]
) -> Iterator[Finding]:
    paths = {identity_of(path): path for path in process.paths}
    paths.pop(None, None)
    found: list[Finding] = []
    for identity, path in paths.items():
        found += own[identity] if identity in own else of_file(path, identity)
    unwound = _is_of_unwinding(found) and any(unwinds(path, i) for i, path in paths.items())
    for finding in found:
        if unwound or finding.danger != "handler" or finding.name not in IF_UNWOUND:
            yield finding


def _is_of_unwinding(found: Iterable[Finding]) -> bool:
    return any(each.danger == "handler" and each.name in IF_UNWOUND for each in found)


def _offered(processes: Sequence[Process], image: Image) -> Container[str]:
    """What the other files of ``processes`` offer that are none of the system's."""
    mine = image.file.identity
    paths = dict.fromkeys(path for process in processes for path in process.paths)
    return AnyOf([_exports(path, identity_of(path)) for path in paths if identity_of(path) != mine])


@remembering(512)
def _exports(path: str, _identity: object) -> Container[str]:
    try:
        dynamic = Dynamic(Image.open(path))
    except BinaryError:
        return frozenset()
    return frozenset() if SYSTEM.match(dynamic.soname) else dynamic.exports

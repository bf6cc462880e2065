"""Finds the functions of libraries that a program calls: what ``ltrace`` shows."""

from __future__ import annotations

import os

from msgspec.structs import replace

from lbtrace.elf import debugfile, symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, UsageError, option
from lbtrace.naming import NAMING
from lbtrace.plan.warnings import name_functions
from lbtrace.session.found_libraries import Found, merged, open_libraries
from lbtrace.session.request import Request
from lbtrace.targets.images import find_mapped_files, open_images
from lbtrace.text import some

NO_CALLS = frozenset({"__libc_start_main", "__cxa_finalize", "__gmon_start__"})
"""Functions that start-up code calls: all else happens inside the first."""


def find(request: Request) -> Found:
    """Return the request for what the programs of processes or a command import from the libraries
    that they load, of each function the first that the loader finds.

    Raises `UsageError` where no process or command is named, `NoMatchError` where there are none,
    and `LbtraceError`, as opening these files does.
    """
    each = [replace(request, target=target) for target in request.target.each()]
    return merged(request, [_find(own) for own in each])


def _find(request: Request) -> Found:
    target = request.target
    around = find_mapped_files(target)
    if around is None:
        raise UsageError(
            f"{option('libcalls')} is about what a program loads",
            f"give {option('pid', 'PID')} or a command",
        )
    opened = open_images(target, request.binaries)
    program = opened.images[0]
    left = _imported(program)
    patterns, images, indirect = list[str](), [], set[str]()
    for library in open_libraries(target, around, opened.images):
        table = library.symbols
        resolved = {function.name for function in table.chosen(left & set(table.ifuncs))}
        indirect |= (left & set(table.ifuncs)) - resolved
        left -= indirect
        named = table.functions.named
        found = sorted(n for n in left if n in resolved or any(not f.local for f in named(n)))
        if found:
            images.append(library.image)
            patterns += [f"{name}@{library.image.path}" for name in found]
            left.difference_update(found)
    if not images:
        raise NoMatchError(
            f"{program.path}: calls no function of a library that it loads",
            f"a static program has them itself: name some with {option('func')}",
        )
    functions = "1 function" if len(patterns) == 1 else f"{len(patterns):,} functions"
    files = some([os.path.basename(image.path) for image in images])
    notes = [f"traces the {functions} of {files} that {program.path} calls"]
    why = "left out because the code is chosen at run time (ifunc)"
    notes += name_functions(sorted(indirect), why)
    chosen = replace(request, patterns=(*request.patterns, *patterns))
    more = request.patterns or any(NAMING[name].place != "kernel" for name in request.named)
    kept = opened.images if more else opened.images[:1]
    return Found(chosen, [*kept, *images], [*opened.notes, *notes])


def find_instead(request: Request) -> Found | None:
    """Return the same for a stripped program of which no function is named, where it calls more
    functions of libraries than have a name in itself. None where it is not such a program.

    Raises `LbtraceError`, as opening these files does.
    """
    opened = open_images(request.target, request.binaries)
    program = opened.images[0]
    if len(opened.images) > 1 or program.has_symbol_table or debugfile.search(program).found:
        return None
    if len(symbols.read_any(program).functions) >= len(_imported(program)):
        return None
    try:
        found = find(replace(request, libcalls=True))
    except (NoMatchError, UsageError):
        return None
    at = len(opened.notes)
    said = f"{program.path} is stripped: {found.notes[at]}"
    return found._replace(notes=[*found.notes[:at], said, *found.notes[at + 1 :]])


def _imported(program: Image) -> set[str]:
    """The names of the functions that a program calls in libraries."""
    dynamic = program.once(Dynamic)
    names = {dynamic.bound(symbol)[0] for symbol in dynamic.slots.values()}
    return {name for name in names if name} - NO_CALLS

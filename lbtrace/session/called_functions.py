"""Finds the functions of libraries that a program calls: what ``ltrace`` shows."""

from __future__ import annotations

import os

from msgspec.structs import replace

from lbtrace.elf.dynamic import Dynamic
from lbtrace.errors import NoMatchError, UsageError, option
from lbtrace.naming import NAMING
from lbtrace.plan.warnings import name_functions, some
from lbtrace.session.found_libraries import Found, open_libraries
from lbtrace.session.request import Request
from lbtrace.targets.images import find_mapped_files, open_images

NO_CALLS = frozenset({"__libc_start_main", "__cxa_finalize", "__gmon_start__"})
"""Functions that start-up code calls: all else happens inside the first."""


def find(request: Request) -> Found:
    """Return the request for what the program of a process or command imports from the libraries
    that it loads, of each function the first that the loader finds.

    Raises `UsageError` where no process or command is named, `NoMatchError` where there are none,
    and `LbtraceError`, as opening these files does.
    """
    target = request.target
    around = find_mapped_files(target)
    if around is None:
        raise UsageError(
            f"{option('libcalls')} is about what a program loads",
            f"give {option('pid', 'PID')} or a command",
        )
    opened = open_images(target, request.binaries)
    program = opened.images[0]
    dynamic = program.once(Dynamic)
    imported = {dynamic.bound(symbol)[0] for symbol in dynamic.slots.values()} - NO_CALLS
    left = {name for name in imported if name}
    patterns, images, indirect = list[str](), [], set[str]()
    for library in open_libraries(target, around, opened.images):
        table = library.symbols
        indirect |= left & set(table.ifuncs)
        left -= indirect
        known = table.functions
        found = sorted(name for name in left if any(not f.local for f in known.named(name)))
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
    kept = opened.images if more else []
    return Found(chosen, [*kept, *images], [*opened.notes, *notes])

"""Functions by the source file that defines them: see `lbtrace.plan.found.Finder`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import BinaryError, NoMatchError
from lbtrace.model import Function
from lbtrace.plan.patterns import addressed
from lbtrace.plan.selection import Selection


def find(images: Sequence[Image], selection: Selection) -> Iterator[Function]:
    """Yield the functions that the source files which ``selection`` names define.

    Raises `BinaryError` where no image has debug information, `NoMatchError` where none was
    compiled from such a file, or it defines no function that has code of its own.
    """
    for each in selection.named["source"]:
        meant, pattern = addressed(each, [image.path for image in images])
        found = [_defined(images[n], pattern) for n in meant]
        for n, (functions, _, _) in zip(meant, found, strict=True):
            yield from (replace(function, binary=n) for function in functions)
        if not any(functions for functions, _, _ in found):
            error = _explain([images[n].path for n in meant], pattern, found)
            from lbtrace.plan import inlined  # imported here: most files define functions

            inlined.settle(error, images, selection, "source", each)


Found = tuple[list[Function], set[str], set[str] | BinaryError]


def _defined(image: Image, pattern: str) -> Found:
    """The functions that files of this name define, these files, and all files; or why none
    is known."""
    # Imported here because most plans select no sources.
    from lbtrace.dwarf.sources import find_functions, path_test

    table = image.once(symbols.read)
    try:
        defined = find_functions(image, path_test(pattern))
    except BinaryError as error:
        return [], set(), error
    return functions_at(defined.addresses, table), defined.files, defined.paths


def functions_at(addresses: Iterable[int], table: Symbols) -> list[Function]:
    """Return the functions that begin at ``addresses``, in their order."""
    found = ((at, table.functions.holding(at)) for at in sorted({*addresses}))
    return [function for at, function in found if function and function.address == at]


def _explain(paths: Sequence[str], pattern: str, found: Sequence[Found]) -> NoMatchError:
    """Why nothing was found. Raises `BinaryError` where no file is known."""
    named = " or ".join(paths)
    unknown = [each for _, _, each in found if isinstance(each, BinaryError)]
    if len(unknown) == len(found):
        raise unknown[0]
    if any(files for _, files, _ in found):
        return NoMatchError(
            f"{pattern}: defines no function of {named} that has code of its own",
            "its functions may be inlined: trace those that call them",
        )
    known = {path for _, _, each in found if isinstance(each, set) for path in each}
    return no_source_file(known, pattern, paths)


def no_source_file(
    known: Collection[str], pattern: str, paths: Sequence[str], what: str = ""
) -> NoMatchError:
    """Return the error for a ``pattern`` that none of the ``known`` source files of the binaries
    ``paths`` has; with ``what`` is asked of them."""
    named = " or ".join(paths)
    if not known:
        return NoMatchError(
            f"{pattern}: the debug information of {named} names no source files",
            "build it again with -g; lbtrace list shows its functions",
        )
    near = nearest_paths(known, pattern)
    return NoMatchError(
        f"{pattern}: is no source file of {named}{what}",
        f"nearest names: {', '.join(near)}" if near else _how_to_list(paths[0]),
    )


def _how_to_list(path: str) -> str:
    import shlex  # imported here because only a mistyped name needs it

    return f"lbtrace list --binary {shlex.quote(path)} shows the source files of functions"


def nearest_paths(paths: Iterable[str], pattern: str) -> list[str]:
    """Return at most three of ``paths`` whose names are like the last of ``pattern``, each by as
    much of its end as is needed to tell it from the others."""
    import difflib  # imported here because only a mistyped name needs it

    by_name: dict[str, list[str]] = {}
    for path in sorted(paths):
        by_name.setdefault(os.path.basename(path), []).append(path)
    wanted = os.path.basename(pattern.rstrip("/")).strip("*?[]^$") or pattern
    near = difflib.get_close_matches(wanted, by_name, n=3, cutoff=0.5)
    near += [name for name in by_name if wanted and wanted in name and name not in near]
    return [name if len(by_name[name]) == 1 else by_name[name][0] for name in near[:3]]

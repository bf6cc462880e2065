"""Functions by their names (see `lbtrace.plan.found.Finder`), and without those excluded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from lbtrace.elf import symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, option
from lbtrace.model import Function
from lbtrace.naming import NAMING
from lbtrace.plan import patterns
from lbtrace.plan.patterns import BinarySymbols, addressed
from lbtrace.plan.selection import Selection
from lbtrace.text import counted
from lbtrace.validation import split_listed

ALL = "*"
"""Means all functions but those of `lbtrace.plan.runtime_code`."""

LEFT_OUT = "leaves out {} of {}, which '*' does not take: name those to trace, as '{}'"


def tells_left_out(note: str) -> bool:
    """Return whether a note is about what ``*`` leaves out, which can be traced another time."""
    return note.startswith(LEFT_OUT.partition("{")[0])


LANGUAGES = (
    (("_ZN3std", "_ZN4core", "_ZN5alloc", "_R"), "std, core and start-up code", "std::*"),
    (("_Z",), "std:: and start-up code", "std::*"),
    (("runtime.",), "Go's runtime", "runtime.*"),
)
"""How symbols of the language begin, what is left out of its programs, a pattern for that."""

NOT = "!"
"""Begins a pattern of functions that are excluded."""


def split_excluded(
    wanted: Sequence[str], excluded: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns that are wanted, and those that are excluded, ``!PATTERN`` among them;
    of each with commas those between."""
    wanted, excluded = split_listed(wanted), split_listed(excluded)
    negated = [each[len(NOT) :] for each in wanted if _is_negated(each)]
    left = [each for each in wanted if not _is_negated(each)]
    return tuple(left), (*excluded, *negated)


def split_named(patterns: Iterable[str]) -> dict[str, list[str]]:
    """Return the patterns by the option that names so: ``NAME:PATTERN`` is one of the option
    ``NAME`` (`lbtrace.naming`), others are of functions. ``NAME::`` is a namespace."""
    named: dict[str, list[str]] = {}
    for pattern in patterns:
        name, _, rest = pattern.partition(":")
        other = name in NAMING and rest and not rest.startswith(":")
        named.setdefault(name if other else "func", []).append(rest if other else pattern)
    return named


def _is_negated(pattern: str) -> bool:
    return len(pattern) > len(NOT) and pattern.startswith(NOT)


def find(images: Sequence[Image], selection: Selection) -> Iterator[Function | str]:
    """Yield the functions that ``selection`` names. Raises `UsageError`, `NoMatchError`."""
    return find_named(images, selection, "func", selection.named["func"])


def find_named(
    images: Sequence[Image], selection: Selection, asked: str, wanted: Iterable[str]
) -> Iterator[Function | str]:
    """Yield the functions that the patterns ``wanted`` mean, values of the option ``asked``, and
    notes. Raises `UsageError`, `NoMatchError`."""
    binaries = read_symbols(images, selection)
    for pattern in wanted:
        try:
            yield from select(binaries, pattern, asked)
        except NoMatchError as error:
            from lbtrace.plan import inlined  # imported here: most patterns match

            inlined.settle(error, images, selection, asked, pattern)


def read_symbols(images: Iterable[Image], selection: Selection) -> list[BinarySymbols]:
    """Return the symbols of ``images``. Raises `BinaryError`."""
    later = selection.loads_later
    read = symbols.read_any if selection.libcalls else symbols.read  # of stripped programs
    return [
        BinarySymbols(each.path, each.once(read), partial(_loads, each), later) for each in images
    ]


def _loads(image: Image, name: str) -> Sequence[str]:
    dynamic = image.once(Dynamic)
    return dynamic.needed if name in dynamic.imports else ()


def select(
    binaries: Sequence[BinarySymbols], pattern: str, asked: str = "func"
) -> Iterator[Function | str]:
    """Yield the functions of each binary that a pattern means, a value of the option ``asked``,
    and a note on those that it leaves out.

    A function is called by the name that matched, a copy that the compiler made of it by
    its own. Raises `UsageError` for a pattern that is no regular expression, `NoMatchError` for one
    that matches nothing in any binary.
    """
    meant, name = addressed(pattern, [binary.path for binary in binaries])
    found = {n: patterns.find(binaries[n].symbols, name, asked) for n in meant}
    if not any(found.values()):
        from lbtrace.plan import unmatched  # imported here: most patterns match

        raise unmatched.explain([binaries[n] for n in found], name, asked)
    left_out: list[Function] = []
    for n, functions in found.items():
        kept = functions
        if pattern == ALL and asked == "func":
            kept = _without_runtime(binaries[n], functions)
            taken = {function.address for function in kept}
            left_out += [each for each in functions if each.address not in taken]
        yield from (replace(each, binary=n) for each in kept) if n else kept
    if left_out:
        yield _say_left_out(left_out)


def merge(
    binaries: Sequence[BinarySymbols],
    functions: Iterable[Function],
    excluded: Sequence[str] = (),
    *,
    full_names: bool = False,
) -> tuple[list[list[Function]], list[str]]:
    """Return those of each binary in the order of their addresses, each called as in its source,
    without those that are ``excluded``; and notes. Raises `UsageError` for a pattern that is no
    regular expression, `NoMatchError` where all are excluded."""
    chosen: list[dict[int, Function]] = [{} for _ in binaries]
    for function in functions:
        chosen[function.binary].setdefault(function.address, function)
    notes = _exclude(chosen, binaries, excluded)
    ordered = ([known[address] for address in sorted(known)] for known in chosen)
    return [patterns.readable(each, full_names=full_names) for each in ordered], notes


def _without_runtime(binary: BinarySymbols, functions: list[Function]) -> list[Function]:
    """Those of all ``functions`` of a binary that ``*`` means."""
    from lbtrace.plan import runtime_code  # imported here: most patterns name something

    if runtime_code.STANDARD_LIBRARIES.match(os.path.basename(binary.path)):
        return functions
    return runtime_code.without(functions, binary.symbols) or functions


def _say_left_out(functions: Sequence[Function]) -> str:
    """What to say of functions that ``*`` does not mean."""
    kinds, such = "start-up code", functions[0].name
    for prefixes, of, pattern in LANGUAGES:
        if any(each.name.startswith(prefixes) for each in functions):
            kinds, such = of, pattern
            break
    return LEFT_OUT.format(counted(len(functions), "function"), kinds, such)


def _exclude(
    chosen: Sequence[dict[int, Function]],
    binaries: Sequence[BinarySymbols],
    excluded: Sequence[str],
) -> list[str]:
    """Remove what is excluded, and return what to say of patterns that exclude nothing. Raises
    `NoMatchError` where nothing remains."""
    before = sum(map(len, chosen))
    idle = []
    for left_out in excluded:
        meant, name = addressed(left_out, [binary.path for binary in binaries])
        removed = [
            n
            for n in meant
            for function in patterns.find(binaries[n].symbols, name, "exclude")
            if chosen[n].pop(function.address, None)
        ]
        if not removed:
            idle.append(f"{left_out}: is excluded, but means none of the chosen functions")
    if before and not any(chosen):
        all_of_them = "the one function" if before == 1 else f"all {before:,} functions"
        raise NoMatchError(
            f"{', '.join(excluded)}: leaves out {all_of_them} that {option('func')} names",
            f"narrow {option('exclude')}",
        )
    return idle

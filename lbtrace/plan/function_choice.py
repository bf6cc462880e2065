"""Chooses functions: those that patterns name, without those that are excluded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lbtrace.errors import NoMatchError, option
from lbtrace.model import Function
from lbtrace.naming import NAMING
from lbtrace.plan import patterns
from lbtrace.plan.patterns import BinarySymbols, addressed
from lbtrace.validation import split_listed

ALL = "*"
"""Means all functions but those of `lbtrace.plan.runtime_code`."""

LEFT_OUT = "leaves out {:,} functions of {}, which '*' does not take: name those to trace, as '{}'"

LANGUAGES = (
    (("_ZN3std", "_ZN4core", "_ZN5alloc", "_R"), "std, core and start-up code", "std::*"),
    (("_Z",), "std:: and start-up code", "std::*"),
    (("runtime.",), "Go's runtime", "runtime.*"),
)
"""How symbols of the language begin, what is left out of its programs, a pattern for that."""

NOT = "!"
"""Begins a pattern of functions that are excluded."""


class Choice(NamedTuple):
    """The functions of each binary, in the order of their addresses, and what to say of them."""

    functions: list[list[Function]]
    notes: list[str]


def split_excluded(
    wanted: Sequence[str], excluded: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns that are wanted, and those that are excluded, ``!PATTERN`` among them;
    of each with commas those between."""
    wanted, excluded = split_listed(wanted), split_listed(excluded)
    negated = [each[len(NOT) :] for each in wanted if _is_negated(each)]
    left = [each for each in wanted if not _is_negated(each)]
    return tuple(left), (*excluded, *negated)


def split_named(patterns: Iterable[str]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the patterns of functions, and those that are written ``NAME:PATTERN``, which another
    option names (`lbtrace.naming`). ``NAME::`` is a namespace."""
    functions, named = list[str](), dict[str, list[str]]()
    for pattern in patterns:
        name, _, rest = pattern.partition(":")
        if name in NAMING and NAMING[name].finder and rest and not rest.startswith(":"):
            named.setdefault(name, []).append(rest)
        else:
            functions.append(pattern)
    return tuple(functions), named


def _is_negated(pattern: str) -> bool:
    return len(pattern) > len(NOT) and pattern.startswith(NOT)


def select(
    binaries: Sequence[BinarySymbols],
    wanted: Sequence[str],
    others: Sequence[Sequence[Function]] = (),
    asked: str = "func",
    *,
    full_names: bool = False,
) -> list[list[Function]]:
    """Return the functions of `choose`, if nothing is excluded."""
    return choose(binaries, wanted, (), others, asked, full_names=full_names).functions


def choose(
    binaries: Sequence[BinarySymbols],
    wanted: Sequence[str],
    excluded: Sequence[str],
    others: Sequence[Sequence[Function]] = (),
    asked: str = "func",
    *,
    full_names: bool = False,
) -> Choice:
    """Return the functions of each binary that match any of the patterns ``wanted``, values of the
    option ``asked``, and ``others``, which were selected otherwise, without those that are
    ``excluded``.

    A function is called by the name that matched, a copy that the compiler made of it by
    its own. Raises `UsageError` for a pattern that is no regular expression, `NoMatchError` for a
    wanted one that matches nothing in any binary, and where all are excluded.
    """
    chosen: list[dict[int, Function]] = [{} for _ in binaries]
    notes: list[str] = []
    for pattern in wanted:
        found = _find(binaries, pattern, asked)
        if not any(found.values()):
            from lbtrace.plan import unmatched  # imported here: most patterns match

            _, name = addressed(pattern, [binary.path for binary in binaries])
            raise unmatched.explain([binaries[n] for n in found], name, asked)
        left_out: list[Function] = []
        for n, functions in found.items():
            kept = functions
            if pattern == ALL and asked == "func":
                kept = _without_runtime(binaries[n], functions)
                taken = {function.address for function in kept}
                left_out += [each for each in functions if each.address not in taken]
            for function in kept:
                chosen[n].setdefault(function.address, function)
        if left_out:
            notes.append(_say_left_out(left_out))
    for known, more in zip(chosen, others, strict=bool(others)):
        known.update({f.address: f for f in more if f.address not in known})
    notes += _exclude(chosen, binaries, excluded)
    ordered = ([known[address] for address in sorted(known)] for known in chosen)
    return Choice([patterns.readable(each, full_names=full_names) for each in ordered], notes)


def _find(
    binaries: Sequence[BinarySymbols], pattern: str, asked: str
) -> Mapping[int, list[Function]]:
    """What a pattern means in each of the binaries that it is for."""
    meant, name = addressed(pattern, [binary.path for binary in binaries])
    return {n: patterns.find(binaries[n].symbols, name, asked) for n in meant}


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
    return LEFT_OUT.format(len(functions), kinds, such)


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
        removed = 0
        for n, functions in _find(binaries, left_out, "exclude").items():
            removed += sum(chosen[n].pop(f.address, None) is not None for f in functions)
        if not removed:
            idle.append(f"{left_out}: is excluded, but means none of the chosen functions")
    if before and not any(chosen):
        all_of_them = "the one function" if before == 1 else f"all {before:,} functions"
        raise NoMatchError(
            f"{', '.join(excluded)}: leaves out {all_of_them} that {option('func')} names",
            f"narrow {option('exclude')}",
        )
    return idle

"""Which functions the user means: exact names, globs and ``/regular expressions/``.

Behind any of them ``@BINARY`` narrows to one of the binaries: ``write@libc.so.6``.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.elf import demangle
from lbtrace.elf.demangle import is_mangled
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import NoMatchError, UsageError
from lbtrace.model import Function

_WHITESPACE = re.compile(r"\s+")

COPY = re.compile(r"(\.(constprop|isra|lto_priv|llvm)\.\w+)+")
"""What gcc and LLVM append to the names of whole copies of functions: who calls such a
copy, calls the function."""

COMPARED = 20_000
"""Names compared, at most, to find the nearest ones: a fraction of a second."""


class Searched(NamedTuple):
    """A binary whose functions are selected."""

    path: str
    symbols: Symbols


def select(binaries: Sequence[Searched], patterns: Sequence[str]) -> list[list[Function]]:
    """The functions of each binary that match any of ``patterns``, in the order of
    their addresses.

    A function is called by the name that matched, a copy that the compiler made of it by
    its own. Raises `UsageError` for a
    pattern that is no regular expression, `NoMatchError` for one that matches
    nothing in any binary.
    """
    chosen: list[dict[int, Function]] = [{} for _ in binaries]
    for pattern in patterns:
        meant, name = addressed(pattern, [binary.path for binary in binaries])
        matched = [_matched(binaries[n].symbols, name) for n in meant]
        if not any(matched):
            raise _no_match([binaries[n] for n in meant], name)
        for n, functions in zip(meant, matched, strict=True):
            for function in functions:
                chosen[n].setdefault(function.address, function)
    return [readable([found[address] for address in sorted(found)]) for found in chosen]


def addressed(pattern: str, paths: Sequence[str]) -> tuple[list[int], str]:
    """Which of the binaries at ``paths`` a pattern is for, by position, and what is
    to match there.

    A binary is named by its path or the end of it, a library also by its file name
    without what is behind ``.so``, or without that as well.
    """
    name, _, binary = pattern.rpartition("@")
    meant = [n for n, path in enumerate(paths) if name and _is_called(path, binary)]
    return (meant, name) if meant else (list(range(len(paths))), pattern)


def _is_called(path: str, name: str) -> bool:
    stem, library, _ = os.path.basename(path).partition(".so")
    return name in (path, stem + library, stem) or path.endswith(f"/{name}")


def _matched(symbols: Symbols, pattern: str) -> list[Function]:
    matched = _exact(symbols, pattern)
    if not matched and (matches := _matcher(pattern)):
        matched = [f for f in (_named(f, matches) for f in symbols.functions) if f]
    return matched or _demangled(symbols, pattern)


def readable(functions: Sequence[Function]) -> list[Function]:
    """``functions`` under their names in the source; mangled names become aliases.

    Names are given without parameter list, unless several have the same.
    """
    if not any(is_mangled(f.name) for f in functions):
        return list(functions)
    names = [demangle.short(f.name) for f in functions]
    often = Counter(names)
    return [
        _renamed(f, name if often[name] == 1 else demangle.demangled(f.name))
        for f, name in zip(functions, names, strict=True)
    ]


def matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Those of ``names`` that any of ``patterns`` means."""
    matchers = [_matcher(p) or p.__eq__ for p in patterns]
    return [name for name in names if any(matches(name) for matches in matchers)]


def _exact(symbols: Symbols, pattern: str) -> list[Function]:
    name, _, version = pattern.partition("@@")
    if version and symbols.versions.get(name) != version:
        return []
    found = [_renamed(f, name) for f in symbols.functions if f.name == name or name in f.aliases]
    before = f"{name}."
    copies = [f for f in symbols.functions if f.name.startswith(before)]
    return found + [f for f in copies if COPY.fullmatch(f.name, len(name))]


def _demangled(symbols: Symbols, pattern: str) -> list[Function]:
    """The functions with this name in the source, with or without parameter list."""
    if not re.search(r"\w", pattern):
        return []
    # Mangling keeps identifiers: few names need to be demangled.
    plain = re.sub(r"\(anonymous namespace\)|<[^<>]*>|\boperator\b.*", " ", pattern)
    identifiers = re.findall(r"\w+", plain.split("(")[0]) or [""]
    likely = [f for f in symbols.functions if is_mangled(f.name) and identifiers[-1] in f.name]
    wanted = _unspaced(pattern)
    return [f for f in likely if wanted in map(_unspaced, _sources(f.name))]


def _sources(name: str) -> tuple[str, str]:
    """What a mangled name is in the source, without and with parameter list."""
    return demangle.short(name), demangle.demangled(name)


def _unspaced(name: str) -> str:
    return _WHITESPACE.sub("", name)


def _matcher(pattern: str) -> Callable[[str], object] | None:
    """Tells whether a name matches; None for a pattern that is a plain name."""
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            return re.compile(pattern[1:-1]).search
        except re.error as error:
            raise UsageError(
                f"--func {pattern}: {error}", "write a Python regular expression between slashes"
            ) from None
    if any(c in pattern for c in "*?["):
        return re.compile(fnmatch.translate(pattern)).match
    return None


def _named(function: Function, matches: Callable[[str], object]) -> Function | None:
    if matches(function.name):
        return function
    for alias in function.aliases:
        if matches(alias):
            return _renamed(function, alias)
    if is_mangled(function.name):
        return function if any(map(matches, _sources(function.name))) else None
    return None


def _renamed(function: Function, name: str) -> Function:
    if name == function.name:
        return function
    others = (function.name, *(a for a in function.aliases if a != name))
    return replace(function, name=name, aliases=others)


def _no_match(binaries: Sequence[Searched], pattern: str) -> NoMatchError:
    for path, symbols in binaries:
        if indirect := matching(symbols.ifuncs, [pattern]):
            return NoMatchError(
                f"{indirect[0]}: is an indirect function of {path}, its code is chosen at run time",
                f"trace one of its implementations: --func '*{indirect[0]}_*', if they are named",
            )
        if inlined := matching(symbols.inlined, [pattern]):
            return NoMatchError(
                f"{inlined[0]}: is inlined everywhere in {path}, there is no call to trace",
                "rebuild with -gcflags=-l, or mark the function //go:noinline",
            )
    near = nearest([f for binary in binaries for f in binary.symbols.functions], pattern)
    paths = " or ".join(binary.path for binary in binaries)
    return NoMatchError(
        f"{pattern}: matches no function of {paths}",
        f"nearest names: {', '.join(near)}" if near else "lbtrace list shows its functions",
    )


def nearest(functions: Sequence[Function], pattern: str) -> list[str]:
    """At most three names like ``pattern``, the most alike first."""
    import difflib  # late: only a mistyped name needs it

    wanted = pattern.strip("/*?[]^$")
    names = [f.name for f in functions]
    folded = wanted.casefold()
    holding = [n for n in names if folded and folded in n.casefold()] if len(folded) > 2 else []
    if len(names) > COMPARED:
        names = sorted(names, key=lambda n: abs(len(n) - len(wanted)))[:COMPARED]
    alike = difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)
    return list(dict.fromkeys([*alike, *sorted(holding, key=len)]))[:3]

"""Why a pattern matches no function, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from lbtrace.elf import demangle
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols, read_any
from lbtrace.errors import BinaryError, NoMatchError, option
from lbtrace.files.search_path import cache_entries
from lbtrace.model import Function
from lbtrace.plan import patterns

_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}")

SOURCE = re.compile(
    r"[^:@]*\.(?:[cChsS]|cc|cpp|cxx|c\+\+|hh|hpp|hxx|inc|go|rs|asm|zig|f90|adb|swift|mm|nim|cr|pas)"
    r"(?::(?:(?P<line>[0-9]+(?:-[0-9]+)?|\*)|(?P<name>[A-Za-z_]\w*)))?"
)
"""A source file, or a line or function in it, by the names that such files have."""

_DECLARATION = re.compile(
    r"(?:.*[\s*&])?(?P<name>[\w:~.$]+)\s*(?:<[^()]*>\s*)?\(.*\)(?:[\s\w&]|->)*[;:{]?\s*", re.DOTALL
)
_PREFIXED = re.compile(r"[\w:<>,\s*&]*[\s*&](?P<name>[\w:~.$]+)\s*;?\s*")
"""A name behind its type, or behind the word that defines it: ``static int f``, ``func main.f``."""
_SEPARATOR = re.compile(r"[\s,;|]+")
_NAME = re.compile(r"[\w:~.$*?@]+")

COMPARED = 20_000
"""Names compared, at most, to find the nearest ones: a fraction of a second."""


LISTS = "lbtrace list shows its functions"

LATER = f"; for one of a file that is loaded later, add {option('binary', 'FILE')}"


def explain(binaries: Sequence[patterns.BinarySymbols], pattern: str, asked: str) -> NoMatchError:
    """Return the error for a ``pattern``, a value of the option ``asked``, that matches nothing in
    any of the binaries."""
    for path, symbols, *_ in binaries:
        if indirect := patterns.matching(symbols.ifuncs, [pattern]):
            return NoMatchError(
                f"{indirect[0]}: is an indirect function of {path}, its code is chosen at run time",
                f"trace one of its implementations, such as *{indirect[0]}_*, if they are named",
            )
        if inlined := _inlined(symbols, pattern):
            return NoMatchError(
                f"{inlined[0]}: is inlined everywhere in {path}, there is no call to trace",
                "rebuild with -gcflags=-l, or mark the function //go:noinline",
            )
    paths = " or ".join(binary.path for binary in binaries)
    if asked == "func" and (place := SOURCE.fullmatch(pattern)):
        return NoMatchError(f"{pattern}: matches no function of {paths}", _of_source(place))
    if asked == "func" and _ADDRESS.fullmatch(pattern):
        file = binaries[0].path if len(binaries) == 1 else "FILE"
        hint = f"an address is traced by {option('at', f'{file}:{pattern.lower()}')}"
        return NoMatchError(f"{pattern}: matches no function of {paths}", hint)

    def is_known(name: str) -> bool:
        return any(patterns.find(binary.symbols, name, asked) for binary in binaries)

    later = any(binary.loads_later for binary in binaries)
    outside = _outside(binaries, pattern) or (_unloaded(pattern) if later else "")
    outside = outside or _advise(pattern, asked, is_known)
    near = _alike_in_go(binaries, pattern) or nearest(
        [f for binary in binaries for f in binary.symbols.functions], pattern
    )
    hint = outside or (f"nearest names: {', '.join(near)}" if near else LISTS)
    if not outside and later:
        hint += LATER
    return NoMatchError(f"{pattern}: matches no function of {paths}", hint)


def _advise(pattern: str, asked: str, matches: Callable[[str], bool]) -> str:
    """Return what to write instead of ``pattern``, a value of the option ``asked``; empty where
    that is not clear. ``matches`` tells whether a pattern matches anything."""
    names = [name for name in _SEPARATOR.split(pattern) if name]
    known = [name for name in names if _NAME.fullmatch(name) and matches(name)]
    if len(known) > 1 and all(map(_NAME.fullmatch, names)):
        return f"write {option(asked)} once for each: {', '.join(known)}"
    for form in (_DECLARATION, _PREFIXED):
        declared = form.fullmatch(pattern)
        if declared and declared["name"] != pattern and matches(declared["name"]):
            return f"give the name alone: {option(asked, declared['name'])}"
    if len(known) == 1 and all(map(_NAME.fullmatch, names)):
        return f"only {known[0]} matches: {option(asked, known[0])}"
    return ""


def _of_source(place: re.Match[str]) -> str:
    """What to do where a source file is named, or a line or function in it."""
    if place["line"]:
        return f"a line is traced by {option('line', place[0])}"
    if place["name"]:
        return f"a function goes by its name alone: {option('func', place['name'])}"
    return f"the functions of a source file are named by {option('source', place[0])}"


LIBRARY = "it is a library's"


def _outside(binaries: Sequence[patterns.BinarySymbols], pattern: str) -> str:
    """What to do where a function of another file is meant; empty where none is."""
    name, _, place = pattern.rpartition("@")
    if name and place and not name.endswith("@") and not place.endswith("/"):
        return f"no traced file is called {place}: add it by {option('binary', 'FILE')}"
    for binary in binaries:
        if libraries := binary.loads(pattern):
            named = " or ".join(option("binary", library) for library in libraries[:3])
            return f"{LIBRARY}: add {named}"
    return ""


def _unloaded(pattern: str) -> str:
    """What to do where a library of the machine has what a pattern means, and begins its names with
    its own, as sqlite3_open of libsqlite3.so.0; empty where there is none."""
    wanted = pattern.strip("*/^").casefold()
    for name, path in cache_entries():
        stem = re.split(r"[.-]", name.removeprefix("lib"))[0].casefold()
        if len(stem) > 2 and wanted.startswith(stem):
            with suppress(BinaryError):
                image = Image.open(path)
                if patterns.find(read_any(image, servers=False), pattern):
                    library = image.once(Dynamic).soname or path
                    return f"{LIBRARY}: add {option('binary', library)}"
    return ""


def _inlined(symbols: Symbols, pattern: str) -> list[str]:
    """The functions of Go that ``pattern`` means which have no code of their own."""
    if not symbols.inlined:
        return []
    from lbtrace.plan.go import names as go_names

    exact = patterns.matching(symbols.inlined, [pattern])
    return exact or [name for name in symbols.inlined if go_names.has_end(name, pattern)]


def _alike_in_go(binaries: Sequence[patterns.BinarySymbols], pattern: str) -> list[str]:
    """At most three functions of Go that are called as ``pattern`` is, but of another package or
    receiver."""
    last = pattern.rpartition(".")[2]
    found = (patterns.find_unqualified_go(binary.symbols, last) for binary in binaries)
    return [function.name for functions in found for function in functions][:3]


def nearest(functions: Sequence[Function], pattern: str) -> list[str]:
    """Return at most three names like ``pattern``, the most alike first."""
    import difflib  # imported here because only a mistyped name needs it

    wanted = pattern.strip("/*?[]^$")
    names = [f.name for f in functions]
    if len(names) > COMPARED:
        names = sorted(names, key=lambda n: abs(len(n) - len(wanted)))[:COMPARED]
    names = [demangle.short(n) for n in names]
    folded = wanted.casefold()
    holding = [n for n in names if folded and folded in n.casefold()] if len(folded) > 2 else []
    # A name may be meant without what qualifies it.
    lasts = {patterns.split_name(n)[-1].partition("<")[0]: n for n in names}
    close = difflib.get_close_matches(wanted, {*names, *lasts}, n=3, cutoff=0.6)
    alike = [lasts.get(name, name) for name in close]
    return list(dict.fromkeys([*alike, *sorted(holding, key=len)]))[:3]

"""Which functions the user means: exact names, globs and ``/regular expressions/``.

After any of them ``@BINARY`` narrows to one of the binaries: ``write@libc.so.6``.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.elf import cpp_names, demangle
from lbtrace.elf.demangle import CLOSING, OPENING, is_mangled
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import NoMatchError, UsageError, option
from lbtrace.model import Function
from lbtrace.plan import objc_methods

_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_WHITESPACE = re.compile(r"\s+")

COPY = re.compile(r"(\.(constprop|isra|lto_priv|llvm)\.\w+)+")
"""What gcc and LLVM append to the names of whole copies of functions: a call
of such a copy is a call of the function."""

SOURCE = re.compile(
    r"[^:@]*\.(?:[cChsS]|cc|cpp|cxx|c\+\+|hh|hpp|hxx|inc|go|rs|asm|zig|f90|adb|swift|mm|nim|cr|pas)"
    r"(?::(?:(?P<line>[0-9]+(?:-[0-9]+)?|\*)|(?P<name>[A-Za-z_]\w*)))?"
)
"""A source file, or a line or function in it, by the names that such files have."""

WRITTEN = (
    "std allocator basic_string char_traits basic_istream basic_ostream basic_iostream operator new"
    " delete co_await unsigned signed int long short char8_t char16_t char32_t wchar_t bool float"
    " double void __int128 __float128 half decimal _Float _BitInt auto decltype nullptr_t const"
    " volatile restrict noexcept throw anonymous namespace vtable VTT construction for typeinfo"
    " name guard variable reference temporary non virtual covariant return thunk to override TLS"
    " init wrapper function lambda unnamed block_literal invocation block in template"
    " parameter object friend requires typename class struct union enum abi clone transaction"
    " default arg this true false nullptr sizeof alignof alignas typeid static_cast dynamic_cast"
    " const_cast reinterpret_cast initializer module concept substitution string literal complex"
    " imaginary vector objcproto id closure shim impl dyn extern unsafe as mut fn str usize isize"
    " enable_if pixel instance ostream istream iostream wstring wostream u8string"
)
"""Words that demanglers write which are in no mangled name."""

COMPARED = 20_000
"""Names compared, at most, to find the nearest ones: a fraction of a second."""


LISTS = "lbtrace list shows its functions"


class BinarySymbols(NamedTuple):
    """A binary whose functions are selected."""

    path: str
    symbols: Symbols
    loads: Callable[[str], Sequence[str]] = lambda name: ()
    """The libraries that it loads when it starts, if it takes ``name`` from one of them."""
    loads_later: bool = False
    """Whether other files may be loaded beside it while it is traced."""


def select(
    binaries: Sequence[BinarySymbols],
    patterns: Sequence[str],
    others: Sequence[Sequence[Function]] = (),
    asked: str = "func",
    *,
    full_names: bool = False,
) -> list[list[Function]]:
    """Return the functions of each binary that match any of ``patterns``, values of the option
    ``asked``, in the order of their addresses, and ``others``, which were selected otherwise.

    A function is called by the name that matched, a copy that the compiler made of it by
    its own. Raises `UsageError` for a
    pattern that is no regular expression, `NoMatchError` for one that matches
    nothing in any binary.
    """
    chosen: list[dict[int, Function]] = [{} for _ in binaries]
    for pattern in patterns:
        meant, name = addressed(pattern, [binary.path for binary in binaries])
        matched = [_matched(binaries[n].symbols, name, asked) for n in meant]
        if not any(matched):
            raise _no_match([binaries[n] for n in meant], name, asked)
        for n, functions in zip(meant, matched, strict=True):
            for function in functions:
                chosen[n].setdefault(function.address, function)
    for found, more in zip(chosen, others, strict=bool(others)):
        for function in more:
            found.setdefault(function.address, function)
    ordered = ([found[address] for address in sorted(found)] for found in chosen)
    return [readable(functions, full_names=full_names) for functions in ordered]


def addressed(pattern: str, paths: Sequence[str]) -> tuple[list[int], str]:
    """Return which of the binaries at ``paths`` a pattern is for, by position, and what is
    to match there.

    A binary is named by its path or the end of it, a library also by its file name
    without what follows ``.so``, or without that as well.
    """
    name, _, binary = pattern.rpartition("@")
    meant = [n for n, path in enumerate(paths) if name and _is_called(path, binary)]
    return (meant, name) if meant else (list(range(len(paths))), pattern)


def _is_called(path: str, name: str) -> bool:
    stem, library, _ = os.path.basename(path).partition(".so")
    return name in (path, stem + library, stem) or path.endswith(f"/{name}")


def _matched(symbols: Symbols, pattern: str, asked: str) -> list[Function]:
    matched = _exact(symbols, pattern)
    if not matched and (symbol := objc_methods.find_symbol(pattern)):
        matched, pattern = _exact(symbols, symbol), symbol
    if not matched and (matches := _matcher(pattern, asked)):
        part = _kept(pattern)
        likely = symbols.functions.with_part(part) if part else symbols.functions
        matched = [f for f in (_named(f, matches) for f in likely) if f]
    return (
        matched
        or _demangled(symbols, pattern)
        or _unqualified(symbols, pattern)
        or _unqualified_go(symbols, pattern)
    )


def readable(functions: Sequence[Function], *, full_names: bool = False) -> list[Function]:
    """Return ``functions`` under their names in the source; mangled names become aliases.

    Names are given without parameter list, unless several have the same, and as people write them,
    unless ``full_names``.
    """
    if not any(is_mangled(f.name) for f in functions):
        return list(functions)
    names = [demangle.short(f.name) for f in functions]
    often = Counter(names)
    made = [
        name if often[name] == 1 else demangle.with_parameters(f.name)
        for f, name in zip(functions, names, strict=True)
    ]
    written = made if full_names else map(cpp_names.shorten, made)
    return [_renamed(f, name) for f, name in zip(functions, written, strict=True)]


def matching(names: Iterable[str], patterns: Iterable[str], asked: str = "func") -> list[str]:
    """Return those of ``names`` that any of ``patterns``, values of the option ``asked``, means."""
    matchers = [_matcher(p, asked) or p.__eq__ for p in patterns]
    return [name for name in names if any(matches(name) for matches in matchers)]


def means(pattern: str, symbol: str, plain: str) -> bool:
    """Return whether a pattern means the function that is called ``symbol`` in symbols, and
    ``plain`` in its source without what qualifies it."""
    if not is_mangled(symbol):
        return bool(matching({plain, symbol}, [pattern]))
    names = {symbol, *_sources(symbol)}
    if matching(names, [pattern]) or _unspaced(pattern) in map(_unspaced, names):
        return True
    return _ends_with(symbol, pattern)


def _exact(symbols: Symbols, pattern: str) -> list[Function]:
    name, _, version = pattern.partition("@@")
    if version and symbols.default_version(name) != version:
        return []
    alike = symbols.functions.named(name)
    found = [_renamed(f, name) for f in alike if f.name == name or name in f.aliases]
    before = f"{name}."
    copies = [f for f in alike if f.name.startswith(before)]
    return found + [f for f in copies if COPY.fullmatch(f.name, len(name))]


def _demangled(symbols: Symbols, pattern: str) -> list[Function]:
    """The functions with this name in the source, with or without parameter list."""
    wanted = _unspaced(pattern)
    return [f for f in _likely(symbols, pattern) if wanted in map(_unspaced, _sources(f.name))]


def _unqualified(symbols: Symbols, pattern: str) -> list[Function]:
    """The functions whose name in the source ends with this one, as debuggers take it: without
    namespaces and classes, and without the arguments of templates where it names none."""
    return [f for f in _likely(symbols, pattern) if _ends_with(f.name, pattern)]


def _unqualified_go(symbols: Symbols, pattern: str) -> list[Function]:
    """The functions of Go whose name ends with this one; those of Go's runtime if no other does."""
    if symbols.go is None:
        return []
    from lbtrace.plan.go import names as go_names  # imported here because most programs are not Go

    word = go_names.last_word(pattern)
    found = [
        f
        for f in (symbols.functions.with_part(word) if word else ())
        if symbols.go.start <= f.address < symbols.go.end
        and any(go_names.has_end(name, pattern) for name in (f.name, *f.aliases))
    ]
    return [f for f in found if not go_names.is_of_runtime(f.name)] or found


def _ends_with(name: str, pattern: str) -> bool:
    """See `_unqualified`: by its full name, or as people write it."""
    short, full = demangle.short(name), demangle.demangled(name)
    written = cpp_names.shorten(short), cpp_names.shorten(full)
    return _has_end(short, full, pattern) or _has_end(*written, pattern)


def _has_end(short: str, full: str, pattern: str) -> bool:
    wanted, bracket, parameters = _unspaced(pattern).partition("(")
    if bracket and not _unspaced(full).endswith(bracket + parameters):
        return False
    asked, parts = _parts(wanted), _parts(_unspaced(short))
    return len(asked) <= len(parts) and all(
        one in (part, part.partition("<")[0])
        for one, part in zip(reversed(asked), reversed(parts), strict=False)
    )


def _parts(name: str) -> list[str]:
    """``name`` split at each ``::`` outside of brackets."""
    parts, depth = [""], 0
    for piece in re.split(r"(::|[<(\[{]|[>)\]}])", name):
        depth += (piece in OPENING) - (piece in CLOSING) if piece else 0
        if piece == "::" and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _likely(symbols: Symbols, pattern: str) -> list[Function]:
    """The functions whose mangled name has the last identifier of a name."""
    if not re.search(r"\w", pattern):
        return []
    # Mangling keeps identifiers: few names need to be demangled.
    plain = re.sub(r"\(anonymous namespace\)|<[^<>]*>|\boperator\b.*", " ", pattern)
    identifiers = re.findall(r"\w+", plain.split("(")[0]) or [""]
    return [f for f in symbols.functions.with_part(identifiers[-1]) if is_mangled(f.name)]


def _kept(pattern: str) -> str:
    """The longest word of a glob that stands in the symbol of whatever matches; empty where none
    surely does."""
    if any(c in pattern for c in "/@["):
        return ""
    words = re.findall(r"[A-Za-z0-9_]+", pattern)
    names = [word for word in words if not re.fullmatch("[0-9]+[a-z]*", word)]
    kept = [word for word in names if word.rstrip("0123456789") not in WRITTEN]
    return max(kept, key=len, default="")


def _sources(name: str) -> set[str]:
    """What a mangled name is in the source, without and with parameter list, in full and as people
    write it."""
    full = demangle.short(name), demangle.demangled(name)
    return {*full, *map(cpp_names.shorten, full)}


def _unspaced(name: str) -> str:
    return _WHITESPACE.sub("", name)


def _matcher(pattern: str, asked: str = "func") -> Callable[[str], object] | None:
    """A predicate whether a name matches; None for a pattern that is a plain name."""
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            return re.compile(pattern[1:-1]).search
        except re.error as error:
            raise UsageError(
                f"{option(asked, pattern)}: {error}",
                "write a Python regular expression between slashes",
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


def _no_match(binaries: Sequence[BinarySymbols], pattern: str, asked: str) -> NoMatchError:
    for path, symbols, *_ in binaries:
        if indirect := matching(symbols.ifuncs, [pattern]):
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
    from lbtrace.plan.misread_patterns import advise  # here: most patterns match

    def is_known(name: str) -> bool:
        return any(_matched(binary.symbols, name, asked) for binary in binaries)

    outside = _outside(binaries, pattern) or advise(pattern, asked, is_known)
    near = _alike_in_go(binaries, pattern) or nearest(
        [f for binary in binaries for f in binary.symbols.functions], pattern
    )
    hint = outside or (f"nearest names: {', '.join(near)}" if near else LISTS)
    if not outside and any(binary.loads_later for binary in binaries):
        hint += f"; for one of a file that is loaded later, add {option('binary', 'FILE')}"
    return NoMatchError(f"{pattern}: matches no function of {paths}", hint)


def _of_source(place: re.Match[str]) -> str:
    """What to do where a source file is named, or a line or function in it."""
    if place["line"]:
        return f"a line is traced by {option('line', place[0])}"
    if place["name"]:
        return f"a function goes by its name alone: {option('func', place['name'])}"
    return f"the functions of a source file are named by {option('source', place[0])}"


LIBRARY = "it is a library's"


def _outside(binaries: Sequence[BinarySymbols], pattern: str) -> str:
    """What to do where a function of another file is meant; empty where none is."""
    name, _, place = pattern.rpartition("@")
    if name and place and not name.endswith("@") and not place.endswith("/"):
        return f"no traced file is called {place}: add it by {option('binary', 'FILE')}"
    for binary in binaries:
        if libraries := binary.loads(pattern):
            named = " or ".join(option("binary", library) for library in libraries[:3])
            return f"{LIBRARY}: add {named}"
    return ""


def _inlined(symbols: Symbols, pattern: str) -> list[str]:
    """The functions of Go that ``pattern`` means which have no code of their own."""
    if not symbols.inlined:
        return []
    from lbtrace.plan.go import names as go_names

    exact = matching(symbols.inlined, [pattern])
    return exact or [name for name in symbols.inlined if go_names.has_end(name, pattern)]


def _alike_in_go(binaries: Sequence[BinarySymbols], pattern: str) -> list[str]:
    """At most three functions of Go that are called as ``pattern`` is, but of another package or
    receiver."""
    last = pattern.rpartition(".")[2]
    found = [f.name for binary in binaries for f in _unqualified_go(binary.symbols, last)]
    return found[:3]


def nearest(functions: Sequence[Function], pattern: str) -> list[str]:
    """Return at most three names like ``pattern``, the most alike first."""
    import difflib  # imported here because only a mistyped name needs it

    wanted = objc_methods.find_part(pattern).strip("/*?[]^$")
    names = [f.name for f in functions]
    if len(names) > COMPARED:
        names = sorted(names, key=lambda n: abs(len(n) - len(wanted)))[:COMPARED]
    names = [demangle.short(n) for n in names]
    folded = wanted.casefold()
    holding = [n for n in names if folded and folded in n.casefold()] if len(folded) > 2 else []
    # A name may be meant without what qualifies it.
    lasts = {_parts(n)[-1].partition("<")[0]: n for n in names}
    close = difflib.get_close_matches(wanted, {*names, *lasts}, n=3, cutoff=0.6)
    alike = [lasts.get(name, name) for name in close]
    return list(dict.fromkeys([*alike, *sorted(holding, key=len)]))[:3]

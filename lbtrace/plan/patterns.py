"""Which functions the user means: exact names, globs and ``/regular expressions/``.

After any of them ``@BINARY`` narrows to one of the binaries: ``write@libc.so.6``.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from lbtrace.elf import demangle
from lbtrace.elf.demangle import CLOSING, OPENING, is_mangled
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import NoMatchError, UsageError, option
from lbtrace.model import Function
from lbtrace.validation import split_listed

_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_WHITESPACE = re.compile(r"\s+")

_MANGLED = re.compile(r"/\^_Z(?![?*{])[^|]*/$")
"""Regular expressions that only symbols match: they begin as mangled names of C++ do."""

COPY = re.compile(r"(\.(constprop|isra|lto_priv|llvm)\.\w+)+")
"""What gcc and LLVM append to the names of whole copies of functions: a call
of such a copy is a call of the function."""

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


class BinarySymbols(NamedTuple):
    """A binary whose functions are selected."""

    path: str
    symbols: Symbols
    loads: Callable[[str], Sequence[str]] = lambda name: ()
    """The libraries that it loads when it starts, if it takes ``name`` from one of them."""
    loads_later: bool = False
    """Whether other files may be loaded beside it while it is traced."""


def addressed(pattern: str, paths: Sequence[str]) -> tuple[list[int], str]:
    """Return which of the binaries at ``paths`` a pattern is for, by position, and what is
    to match there.

    A binary is named by its path or the end of it, a library also by its file name
    without what follows ``.so``, or without that as well.
    """
    name, _, binary = pattern.rpartition("@")
    meant = [n for n, path in enumerate(paths) if name and is_called(path, binary)]
    return (meant, name) if meant else (list(range(len(paths))), pattern)


def is_called(path: str, name: str) -> bool:
    """Return whether a pattern may call the file at ``path`` by ``name`` (`addressed`)."""
    stem, library, _ = os.path.basename(path).partition(".so")
    return name in (path, stem + library, stem) or path.endswith(f"/{name}")


def find(symbols: Symbols, pattern: str, asked: str = "func") -> list[Function]:
    """Return the functions that a pattern, a value of the option ``asked``, means: those of exactly
    this name, else those that match it, else those of which it is, or matches, the end of the name
    in the source.

    Raises `UsageError` for a pattern that is no regular expression.
    """
    matched = _exact(symbols, pattern)
    if not matched and (matches := _matcher(pattern, asked)):
        part = _kept(pattern)
        likely = symbols.functions.with_part(part) if part else symbols.functions
        by_symbol = "_Z" in pattern or "_R" in pattern or not re.search(r"\w", pattern)
        by_source = _MANGLED.match(pattern) is None
        sources = _names_for(pattern) if by_source else None
        found = (_named(f, matches, sources, by_symbol=by_symbol) for f in likely)
        matched = [f for f in found if f]
        if not matched and not _is_regex(pattern):
            matched = [f for f in likely if is_mangled(f.name) and _end_matches(f.name, matches)]
    if symbols.ifuncs and (chosen := symbols.chosen(matching(symbols.ifuncs, [pattern], asked))):
        return [*chosen, *matched]
    return (
        matched
        or _demangled(symbols, pattern)
        or _unqualified(symbols, pattern)
        or find_unqualified_go(symbols, pattern)
    )


def readable(functions: Sequence[Function], *, full_names: bool = False) -> list[Function]:
    """Return ``functions`` under their names in the source; mangled names become aliases.

    Names are given without parameter list, unless several that differ in it have the same, and as
    people write them, unless ``full_names``. Clones of one function are marked as such.
    """
    if not any(is_mangled(f.name) for f in functions):
        return list(functions)
    names = [demangle.short(f.name) for f in functions]
    often = Counter(names)
    signatures: dict[str, set[str]] = {}
    for f, name in zip(functions, names, strict=True):
        if often[name] > 1:
            signatures.setdefault(name, set()).add(demangle.with_parameters(f.name))

    def distinct(f: Function, name: str) -> str:
        if often[name] == 1:
            return name
        whole = demangle.with_parameters(f.name) if len(signatures[name]) > 1 else name
        return whole + demangle.clone_suffix(f.name)

    made = [distinct(f, name) for f, name in zip(functions, names, strict=True)]
    written = made if full_names else map(_shorten, made)
    return [_renamed(f, name) for f, name in zip(functions, written, strict=True)]


def named_among(find: Callable[[str], Iterable[str]], wanted: Iterable[str]) -> list[str]:
    """Return what the patterns ``wanted`` name, each by ``find``, without what those name that
    begin with ``!``; where there are only these, of all."""
    parts = split_listed(wanted)
    excluded = [part[1:] for part in parts if part[:1] == "!" != part]
    kept = [part for part in parts if part[:1] != "!" or part == "!"] or ["*"]
    found = dict.fromkeys(name for part in kept for name in find(part))
    left_out = {name for part in excluded for name in find(part)}
    if not (left := [name for name in found if name not in left_out]):
        raise NoMatchError(f"{','.join(excluded)}: leaves out all that is named", "leave out fewer")
    return left


def matching(names: Iterable[str], patterns: Iterable[str], asked: str = "func") -> list[str]:
    """Return those of ``names`` that any of ``patterns``, values of the option ``asked``, means."""
    matchers = [_matcher(p, asked) or p.__eq__ for p in patterns]
    return [name for name in names if any(matches(name) for matches in matchers)]


def select(
    names: Iterable[str],
    wanted: Iterable[str],
    asked: str,
    explain: Callable[[str], NoMatchError],
) -> list[str]:
    """Return those of ``names`` that any of the patterns ``wanted`` means (`named_among`). Raises
    what ``explain`` returns for one that means none."""

    def find(pattern: str) -> list[str]:
        if named := matching(names, [pattern], asked):
            return named
        raise explain(pattern)

    return named_among(find, wanted)


def means(pattern: str, symbol: str, plain: str) -> bool:
    """Return whether a pattern means the function that is called ``symbol`` in symbols, and
    ``plain`` in its source without what qualifies it."""
    if not is_mangled(symbol):
        return bool(matching({plain, symbol}, [pattern]))
    if kept_word(pattern) not in symbol:
        return False  # few names need to be demangled
    names = {symbol, *_sources(symbol)}
    if matching(names, [pattern]) or _unspaced(pattern) in map(_unspaced, names):
        return True
    return _ends_with(symbol, pattern)


def kept_word(pattern: str) -> str:
    """Return a word that stands in the symbol of whatever a pattern means; empty where none surely
    does."""
    return _kept(pattern if _matcher(pattern) else _last_identifier(pattern))


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
    namespaces and classes, and without the arguments of templates where it names none; those of
    Rust's own crates if no other does."""
    found = [f for f in _likely(symbols, pattern) if _ends_with(f.name, pattern)]
    if len(found) < 2:
        return found
    from lbtrace.plan import runtime_code  # imported here because most names are whole

    return [f for f in found if not runtime_code.is_of_rust(f.name)] or found


def _end_matches(name: str, matches: Callable[[str], object]) -> bool:
    """Whether the end of a name in the source matches: as `_unqualified`, for a glob."""
    parts = split_name(_shorten(demangle.short(name)))
    plain = [part.partition("<")[0] or part for part in parts]
    return any(
        matches("::".join(each[first:])) for each in (parts, plain) for first in range(len(each))
    )


def find_unqualified_go(symbols: Symbols, pattern: str) -> list[Function]:
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
    written = _shorten(short), _shorten(full)
    return _has_end(short, full, pattern) or _has_end(*written, pattern)


def _has_end(short: str, full: str, pattern: str) -> bool:
    wanted, bracket, parameters = _unspaced(pattern).partition("(")
    if bracket and not _unspaced(full).endswith(bracket + parameters):
        return False
    asked, parts = split_name(wanted), [*map(_unspaced, split_name(short))]
    return len(asked) <= len(parts) and all(
        one in (part, part.partition("<")[0])
        for one, part in zip(reversed(asked), reversed(parts), strict=False)
    )


def split_name(name: str) -> list[str]:
    """``name`` split at each ``::`` outside of brackets; ``<Dog as Speak>::speak`` of Rust as
    ``Dog::speak``, ``twice::<u32>`` as ``twice<u32>``."""
    first, *others = _split(name)
    if others and (own := _OF_TYPE.fullmatch(first)):
        return [*split_name(_split(own[1], " as ")[0]), *others]
    parts = [first]
    for part in others:
        if part.startswith("<"):
            parts[-1] += part
        else:
            parts.append(part)
    return parts


_OF_TYPE = re.compile(r"<(?:&|mut |\*const |\*mut |dyn )*(\w.*)>")
"""How Rust writes the type of a method, with the trait that has it: ``<&Dog as Speak>``."""


def _split(name: str, separator: str = "::") -> list[str]:
    parts, depth = [""], 0
    for piece in re.split(rf"({separator}|[<(\[{{]|[>)\]}}])", name):
        depth += (piece in OPENING) - (piece in CLOSING) if piece else 0
        if piece == separator and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _likely(symbols: Symbols, pattern: str) -> list[Function]:
    """The functions whose mangled name has the last identifier of a name."""
    if not re.search(r"\w", pattern):
        return []
    likely = symbols.functions.with_part(_last_identifier(pattern))
    return [f for f in likely if is_mangled(f.name)]


@lru_cache
def _last_identifier(pattern: str) -> str:
    """The last identifier of a name, which mangling keeps; empty where it has none."""
    plain = re.sub(r"\(anonymous namespace\)|<[^<>]*>|\boperator\b.*", " ", pattern)
    words: list[str] = re.findall(r"\w+", plain.split("(")[0])
    return words[-1] if words else ""


def _kept(pattern: str) -> str:
    """The longest word of a glob that stands in the symbol of whatever matches; empty where none
    surely does."""
    if any(c in pattern for c in "/@["):
        return ""
    words = re.findall(r"[A-Za-z0-9_]+", pattern)
    names = [word for word in words if not re.fullmatch("[0-9]+[a-z]*", word)]
    kept = [word for word in names if word.rstrip("0123456789") not in WRITTEN]
    return max(kept, key=len, default="")


def _sources(name: str) -> Iterator[str]:
    """What a mangled name is in the source, without and with parameter list, in full and as people
    write it; each is made when it is asked for."""
    yield from _short_sources(name)
    yield from _written(demangle.demangled(name))


def _short_sources(name: str) -> Iterator[str]:
    """The same without parameter list."""
    short = demangle.short(name)
    yield from _written(short)
    if name.startswith("_R") or short[0] == "<":
        yield "::".join(split_name(short))


def _written(full: str) -> Iterator[str]:
    yield full
    if (written := _shorten(full)) != full:
        yield written


def _shorten(name: str) -> str:
    from lbtrace.elf import cpp_names  # imported here because many programs are not C++

    return cpp_names.shorten(name)


def _unspaced(name: str) -> str:
    return _WHITESPACE.sub("", name)


def _matcher(pattern: str, asked: str = "func") -> Callable[[str], object] | None:
    """A predicate whether a name matches; None for a pattern that is a plain name."""
    if _is_regex(pattern):
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


def _is_regex(pattern: str) -> bool:
    return len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/")


def _names_for(pattern: str) -> Callable[[str], Iterable[str]]:
    """What of a mangled name's forms in the source a glob or regular expression is to match: those
    with parameter list only where it has a parenthesis itself."""
    parentheses = (r"\(", r"\)") if _is_regex(pattern) else ("(", ")")
    return _sources if any(each in pattern for each in parentheses) else _short_sources


def _named(
    function: Function,
    matches: Callable[[str], object],
    sources: Callable[[str], Iterable[str]] | None,
    *,
    by_symbol: bool,
) -> Function | None:
    """The function, if it matches: where not ``by_symbol``, a mangled name is none to match; where
    there are no ``sources``, nothing else is."""
    for name in (function.name, *function.aliases):
        if (by_symbol or not is_mangled(name)) and matches(name):
            return _renamed(function, name)
    if sources and is_mangled(function.name):
        return function if any(map(matches, sources(function.name))) else None
    return None


def _renamed(function: Function, name: str) -> Function:
    if name == function.name:
        return function
    others = (function.name, *(a for a in function.aliases if a != name))
    return replace(function, name=name, aliases=others)

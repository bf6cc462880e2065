"""Names as the source writes them: C++ (Itanium ABI) and Rust (legacy and v0).

C++ is left to LLVM's ``__cxa_demangle``, linked into an extension module;
Rust to rust_demangler. Neither is imported before a mangled name must be read. A short name may
expand to gigabytes, or take years: a name that exceeds a bound stays mangled.
"""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from functools import cache, lru_cache
from typing import Any, NamedTuple

LEGACY_RUST = re.compile(r"_ZN.*17h[0-9a-f]{16}E")
OVERLONG = re.compile(r"\d{20}.{20}")
"""A length that no part of a name has; before the hash."""

RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
CLONE = re.compile(
    r"(?:(?:\.\d+)*\.(?:isra|constprop|part|cold|llvm|lto_priv|localalias)\b[.\w]*|(?:\.\d+)+)$"
)
"""What compilers append to the names of clones."""

MARKED = re.compile(r"\.(?:isra|constprop|part)\b.*")
"""The same of copies for which gcc changed what is passed."""

LONGEST = 4096
"""Characters of a mangled name: longer names stay as they are."""

LARGEST = 64 << 10
"""Bytes of a demangled one."""

BOMBS, SUSPECT = 20, 48
"""After the first number of names that exceed a bound, which cost up to 20 ms each, names of
more characters than the second number stay as they are."""

CLONES = {"_ZGTt": "transaction clone for ", "_ZGTn": "non-transaction clone for "}
"""What GNU compilers (-fgnu-tm) put before the mangled name instead of ``_Z``: LLVM reads none."""

OPENING, CLOSING = "(<[{", ")>]}"


def is_mangled(name: str) -> bool:
    """Return whether ``name`` looks mangled."""
    return name.startswith(("_Z", "_R", "__Z"))


@lru_cache(maxsize=1 << 17)
def demangled(name: str) -> str:
    """Return ``name`` in full, with its parameter list if it has one; what cannot be
    demangled stays as it is."""
    if not is_mangled(name) or _Guard.refuses(name):
        return name
    core, at, version = name.partition("@")
    if at:
        return demangled(core) + at + version
    if (clone := CLONES.get(name[:5])) and not name.startswith("GT", 5):
        copied = f"_Z{name[5:]}"
        full = demangled(copied)
        return clone + full if full != copied else name
    suffix = CLONE.search(name)
    core = name[: suffix.start()] if suffix else name
    rust = name.startswith("_R") or LEGACY_RUST.match(core) is not None
    try:
        return (_rust(core) if rust else _cpp(core)) or name
    except _Unbounded:
        _Guard.bombs += 1
        return name


@lru_cache(maxsize=1 << 17)
def short(name: str) -> str:
    """Return ``name`` without parameter list, result type and qualifiers:
    ``space::Thing::method``."""
    core, at, version = name.partition("@")
    if at:
        return short(core) + at + version
    full = demangled(name)
    if full != name and (clone := CLONES.get(name[:5])):
        return clone + short(f"_Z{name[5:]}")
    if full == name or name.startswith("_R") or LEGACY_RUST.match(name):
        return full
    return _without_parameters(full)


def with_parameters(name: str) -> str:
    """Return the short form of ``name`` with its parameter list and qualifiers, if it has one."""
    full = demangled(name)
    at = _parameters(full) if full != name else -1
    return short(name) + full[at:] if at > 0 else full


def clone_suffix(name: str) -> str:
    """Return what a compiler appended to the mangled name of a clone: ``.constprop.0``."""
    suffix = CLONE.search(name) if is_mangled(name) else None
    return suffix[0] if suffix else ""


def plain_names(name: str) -> set[str]:
    """Return by what a function may be asked for that is shown as ``name``: also without what marks
    a clone, and without parameter list."""
    core = MARKED.sub("", name)
    return {name, core, _without_parameters(core)}


class Declaration(NamedTuple):
    """What the mangled name of a C++ function says of it: its ``result``, empty where the name has
    none; the ``scope`` that it is in, without its last ``::``; its own ``name``; the types of its
    ``parameters``, ``...`` among them; and whether it is a ``const`` or otherwise qualified member
    function."""

    result: str
    scope: str
    name: str
    parameters: tuple[str, ...]
    qualified: bool


def declaration(name: str) -> Declaration | None:
    """Return the declaration that ``name`` stands for; None where it is no function's of C++."""
    full = demangled(name)
    start = -1 if full == name or LEGACY_RUST.match(name) else _parameters(full)
    head, end = full[:start], full.rfind(")")
    if start <= 0 or (head.endswith(")") and not head.endswith("operator()")):
        return None  # a function that returns a pointer to one stands around its own name
    at = _name_start(head)
    parts = split_top_level(head[at:], "::")
    listed = tuple(each for each in split_top_level(full[start + 1 : end], ",") if each)
    return Declaration(
        head[:at].strip(), "::".join(parts[:-1]), parts[-1], listed, end + 1 < len(full)
    )


def split_top_level(text: str, separator: str) -> list[str]:
    """Return the parts of a demangled text between separators that are in no brackets."""
    if separator not in text:
        return [text.strip()]
    found, depth, start, at = list[str](), 0, 0, 0
    operator = re.search(r"\boperator\W", text)
    limit = operator.start() if operator and separator == "::" else len(text)
    while at < limit:
        character = text[at]
        depth += (character in OPENING) - (character in CLOSING and text[at - 1 : at + 1] != "->")
        if not depth and text.startswith(separator, at):
            found.append(text[start:at].strip())
            start = at = at + len(separator)
        else:
            at += 1
    return [*found, text[start:].strip()]


def arity(name: str) -> int | None:
    """Return how many parameters the mangled name of a C++ function has, without ``this`` and
    ``...``; None where it does not say."""
    full = demangled(name)
    start = _parameters(full) if full != name else -1
    if start < 0:
        return None
    listed = split_top_level(full[start + 1 : full.rfind(")")], ",")
    return len(listed) - (listed[-1] in ("", "..."))


class _Unbounded(Exception):
    """A name expands beyond the bounds."""


class _Guard:
    """Counts the names of this process that went beyond a bound."""

    bombs = 0

    @classmethod
    def refuses(cls, name: str) -> bool:
        """Return whether ``name`` is better left alone."""
        return len(name) > LONGEST or (len(name) > SUSPECT and cls.bombs >= BOMBS)


def _cpp(name: str) -> str:
    from lbtrace.elf._demangle import ffi, lib

    into = _allocator()("char[]", min(LARGEST, 1024 + 64 * len(name)))
    done = lib.lbt_demangle(name.encode(errors="replace"), into, len(into))
    if done < 0:
        raise _Unbounded
    return str(ffi.string(into), errors="replace") if done else ""


@cache
def _allocator() -> Any:
    """What gives memory that is not cleared."""
    from lbtrace.elf._demangle import ffi

    return ffi.new_allocator(should_clear_after_alloc=False)


def _rust(name: str) -> str:
    if OVERLONG.search(name):
        return ""
    import rust_demangler

    from lbtrace.elf.rust_names import Unbounded, demangle

    try:
        if name.startswith("_R"):
            return RUST_HASH.sub("", demangle(name))
        with redirect_stdout(None):  # it prints its errors
            return RUST_HASH.sub("", str(rust_demangler.demangle(name)))
    except Unbounded:
        raise _Unbounded from None
    except Exception:  # damaged names raise any error of the parser
        return ""


def _without_parameters(full: str) -> str:
    """The name in a demangled declaration of a function.

    The parameter list is the last group of parentheses outside of others; what
    precedes it, up to a space outside of brackets, is the name. Operators have brackets and spaces
    of their own.
    """
    end = _parameters(full)
    if end <= 0:
        return full
    head = full[:end]
    return head[_name_start(head) :] or full


def _name_start(head: str) -> int:
    """Where the name begins in a declaration up to its parameters."""
    if " " not in head:
        return 0
    operator = re.search(r"\boperator\b", head)
    limit = operator.start() if operator else len(head)
    depth = start = 0
    for position, character in enumerate(head[:limit]):
        if character in OPENING:
            depth += 1
        elif character in CLOSING:
            depth -= 1
        elif character == " " and depth == 0:
            start = position + 1
    return start


def _parameters(full: str) -> int:
    """Where the parameter list of a function begins; -1 where there is none."""
    at, closed = full.rfind(")"), 1
    while at > 0:
        position = full.rfind("(", 0, at)
        closed += full.count(")", position + 1, at) - 1
        at = position
        if not closed:
            # operator() has an empty pair before its list
            before = full[: max(position, 0)]
            return position if before and not before.endswith("operator") else -1
    return -1

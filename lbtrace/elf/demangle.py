"""Names as the source writes them: C++ (Itanium ABI) and Rust (legacy and v0).

C++ is left to LLVM's ``__cxa_demangle``, linked into an extension module;
Rust to rust_demangler. Neither is imported before a mangled name has to be
read.
"""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from functools import lru_cache

LEGACY_RUST = re.compile(r"_ZN.*17h[0-9a-f]{16}E")
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
CLONE = re.compile(r"(\.(?:isra|constprop|part|cold|llvm|lto_priv|localalias)\b[.\w]*|\.\d+)+$")
"""What compilers append to the names of copies."""

LONGEST = 4096
"""Characters of a mangled name that are looked at: longer ones stay as they are."""

OPENING, CLOSING = "(<[{", ")>]}"


def is_mangled(name: str) -> bool:
    """Whether ``name`` looks mangled."""
    return name.startswith(("_Z", "_R", "__Z"))


@lru_cache(maxsize=1 << 17)
def demangled(name: str) -> str:
    """``name`` in full, with its parameter list if it has one; what cannot be
    demangled stays as it is."""
    if not is_mangled(name) or len(name) > LONGEST:
        return name
    core, at, version = name.partition("@")
    if at:
        return demangled(core) + at + version
    suffix = CLONE.search(name)
    core = name[: suffix.start()] if suffix else name
    rust = name.startswith("_R") or LEGACY_RUST.match(core) is not None
    return _rust(core) or name if rust else _cpp(core) or name


@lru_cache(maxsize=1 << 17)
def short(name: str) -> str:
    """``name`` without parameter list, result type and qualifiers: ``space::Thing::method``."""
    core, at, version = name.partition("@")
    if at:
        return short(core) + at + version
    full = demangled(name)
    if full == name or name.startswith("_R") or LEGACY_RUST.match(name):
        return full
    return _without_parameters(full)


def arity(name: str) -> int | None:
    """How many parameters the mangled name of a C++ function has, without ``this`` and
    ``...``; None where it does not tell."""
    full = demangled(name)
    start = _parameters(full) if full != name else -1
    if start < 0:
        return None
    inside = full[start + 1 : full.rfind(")")]
    depth, commas = 0, 0
    for character in inside:
        depth += (character in OPENING) - (character in CLOSING)
        commas += character == "," and not depth
    return commas + (inside != "") - inside.endswith("...")


def _cpp(name: str) -> str:
    from lbtrace.elf._demangle import ffi, lib

    text = lib.__cxa_demangle(name.encode(errors="replace"), ffi.NULL, ffi.NULL, ffi.NULL)
    if text == ffi.NULL:
        return ""
    try:
        return bytes(ffi.string(text)).decode(errors="replace")
    finally:
        lib.free(text)


def _rust(name: str) -> str:
    import rust_demangler

    try:
        with redirect_stdout(None):  # it prints what it stumbles over
            return RUST_HASH.sub("", str(rust_demangler.demangle(name)))
    except Exception:  # damaged names raise whatever the parser stumbles over
        return ""


def _without_parameters(full: str) -> str:
    """The name in a demangled declaration of a function.

    The parameter list is the last group of parentheses outside of others; what
    stands before it, up to a space outside of brackets, is the name. Operators
    have brackets and spaces of their own.
    """
    end = _parameters(full)
    if end <= 0:
        return full
    head = full[:end]
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
    return head[start:] or full


def _parameters(full: str) -> int:
    """Where the parameter list of a function begins; -1 where there is none."""
    depth = 0
    for position in range(full.rfind(")"), -1, -1):
        if full[position] == ")":
            depth += 1
        elif full[position] == "(":
            depth -= 1
            if depth == 0:
                # operator() has an empty pair before its list
                before = full[:position]
                return position if before and not before.endswith("operator") else -1
    return -1

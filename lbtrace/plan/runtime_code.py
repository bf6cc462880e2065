"""Functions that are in a program but in none of its sources: start-up code, the runtime of a
language, instances of its standard library.

Names: Itanium C++ ABI, 5.1 (substitutions ``St``, ``Sa``, ``Ss``…); Rust's legacy and v0 mangling;
gcc's crtstuff.c, glibc's csu/.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lbtrace.elf import demangle
from lbtrace.elf.symbols import Symbols
from lbtrace.model import Function

START_UP = frozenset(
    {
        *("_start", "_init", "_fini", "__libc_csu_init", "__libc_csu_fini", "frame_dummy"),
        *("register_tm_clones", "deregister_tm_clones", "__do_global_dtors_aux", "__gmon_start__"),
        *(
            "_dl_relocate_static_pie",
            "__do_global_ctors_aux",
            "call_fini",
            "atexit",
            "at_quick_exit",
        ),
        *("__clang_call_terminate", "__x86.get_pc_thunk.bx", "_start_c", "__start_c"),
        *("__static_initialization_and_destruction_0", "call_weak_fn", "__stack_chk_fail_local"),
        *("__tls_init", "_cgo_topofstack", "__rust_alloc", "__rust_dealloc", "__rust_realloc"),
        *("__rust_alloc_zeroed", "__rust_alloc_error_handler", "rust_begin_unwind", "rust_panic"),
        *("rust_eh_personality", "__rust_no_alloc_shim_is_unstable", "__rust_start_panic"),
        *("__rust_panic_cleanup", "__rust_drop_panic", "__rust_foreign_exception"),
    }
)
"""Code that compilers and C libraries bring for the start and the end of a program, and Rust for
memory and panics."""

_MADE = re.compile(
    r"_GLOBAL__(sub_)?[ID]_|_Z41__static_initialization|__cxx_global_(var|array)_|_ZTW|_ZTH"
    r"|__(rdl|rg|rust)_|_cgo_|x_cgo_|_cgoexp_|crosscall"
)
"""What compilers make for each source file, or for memory in Rust, or between C and Go."""

_OF_CPP = re.compile(
    r"_Z(?:T(?:h[n\d]+_|v[n\d]+_n?\d+_)+)?Z*N?[KVrO]*[RO]?(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)"
    r"|_Z(?:nw|na|dl|da)"
)
"""Mangled names of ``std::``, ``__gnu_cxx::``, and of new and delete."""

_RUST = re.compile(r"_R|_ZN.*17h[0-9a-f]{16}E")
_CRATES = (
    "std|core|alloc|compiler_builtins|__rustc|hashbrown|gimli|addr2line|miniz_oxide|adler2?|object"
    "|memchr|rustc_demangle|std_detect|panic_unwind|panic_abort|unwind"
)
"""Rust's own, and those that its ``std`` is linked with (library/std/Cargo.toml)."""

_OF_RUST = re.compile(
    rf"(?:{_CRATES})(?:\[[0-9a-f]+\])?::"
    r"|(?:[A-Z_]|[iu](?:8|16|32|64|128|size)|f32|f64|bool|char|str)(?!\w|::)|\(\)|!"
)
"""How names of functions, types and traits of Rust's own crates begin: types that the language
itself has, and any types, among them."""

_LEADING = re.compile(r"(?:&|mut |\*const |\*mut |dyn |\[|\((?!\)))*")

_OF_GO = re.compile(r"(?:internal/)?runtime[./]|type[:.]|go:|_\.|[^.]*$")
"""Names of functions of Go's runtime; those of its assembly that have no package, too, and what Go
1.27 takes out of it (``_.goready.func1``)."""

STANDARD_LIBRARIES = re.compile(r"lib(std)?c\+\+(abi|fs)?\.so|libsupc\+\+|libstd-[0-9a-f]+\.so")
"""Files that are such code themselves."""


def without(functions: Iterable[Function], symbols: Symbols) -> list[Function]:
    """Return those of ``functions`` that are no such code."""
    go = symbols.go
    kept = []
    for function in functions:
        of_go = go is not None and go.start <= function.address < go.end
        names = (function.name, *function.aliases)
        if not any(map(_is_of_go if of_go else is_runtime, names)):
            kept.append(function)
    return kept


def is_runtime(name: str) -> bool:
    """Return whether a function called ``name`` in symbols is such code."""
    if name in START_UP or _MADE.match(name) or _OF_CPP.match(name):
        return True
    return is_of_rust(name)


def is_of_rust(name: str) -> bool:
    """Return whether a function called ``name`` in symbols is of Rust's own crates."""
    return _RUST.match(name) is not None and _is_of_rust(demangle.short(name))


def _is_of_rust(name: str) -> bool:
    """Whether a function, type or trait is Rust's own; a method where its type and, if one has it,
    its trait are."""
    name = name[_LEADING.match(name).end() :]  # type: ignore[union-attr]  # it may be empty
    if not name.startswith("<"):
        return _OF_RUST.match(name) is not None
    depth, start = 0, 1
    for piece in re.finditer(r"<|(?<!-)>| as ", name):
        depth += (piece[0] == "<") - (piece[0] == ">")
        if depth == 1 and piece[0] == " as ":
            if not _is_of_rust(name[start : piece.start()]):
                return False
            start = piece.end()
        elif not depth:
            return _is_of_rust(name[start : piece.start()])
    return False


def _is_of_go(name: str) -> bool:
    return _OF_GO.match(name) is not None

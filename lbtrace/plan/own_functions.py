"""The functions that a program's own sources define: what is traced where nothing is named (see
`lbtrace.plan.found.Finder`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import BinaryError, NoMatchError
from lbtrace.model import Function
from lbtrace.plan import runtime_code
from lbtrace.plan.functions import merge, read_symbols
from lbtrace.plan.selection import Selection
from lbtrace.plan.source_files import functions_at

OTHERS = re.compile(
    r"/usr/(local/)?(include|lib|lib64|share)/|/rustc/|/rust/deps/|/usr/local/go/|/opt/hostedtoolcache/"
    r"|.*/(\.cargo/(registry|git)|\.rustup|pkg/mod|go(-[\d.]+)?/src/[^./]+|c\+\+/(v1|\d+))/"
    r"|.*(\.\./)?(sysdeps|csu|crtstuff\.c)(/|$)|library/(std|core|alloc)/src/|<built-in>|<internal>"
)
"""Paths of source files that programs take from compilers, systems and package managers."""

NARROW = "lbtrace attach --func NAME takes fewer"

STANDARD_GO = re.compile(
    r"(archive|bufio|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding|errors"
    r"|expvar|flag|fmt|go|hash|html|image|index|internal|io|iter|log|maps|math|mime|net|os|path|plugin"
    r"|reflect|regexp|runtime|slices|sort|strconv|strings|structs|sync|syscall|testing|text|time"
    r"|unicode|unique|unsafe|vendor|weak)[./]"
)
"""Names of functions in packages of Go's standard library."""


MADE_BY_GO = re.compile(r"\.(deferwrap|gowrap)\d+$")
"""Names of what the compiler makes of ``defer f(x)`` and ``go f(x)``."""


def find(images: Sequence[Image], selection: Selection) -> Iterator[Function | str]:
    """Yield the functions that sources of each image define, by its debug information; without
    any, all of its functions that are neither start-up code nor the runtime of its language.

    Raises `NoMatchError` where there are none.
    """
    binaries = read_symbols(images, selection)
    found, declared = list[Function](), list[bool]()
    for binary, (image, (_, table, *_)) in enumerate(zip(images, binaries, strict=True)):
        defined = _defined(image, table)
        declared.append(bool(defined))
        functions = defined or _without_standard(table.functions, table)
        found += (replace(each, binary=binary) for each in functions)
    if not found:
        paths = " or ".join(image.path for image in images)
        raise NoMatchError(f"{paths}: no function has a name", "use a build that is not stripped")
    yield from found
    kept, _ = merge(binaries, found, selection.exclude)
    for image, is_declared, count in zip(images, declared, map(len, kept), strict=True):
        functions_of_it = f"the {count:,} functions" if count > 1 else "the one function"
        which = f"that the sources of {image.path} define"
        if not is_declared:
            which = f"of {image.path}, of which no debug information tells those of its sources"
        if count:
            yield f"traces {functions_of_it} {which} ({NARROW})"


def _defined(image: Image, table: Symbols) -> list[Function]:
    """Those that sources of ``image`` define, as far as debug information says it."""
    from lbtrace.dwarf.sources import find_functions  # imported here because most plans name some

    try:
        defined = find_functions(image, _is_own)
    except BinaryError:
        return []
    return _without_standard(functions_at(defined.addresses, table), table)


def _without_standard(functions: Sequence[Function], table: Symbols) -> list[Function]:
    """``functions`` without runtimes, and what is standard in Go."""
    kept = runtime_code.without(functions, table)
    go = table.go
    if go is None:
        return kept
    return [f for f in kept if not (go.start <= f.address < go.end and _is_no_source_of_go(f.name))]


def _is_no_source_of_go(name: str) -> bool:
    return bool(STANDARD_GO.match(name) or MADE_BY_GO.search(name))


@cache
def _is_own(path: str) -> bool:
    return OTHERS.match(path) is None

"""The names of the functions of a file and of its tables of virtual ones, by their addresses.

A trace reads them when the first pointer to code is shown, a capture has all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from msgspec.structs import replace

from lbtrace.elf import plt, symbols
from lbtrace.elf.data_symbols import find_tables
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError
from lbtrace.model import Binary, Function, Plan, Symbols
from lbtrace.system.file import File
from lbtrace.values.pointer import TABLE_OF

INVOKER = "_M_invoke"
"""What calls the target of a ``std::function`` (libstdc++), and names its type."""

RUST = "rust_"
"""In names of functions that all programs with Rust have: ``rust_eh_personality``."""


class CodeNames:
    """The names in the file of a binary, read when the first is asked for; none where another file
    is there by now."""

    def __init__(self, binary: Binary) -> None:
        self._binary = binary

    def function(self, address: int) -> str:
        """Return the function that begins at ``address``, or that the stub there leads to; ``""``
        where there is none."""
        if self._image is None or address >> 64:  # negative, or too large
            return ""
        functions = self._image.once(symbols.read_any).functions
        number = functions.before(address) - 1
        found = functions[number] if number >= 0 else None
        if found is None or found.address != address:
            stub = self._image.once(plt.stubs).get(address)
            return stub.name if stub else ""
        return "" if _is_folded(found) else found.name

    @cached_property
    def tables(self) -> Sequence[tuple[int, int, str]]:
        """See `lbtrace.model.Symbols`."""
        image = self._image
        if image is None:
            return ()
        found = image.once(find_tables)
        if not image.once(symbols.read_any).functions.with_part(RUST):
            return found
        from lbtrace.dwarf import rust_tables  # imported here because few programs are Rust's

        rust = image.once(rust_tables.find_tables).items()
        return sorted([*found, *((at, at, f"{TABLE_OF}{name}") for at, name in rust)])

    @cached_property
    def _image(self) -> Image | None:
        try:
            image = Image(File(self._binary.names_in, shown=self._binary.path))
        except BinaryError:
            return None
        return image if image.build_id == self._binary.build_id else None

    def read(self) -> Symbols:
        """Return all of them."""
        image = self._image
        if image is None:
            return Symbols()
        functions, stubs = image.once(symbols.read_any).functions, image.once(plt.stubs)
        addresses, names = functions.names()
        merged, named, done = list[int](), list[str](), 0
        for stub in sorted(stubs):
            at = bisect_left(addresses, stub, done)
            if addresses[at : at + 1] != [stub]:
                merged += [*addresses[done:at], stub]
                named += [*names[done:at], stubs[stub].name]
                done = at
        merged, named = [*merged, *addresses[done:]], [*named, *names[done:]]
        for function in filter(_is_folded, functions.with_part(INVOKER)):
            at = bisect_left(merged, function.address)
            del merged[at], named[at]
        return Symbols(tuple(merged), tuple(named), tuple(self.tables))


def _is_folded(function: Function) -> bool:
    """Whether several functions are at one place, and which one is meant is not known."""
    names = {function.name, *function.aliases}
    return len(names) > 1 and any(INVOKER in name for name in names)


def with_names(plan: Plan) -> Plan:
    """Return ``plan`` with the names that are to be read yet."""
    if not any(binary.names_in for binary in plan.binaries):
        return plan
    return replace(plan, binaries=tuple(map(_named, plan.binaries)))


def _named(binary: Binary) -> Binary:
    if not binary.names_in:
        return binary
    return replace(binary, symbols=CodeNames(binary).read(), names_in="")

"""Probes where control lands after an exception or longjmp.

All frames below the stack pointer there are gone. Probes that report it keep calls made from there
from counting as made inside of those that were left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import partial

from msgspec.structs import replace

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stubs
from lbtrace.elf.symbol_table import Wanted
from lbtrace.elf.symbols import SHF_EXECINSTR, Symbols
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Fetch, Function, Probe, Site

TWICE = frozenset({"setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp"})
"""Functions that return once more where longjmp leads."""

CATCH = "__cxa_begin_catch"
"""What every handler of C++ calls first (Itanium C++ ABI, exception handling, 2.5.3)."""

RUST_CATCH = (
    r"_R.*_3std9panicking(3try|12catch_unwind)7cleanup$"
    r"|_ZN3std9panicking(3try|12catch_unwind)7cleanup17h\w+E$"
)
"""Where Rust catches panics (library/std/src/panicking.rs)."""

RUST_TRY = Wanted(("__rust_try",))
"""What calls `RUST_CATCH` in unoptimised code. Its frame is above all those that the panic left,
that of `RUST_CATCH` may not be."""

THROWING = Wanted(("__cxa_throw", "__cxa_begin_catch", "_Unwind_Resume", "rust_begin_unwind"))
"""What functions call that throw exceptions or panics, or clean up after them."""

LLVM_THROWS = "__cxa_rethrow_primary_exception"
"""What throws exceptions once more in programs that hold libc++abi."""

WANTED = Wanted((*TWICE, CATCH), ("_R*9panicking", "_ZN3std9panicking"))
"""Symbols that may have such names."""


def plan_probes(
    image: Image,
    table: Symbols,
    stubs: Stubs,
    pads: Collection[int],
    sites: ProbeSites,
    *,
    telling: bool = False,
) -> Iterator[Probe]:
    """Yield probes at the landing ``pads`` of traced functions, and where others of ``image``
    catch exceptions, or call setjmp; they are ``telling`` if they fetch the exception."""
    twice, catches, rust = _called(table, stubs)
    telling = telling and bool(catches)
    fetches = _fetches(image, table, rust=rust) if telling else lambda register: ()
    kernel = sites.machine.kernel
    at_pad, at_catch = kernel.PLAIN_RESULTS[0], kernel.PLAIN_ARGUMENTS[0]
    # Each where it is found: the code of a function is followed once for its calls and their sites.
    landings = {each: sites.at(each) for each in _behind_calls(image, twice, sites)}
    landings.update((pad, sites.at(pad)) for pad in sorted({*pads} - landings.keys()))
    thrown = fetches(at_pad)
    for address, landing in sorted(landings.items()):
        if isinstance(landing, Site):
            site = replace(landing, sp_delta=-sites.machine.return_address_size)
            yield _probe(site, thrown if address in pads else ())
    for address in sorted(catches):
        catch = sites.start(address, image.offset(address), stub=address in stubs)
        if catch is not None:
            yield _probe(catch, fetches(at_catch))


def _fetches(image: Image, table: Symbols, *, rust: bool) -> Callable[[str], tuple[Fetch, ...]]:
    """What fetches an exception, or a panic, from where a register leads."""
    from lbtrace.calls import exceptions, panics  # imported here because few plans tell of them

    if rust:
        return panics.fetches
    llvm = any(name.startswith("libc++") for name in image.once(Dynamic).needed)
    found = table.functions.wanted(Wanted((LLVM_THROWS,)))
    llvm = llvm or any(LLVM_THROWS in (f.name, *f.aliases) for f in found)
    return partial(exceptions.fetches, primary=exceptions.LLVM if llvm else exceptions.GNU)


def throws(table: Symbols, stubs: Stubs) -> bool:
    """Return whether exceptions or panics may leave functions of a file, by names."""
    named = (*stubs.wanted(THROWING), *table.functions.wanted(THROWING))
    return bool(named)


def tries(table: Symbols) -> Iterator[Function]:
    """Yield functions whose landing pads tell what was left, whichever are traced."""
    yield from table.functions.wanted(RUST_TRY)


def is_catch(name: str) -> bool:
    """Return whether the function called ``name`` is where exceptions or panics are caught."""
    return name == CATCH or re.match(RUST_CATCH, name) is not None


def _behind_calls(image: Image, targets: set[int], sites: ProbeSites) -> Iterator[int]:
    """The addresses to which calls of ``targets`` return."""
    for section in image.sections:
        if targets and section.flags & SHF_EXECINSTR:
            code = image.view(section.address, section.size)
            for call in sites.machine.find_calls(code, section.address, targets):
                if sites.continues_to(call.address, call.after):
                    yield call.after


def _probe(site: Site, fetched: tuple[Fetch, ...]) -> Probe:
    reached = replace(site, reason="reports which calls were left")
    return Probe(reached, "landing", fetches=fetched)


def _called(table: Symbols, stubs: Stubs) -> tuple[set[int], set[int], bool]:
    """Where functions that return twice, and those that handlers call, begin, or their stubs; and
    whether these are Rust's."""
    twice: set[int] = set()
    catches: set[int] = set()
    rust = False
    named = [*stubs.wanted(WANTED)]
    found = table.functions.wanted(WANTED)
    named += [(f.address, name) for f in found for name in (f.name, *f.aliases)]
    for address, name in named:
        if name in TWICE:
            twice.add(address)
        elif is_catch(name):
            catches.add(address)
            rust |= name != CATCH
    return twice, catches, rust

"""Prototypes of C++ functions, from their names and their code.

A name does not tell in which register the parameters begin that it has: ``this`` may come first,
and on x86-64 the address of an object that is returned in memory. What tells: a function that reads
a register which a caller fills takes so many. One in no class has no ``this``; a constructor, a
destructor, a ``const`` function has one. Where that does not decide, nothing is said of a function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal

from msgspec.structs import replace

from lbtrace.abi import find_default, locate_values
from lbtrace.abi.locations import Location
from lbtrace.elf import demangle
from lbtrace.elf.demangle import Declaration
from lbtrace.elf.functions import Functions
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.mangled import scopes
from lbtrace.mangled.views import NULLPTR, WORD, NamedView
from lbtrace.model import ConventionHints, Fetch, Formal, Function, Prototype, Scalar
from lbtrace.recognize import Recognizer
from lbtrace.recognize.view import INTEGERS, View
from lbtrace.values.word import AUTO

HINTS = ConventionHints(language="c++")

FUNCTION = re.compile(r"_Z(?![TG])")
"""Begins the names of functions; thunks, guards and tables have others."""

ADDRESS, IN_MEMORY = "void*", "std::__cxx11::basic_string<char>"
"""A type that is an address, and one of objects that functions return in memory."""

NUMBER = Formal("", AUTO, WORD, (Scalar(0, WORD, "integer"),))
"""A result of which nothing is known."""

MOST = 2
"""What may come before the parameters: the address of the result, and ``this``; to constructors of
classes with virtual bases, a table after ``this`` (Itanium C++ ABI, 2.6.2)."""

EXAMINED = 40
"""Functions of a scope whose code is read to learn whether it is a class."""

FEWEST = 3
"""Functions that read just what their names say, by which a scope is no class: a method does too,
if it has no use for its last parameter."""


class MangledNames:
    """What names tell of the ``functions`` of a file. Pointers are followed ``depth`` deep."""

    def __init__(self, image: Image, machine: Machine, functions: Functions, depth: int) -> None:
        self._image, self._machine, self._functions = image, machine, functions
        self._recognizer = Recognizer(depth)
        self._x87 = find_default(machine.name).x87
        self._registers = [*_integers(self._locate(Prototype((NUMBER,) * 8)))]
        self.by_gcc = is_by_gcc(image)
        """Whether gcc alone compiled the file."""
        self._formals: dict[str, Formal] = {}
        far = Prototype((NUMBER,), self._formal(IN_MEMORY))
        self._moves = [*_integers(self._locate(far))] != self._registers[:1]
        self._classes: dict[str, bool] = {}

    def find(self, functions: Sequence[Function]) -> dict[int, Prototype]:
        """Return the prototypes of those of ``functions`` of which they are known, by address."""
        made = ((function.address, self._prototype(function)) for function in functions)
        return {address: prototype for address, prototype in made if prototype}

    def _prototype(self, function: Function) -> Prototype | None:
        names = [n for n in (function.name, *function.aliases) if FUNCTION.match(n)]
        declared = {demangle.declaration(name) for name in names}
        changed = any(demangle.MARKED.search(name) for name in names)
        if len(declared) != 1 or changed or (function.local and not self.by_gcc):
            return None  # LLVM changes what local functions take without a word
        declaration = declared.pop()
        if declaration is None:
            return None
        explicit = self._explicit(declaration)
        hidden = self._count_hidden(function, names[0], declaration, explicit)
        if "..." in declaration.parameters or hidden is None:
            return None
        leading = [self._formal(ADDRESS)] * hidden
        if hidden and scopes.is_structor(declaration):
            leading[0] = replace(leading[0], name="this")
        parameters = (*leading, *explicit.parameters)
        return Prototype(parameters, explicit.result, hints=HINTS, exact=True, complete=True)

    def _explicit(self, declaration: Declaration) -> Prototype:
        """The prototype that is in the name."""
        formals = tuple(map(self._formal, declaration.parameters))
        if declaration.result == "void" or scopes.is_structor(declaration):
            return Prototype(formals, None, hints=HINTS)
        result = self._formal(declaration.result) if declaration.result else NUMBER
        known = result.scalars is not None or result.reference
        return Prototype(formals, result if known else NUMBER, hints=HINTS)

    def _formal(self, text: str) -> Formal:
        found = self._formals.get(text)
        if found is None:
            found = self._formals[text] = self._make_formal(text)
        return found

    def _make_formal(self, text: str) -> Formal:
        view = NamedView(text, x87=self._x87)
        scalars = None if self._is_counted_otherwise(view) else _scalars(view, 0)
        return Formal(
            "",
            self._recognizer.type_of(view),
            view.size,
            None if scalars is None else tuple(scalars),
            view.passes_address,
            alignment=view.alignment,
        )

    def _is_counted_otherwise(self, view: NamedView) -> bool:
        """Whether clang may count other registers for a type than it takes, so that nothing is
        known from there on: see `lbtrace.abi.sysv_x86_64.ArgumentAssigner`."""
        wide = view.size > WORD and view.encoding in INTEGERS
        return not self.by_gcc and (wide or view.written == NULLPTR)

    def _locate(self, prototype: Prototype) -> Sequence[Location]:
        return locate_values(self._machine.name, prototype).parameters

    def _count_hidden(
        self, function: Function, name: str, declaration: Declaration, explicit: Prototype
    ) -> int | None:
        """How many addresses are passed before the parameters of the name, but for that of a result
        which the name tells; None where that is not certain."""
        code = self._code(function)
        least, most = int(scopes.is_method(declaration)), MOST - scopes.is_namespace(declaration)
        spare = self._count_spare(code, explicit, most)
        if spare is not None and self._stores_all(code, explicit, spare):
            return spare if least <= spare <= most else None
        if scopes.is_structor(declaration):
            return max(spare or 0, least)
        if spare is not None and spare > least:
            return spare if spare <= most else None
        # An operator that is no lambda's reads both of its operands.
        operates = declaration.name.startswith("operator") and not declaration.qualified
        returns = self._may_be_memory(code, explicit) and not (operates and spare == least)
        if least or scopes.is_namespace(declaration):
            return None if returns else least
        is_all = spare == 0 and not returns and not self._is_class(name, declaration)
        return 0 if is_all else None

    def _may_be_memory(self, code: Code, explicit: Prototype) -> bool:
        """Whether the function may return an object in memory of which its name says nothing."""
        known = explicit.result is not NUMBER
        return self._moves and not known and self._machine.may_return_first(code)

    def _count_spare(self, code: Code, explicit: Prototype, most: int = MOST) -> int | None:
        """How many registers more the function takes, at least, than the parameters of the name do;
        less than 0 where it does not read all of these. None where nothing tells, as where it reads
        all that there are and ``most`` more than its parameters are not among them."""
        used = self._count_used(explicit)
        if used is None or used == len(self._registers):
            return None
        read = self._machine.find_entry_reads(code, self._registers, self._image.code)
        if read is None:
            return None
        spare = max((self._registers.index(each) + 1 for each in read), default=0) - used
        is_capped = used + spare == len(self._registers) and spare < most
        return None if is_capped and self._may_be_memory(code, explicit) else spare

    def _count_used(self, explicit: Prototype) -> int | None:
        """How many registers its parameters take, vector registers left out; None where that is
        not known."""
        if any(each.scalars is None and not each.reference for each in explicit.parameters):
            return None
        taken = [*_integers(self._locate(explicit))]
        return max((self._registers.index(each) + 1 for each in taken), default=0)

    def _stores_all(self, code: Code, explicit: Prototype, spare: int) -> bool:
        """Whether a function was compiled without optimisation, so that it stores whatever it takes
        in its frame: the registers that it stores are those of the parameters and the ``spare``
        ones."""
        stores = self._machine.find_argument_stores(code)
        used = self._count_used(explicit)
        if stores is None or used is None or "bp" not in stores.bases:
            return False
        stored = {name for name, _ in stores.first.values()}
        taken = set(self._registers[: used + spare])
        return taken <= stored and not stored & {*self._registers[used + spare :]}

    def _code(self, function: Function) -> Code:
        code = self._image.code(function.address, function.size)
        return Code(code, function.address, function.offset, function.address + len(code))

    def _is_class(self, name: str, declaration: Declaration) -> bool:
        """Whether the scope of a function is a class, or may be one whose members are not found."""
        scope = scopes.mangled_scope(name, declaration)
        if not scope:
            return True
        known = self._classes.get(scope)
        if known is None:
            known = self._classes[scope] = any(self._prove_class(scope))
        return known

    def _prove_class(self, scope: str) -> Iterator[bool]:
        """Say of functions whether they prove that ``scope`` is a class: by a name that only
        classes have, or since they take something more than their parameters; last, whether too few
        take just these."""
        plain, exact = [], 0
        for number, name in enumerate(self._names):
            if scope in name and (proves := scopes.is_member(name, scope)) is not None:
                yield proves
                plain.append(number)
        for number in plain[:EXAMINED]:
            declaration = demangle.declaration(self._names[number])
            if declaration is None or "..." in declaration.parameters:
                continue
            code, explicit = self._code(self._functions[number]), self._explicit(declaration)
            spare = self._count_spare(code, explicit)
            exact += bool(spare == 0 and self._count_used(explicit))
            more = spare or 0
            yield more > 1 or (more == 1 and not self._may_be_memory(code, explicit))
        yield exact < FEWEST

    @cached_property
    def _names(self) -> Sequence[str]:
        return self._functions.names()[1]


def is_by_gcc(image: Image) -> bool:
    """Return whether a file was certainly compiled by gcc alone, as compilers note there."""
    section = image.section(".comment")
    noted = image.content(section) if section is not None else b""
    return b"GCC:" in noted and b"clang" not in noted and b"rustc" not in noted


def _integers(places: Sequence[Location]) -> Iterator[str]:
    """The registers, but vector registers, in which values lie, or their addresses."""
    for place in places:
        for fetch in (*place.words, place.memory):
            if isinstance(fetch, Fetch) and fetch.base == "register":
                yield fetch.register


def _scalars(view: View, offset: int) -> list[Scalar] | None:
    """The numbers that a value is made of; None where that is not known."""
    if view.form == "base":
        kind: Literal["integer", "float", "x87"]
        kind = (
            "x87"
            if view.is_x87
            else "float"
            if view.encoding in ("float", "complex")
            else "integer"
        )
        step = view.size // 2 if view.encoding == "complex" else view.size
        return [Scalar(offset + at, step, kind) for at in range(0, view.size, step)]
    if view.form in ("pointer", "member pointer"):
        return [Scalar(offset + at, WORD, "integer") for at in range(0, view.size, WORD)]
    if view.form != "record" or not view.is_sized:
        return None
    parts = [_scalars(part.type, offset + part.offset) for part in view.members]
    return None if None in parts else [scalar for part in parts for scalar in part or ()]

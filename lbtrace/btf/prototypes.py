"""Prototypes of the kernel's functions, and of its modules', from BTF."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property

from lbtrace.btf import reader
from lbtrace.btf.reader import VMLINUX, Btf, BtfError
from lbtrace.btf.views import BtfView
from lbtrace.errors import KernelError
from lbtrace.model import Formal, Prototype, Scalar
from lbtrace.recognize import Recognizer
from lbtrace.recognize.view import MemberView, View
from lbtrace.system.procfs import read_bytes

LARGEST = 16
"""Bytes of a record that registers may hold."""


class KernelView(BtfView):
    """A type of the kernel. Pointers to code are numbers: no file has what they lead to. Of records
    only members of these ``names`` are looked into, if given: the kernel's lead to nearly all
    others."""

    __slots__ = ("_names",)

    def __init__(self, btf: Btf, number: int, names: frozenset[str] | None) -> None:
        super().__init__(btf, number)
        self._names = names

    def of(self, number: int) -> KernelView:
        return KernelView(self._btf, number, self._names)

    @property
    def leads_to_code(self) -> bool:
        return False

    @property
    def name(self) -> str:
        """Names are of ``unsigned char`` (``struct qstr``), while bytes are ``u8``."""
        return "char" if self.written.endswith("unsigned char") else super().name

    @property
    def members(self) -> Iterator[MemberView]:
        every, names = super().members, self._names
        if names is None:
            yield from every
            return
        first = next(every, None)
        if first is None:
            return
        if not first.name or first.name in names:
            yield first
            first = None
        for member in every:
            if not member.name or member.name in names:
                yield member
                first = None
        if first is not None:  # a record is not empty for having none of them
            yield first


class KernelTypes:
    """What the kernel that runs says of its functions; pointers are followed ``depth`` deep,
    and of records only members of these ``names`` looked into, if given."""

    def __init__(self, depth: int = 0, names: frozenset[str] | None = None) -> None:
        """Raises `KernelError` where it says nothing."""
        try:
            self._kernel = Btf(read_bytes(VMLINUX))
        except OSError as error:
            raise KernelError(
                f"cannot read the kernel's types, {VMLINUX}: {error.strerror}",
                "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are",
                errno=error.errno or 0,
            ) from None
        self._depth, self._names = depth, names
        self._modules: dict[str, _Functions] = {}

    @cached_property
    def _own(self) -> _Functions:
        return self._functions(self._kernel)

    def find(self, name: str) -> Prototype | None:
        """Return the prototype of a function, ``NAME`` or ``MODULE:NAME``; None where none is
        known, or several are."""
        module, _, function = name.rpartition(":")
        if not module:
            return self._own.prototype(function)
        if module not in self._modules:
            try:
                data = read_bytes(os.path.join(os.path.dirname(VMLINUX), module))
                types = Btf(data, self._kernel)
            except (OSError, BtfError):
                return None
            self._modules[module] = self._functions(types)
        return self._modules[module].prototype(function)

    def _functions(self, btf: Btf) -> _Functions:
        return _Functions(btf, Recognizer(self._depth, lasting=True), self._names)


class _Functions:
    """The functions of one description."""

    def __init__(self, btf: Btf, recognizer: Recognizer, names: frozenset[str] | None) -> None:
        self._btf, self._names = btf, names
        self._recognizer = recognizer
        self._numbers = reader.functions(btf)

    def prototype(self, name: str) -> Prototype | None:
        numbers = self._numbers.get(name, ())
        if len(numbers) != 1:
            return None
        made = self._btf.type(self._btf.type(numbers[0]).value)
        declared = reader.parameters(made)
        varies = bool(declared) and not declared[-1][1]
        named = declared[:-1] if varies else declared
        formals = tuple(
            self._formal(own or f"arg{n}", number) for n, (own, number) in enumerate(named)
        )
        result = self._formal("", made.value) if made.value else None
        return Prototype(formals, result, complete=not varies)

    def _formal(self, name: str, number: int) -> Formal:
        view = KernelView(self._btf, number, self._names)
        scalars = _scalars(view, 0) if view.size <= LARGEST else []
        scalars = [Scalar(0, 8, "memory")] if scalars == [] and view.size else scalars
        type = self._recognizer.type_of(view)
        return Formal(name, type, view.size, None if scalars is None else tuple(scalars))


def _scalars(view: View, offset: int) -> list[Scalar] | None:
    """The numbers that a value is made of; None where they are not known."""
    if view.form in ("base", "enumeration", "pointer"):
        real = view.encoding in ("float", "complex")
        return [Scalar(offset, view.size, "float" if real else "integer")]
    if view.form != "record":
        return None
    found = dict[tuple[int, int], Scalar]()
    for member in view.members:
        inside = _scalars(member.type, offset + member.offset)
        if inside is None:
            return None
        found |= {(each.offset, each.size): each for each in inside}
    return list(found.values())

"""The system calls of Linux: their numbers and arguments, and the names of constants.

The tables are made by build/syscalls, one for each machine, and read when system calls are traced.
"""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from lbtrace.errors import BinaryError
from lbtrace.system.procfs import read_bytes


class Parameter(Struct, frozen=True, array_like=True):
    """An argument of a call: its ``name``, its ``type`` in C, and the `Group` of constants that
    name its values, or an empty text."""

    name: str
    type: str
    group: str


class Call(Struct, frozen=True, array_like=True):
    """A system call: its ``number`` and its ``parameters``."""

    number: int
    parameters: tuple[Parameter, ...]


class Group(Struct, frozen=True, array_like=True):
    """Constants: each value is one of them (``field`` -1), or bits, those of ``field`` together one
    of them."""

    field: int
    constants: tuple[tuple[int, str], ...]


class Part(Struct, frozen=True, array_like=True):
    """A member of a structure: its ``name``, its ``offset`` and ``size`` in bytes, whether it is
    ``signed``, and how it is ``written``: by the constants of that `Group`, as one of `WRITTEN`
    (`lbtrace.syscalls.structures`), or as a number."""

    name: str
    offset: int
    size: int
    signed: bool
    written: str


class Structure(Struct, frozen=True, array_like=True):
    """A structure of so many bytes, of which these ``parts`` are shown, and ``more`` are not."""

    size: int
    parts: tuple[Part, ...]
    more: int


class Chosen(Struct, frozen=True, array_like=True):
    """What decides about the names of an argument: another one, ``by``. ``cases`` are numbers of
    that one and the `Group` that counts then."""

    by: str
    cases: tuple[tuple[tuple[int, ...], str], ...]


class Led(Struct, frozen=True, array_like=True):
    """What lies where an argument leads: a structure or another ``kind`` of value; as many as
    ``count`` says, one if it is empty, or of as many bytes as ``length`` does, if it is not. Both
    are names of arguments, ``retval``, or numbers; a ``*`` is before the name of one that leads to
    the length. It counts where the arguments of ``by`` have one of the numbers."""

    kind: str
    count: str
    length: str
    by: tuple[tuple[str, tuple[int, ...]], ...]


class Table(Struct, frozen=True):
    """The calls, groups and structures of a machine, by name; ``chosen`` has the arguments,
    ``CALL.ARGUMENT``, whose group another one decides about; ``filled`` says what calls fill
    where ``CALL.ARGUMENT`` leads, and what they are passed where ``<CALL.ARGUMENT`` does."""

    calls: dict[str, Call]
    groups: dict[str, Group]
    chosen: dict[str, Chosen]
    structures: dict[str, Structure]
    filled: dict[str, tuple[Led, ...]]


def read_table(machine: str) -> Table:
    """Return the table of a machine. Raises `BinaryError` where there is none."""
    path = os.path.join(os.path.dirname(__file__), "tables", f"{machine}.json")
    try:
        return msgspec.json.decode(read_bytes(path), type=Table)
    except OSError:
        raise BinaryError(
            f"lbtrace has no table of the system calls of {machine}", "install it again"
        ) from None

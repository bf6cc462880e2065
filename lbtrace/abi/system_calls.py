"""How Linux passes the arguments and results of system calls (syscall(2), "Architecture calling
conventions")."""

from __future__ import annotations

from lbtrace.abi import Locations
from lbtrace.abi.locations import Location
from lbtrace.model import Fetch, Prototype

ARGUMENTS = {
    "x86_64": ("di", "si", "dx", "r10", "r8", "r9"),
    "aarch64": ("x0", "x1", "x2", "x3", "x4", "x5"),
}

NUMBER = {"x86_64": "orig_ax", "aarch64": "x8"}

RESULT = {"x86_64": "ax", "aarch64": "x0"}


def locate_arguments(machine: str, prototype: Prototype) -> Locations:
    """Return where the values of a call lie when it begins, and its result when it ends."""
    registers = ARGUMENTS[machine][: len(prototype.parameters)]
    return Locations(tuple(map(_in, registers)), _in(RESULT[machine]))


def locate_raw(machine: str, prototype: Prototype) -> Locations:
    """The same where the first value is the number of the call."""
    registers = (NUMBER[machine], *ARGUMENTS[machine])[: len(prototype.parameters)]
    return Locations(tuple(map(_in, registers)), _in(RESULT[machine]))


def _in(register: str) -> Location:
    return Location(words=(Fetch(register=register),))

"""What DWARF's numbers of registers stand for.

Sources: System V ABI, AMD64 supplement, figure 3.36; "DWARF for the Arm 64-bit Architecture",
section 4.1.
"""

from __future__ import annotations

from msgspec import Struct

from lbtrace.abi.locations import UNKNOWN
from lbtrace.machine.x86_64.registers import DWARF_REGISTERS
from lbtrace.model import Fetch


class Numbers(Struct, frozen=True):
    """The ``names`` of integer registers from number 0 on; vector registers are called ``vector``
    and their number from ``first`` on, of which there are 32 at most."""

    names: tuple[str, ...]
    vector: str
    first: int


NUMBERS = {
    "x86_64": Numbers((*DWARF_REGISTERS[:16], "ip"), "xmm", 17),
    "aarch64": Numbers((*(f"x{n}" for n in range(31)), "sp"), "v", 64),
}


def find_register(machine: str, number: int) -> Fetch | str:
    """What fetches the register with this number, or why no probe can read it."""
    known = NUMBERS[machine]
    if 0 <= number < len(known.names):
        return Fetch(register=known.names[number])
    if known.first <= number < known.first + 32:
        return f"float in {known.vector}{number - known.first}"
    return UNKNOWN


def program_counter(machine: str) -> str:
    """The name of the register that holds the address of the probed instruction."""
    return "ip" if "ip" in NUMBERS[machine].names else "pc"


def stack_pointer(machine: str) -> int:
    """The number of the stack pointer."""
    return find_number(machine, "sp")


def find_number(machine: str, name: str) -> int:
    """The number of the integer register of this name."""
    return NUMBERS[machine].names.index(name)

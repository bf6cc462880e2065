"""The arguments of markers: their names, types and locations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from lbtrace.abi import find_default
from lbtrace.abi.locations import WORD, Location, moved
from lbtrace.abi.marker_operands import Operand, read_operands
from lbtrace.dwarf.scopes import Variable
from lbtrace.elf.data_symbols import find_address
from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import Marker
from lbtrace.model import Fetch, Formal, Scalar
from lbtrace.providers import LENGTHS, Argument, Definitions, choose
from lbtrace.recognize.fetcher import pointer_in
from lbtrace.values import Type
from lbtrace.values.boolean import Boolean
from lbtrace.values.character import Character
from lbtrace.values.integer import Integer, fixed_width
from lbtrace.values.pointer import Pointer
from lbtrace.values.string import String

SIZES = {"char": 1, "short": 2, "int": 4, "pid_t": 4, "bool": 1} | {
    f"{sign}int{8 * size}_t": size for sign in ("", "u") for size in (1, 2, 4, 8)
}
"""Bytes of types of C, where less than a word."""

REALS = {"float": 4, "double": 8, "long double": 16}
"""Bytes of floating-point types of C. Older versions of ``sys/sdt.h`` do not mark the operands that
are ones: only a definition tells then."""

NAMES = {size: name for name, size in REALS.items()}

UNSIGNED = re.compile(r"unsigned\b|uint|bool")


def marker_values(image: Image, marker: Marker, definitions: Definitions) -> Iterator[Variable]:
    """Yield the arguments of a marker, under the names that ``definitions`` give them."""
    operands = read_operands(
        image.machine, marker.arguments, marker.address, partial(find_address, image)
    )
    defined = definitions.markers.get(marker.title, ())
    arguments = choose(defined, len(operands)) or [Argument("", "")] * len(operands)
    hidden = False
    for number, (argument, passed) in enumerate(zip(arguments, operands, strict=True)):
        name = argument.name or f"arg{number}"
        if hidden:
            hidden = False
            continue
        operand = _shifted(passed, argument.offset)
        following = arguments[number + 1].name if number + 1 < len(arguments) else ""
        if argument.is_text and following in [name + each for each in LENGTHS]:
            hidden = True
            yield _counted(name, operand, operands[number + 1])
        else:
            yield _single(name, argument, operand, image.machine)


def _single(name: str, argument: Argument, operand: Operand, machine: str) -> Variable:
    type = find_type(argument, operand, machine)
    scalars = (Scalar(0, operand.size, "integer"),)
    return Variable(Formal(name, type, operand.size, scalars), operand.location)


def _shifted(operand: Operand, offset: int) -> Operand:
    """The operand of a text that begins ``offset`` bytes after the address that is passed."""
    location = operand.location
    words = [moved(pointer_in(w), offset) for w in location.words if isinstance(w, Fetch)]
    if not offset or operand.size != WORD or not words:
        return operand
    return operand._replace(location=Location(words=tuple(words)))


def _counted(name: str, text: Operand, length: Operand) -> Variable:
    """Text whose number of bytes is an argument of its own."""
    type = String("char *", 16, 0, 8)
    reason = text.location.reason or length.location.reason
    if not reason and (length.real or max(text.size, length.size) > WORD):
        reason = "its length is no number of 64 bits"
    if reason:
        location = Location(reason=reason)
    else:
        location = Location(words=(text.location.words[0], _narrow(length)))
    scalars = (Scalar(0, 8, "integer"), Scalar(8, 8, "integer"))
    return Variable(Formal(name, type, 16, scalars), location)


def _narrow(operand: Operand) -> Fetch | str:
    """The word of an operand without what lies above it in its register."""
    word = operand.location.words[0]
    if isinstance(word, str) or word.read != "value" or operand.size >= 8 or word.bit_size:
        return word
    return replace(word, bit_size=8 * operand.size)


def find_type(argument: Argument, operand: Operand, machine: str) -> Type:
    """Return the type of an argument that is passed as ``operand`` says; without a definition a
    number of its size. The places of a marker differ: one may pass a constant for a byte."""
    declared = argument.type
    if operand.real or (operand.size == REALS.get(declared) and not operand.signed):
        return _find_real(declared, operand, machine)
    if operand.size == 8 and (argument.is_text or declared.endswith("*")):
        text = Character("char", 1, signed=True) if argument.is_text else None
        return Pointer("char *" if text else declared, 8, text)
    if declared == "bool":
        return Boolean("bool", operand.size)
    if not declared or declared in REALS:  # the latter where an integer is passed for it
        return fixed_width(operand.size, signed=operand.signed)
    size = SIZES.get(declared.removeprefix("unsigned "), operand.size)
    if size < operand.size:  # some providers pass all arguments as words
        return Integer(declared, size, not UNSIGNED.match(declared))
    return Integer(declared, operand.size, operand.signed)


def _find_real(declared: str, operand: Operand, machine: str) -> Type:
    from lbtrace.values.float import Float  # imported here because few markers have one
    from lbtrace.values.opaque import Opaque

    size = operand.size
    name = declared if REALS.get(declared) == size else NAMES.get(size, "_Float16")
    if size == 1:
        return Opaque(name, "a float of one byte")
    # psABI of x86-64, 3.1.2: a long double of the x87 has ten bytes, and six of padding
    return Float(name, 10 if size == 16 and find_default(machine).x87 else size)

"""What the values of a recorded call are to a condition: numbers, texts, members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lbtrace.expressions.tree import Comparison, ExpressionError, parts_of
from lbtrace.model import Call, Function, Plan
from lbtrace.values.base import Type
from lbtrace.values.character import UNDECODED
from lbtrace.values.datum import Datum, Form, Unreadable, find_value, keys_of
from lbtrace.values.outcome import NUMBERS

LOWEST_BYTE = 0xFF


class Word(NamedTuple):
    """A name that is none of the call's values: perhaps of a constant."""

    name: str


class LacksName(Exception):
    """The call has no value of this name."""


class NotRecorded(Exception):
    """The capture does not have the value of this call, or says why it could not be read."""


def arguments_of(call: Call) -> dict[str, Datum]:
    """Return the arguments of a call by name. What the call has filled, or what could be read only
    when it had ended, is what its argument leads to."""
    names = keys_of(each.name for each in call.args)
    found = dict(zip(names, (each.value for each in call.args), strict=True))
    for each in call.result.filled() if isinstance(call.result, Form) else ():
        if each.name in found:
            own = found[each.name]
            found[each.name] = own.with_content(each.value) if isinstance(own, Form) else each.value
    return found


def constants_of(function: Function) -> dict[str, int]:
    """Return the numbers of the names that values of a function have, but for those that are names
    of several; and those of the errors that a system call returns."""
    found: dict[str, int] = {}
    several: set[str] = set()
    for part in parts_of((function.parameters, function.result)):
        for number, name in part.constants() if isinstance(part, Type) else ():
            if found.setdefault(name, number) != number:
                several.add(name)
    return {name: n for name, n in found.items() if name not in several} | NUMBERS


class Looked:
    """The call that is looked at: its ``arguments`` by name, and the numbers of the ``constants``
    of its function. ``seen`` are the names of the arguments of all calls that were looked at."""

    def __init__(self) -> None:
        self.arguments: dict[str, Datum] = {}
        self.constants: dict[str, int] = {}
        self.seen: set[str] = set()
        self._call: Call | None = None
        self._of_functions: dict[int, dict[str, int]] = {}

    def look_at(self, call: Call, plan: Plan) -> None:
        """Look at a call."""
        if call is self._call:
            return
        self._call, self.arguments = call, arguments_of(call)
        self.seen.update(self.arguments)
        number = plan.probes[call.probe].function
        if number not in self._of_functions:
            own = constants_of(plan.functions[number]) if number >= 0 else {}
            self._of_functions[number] = own
        self.constants = self._of_functions[number]


def number_of_symbol(symbol: str, constants: Mapping[str, int]) -> int:
    """Return the number that is written as a name, or as those of its flags."""
    number = 0
    for part in symbol.split("|"):
        if part in constants:
            number |= constants[part]
        elif part.startswith("0x"):
            number |= int(part, 16)
        else:
            raise NotRecorded
    return number


def cut_text(value: Any, length: int) -> Any:
    """Return so many bytes of a text, or of what lies behind an address."""
    value = inner_of(value)
    found = value.beginning(length) if syntax_of(value) == "string" else None
    if found is None:
        raise NotRecorded
    return found


def recorded(datum: Datum) -> Any:
    """Return a value that was recorded."""
    if isinstance(datum, Unreadable):
        raise NotRecorded(datum.reason)
    if datum is None:
        raise NotRecorded
    return datum


def syntax_of(value: Any) -> str:
    """Return what it would be in a language: see `Form.syntax`."""
    return value.syntax if isinstance(value, Form) else ""


def span_of(value: Any) -> float | None:
    """Return how many nanoseconds a span of time takes, also one to which a reference leads."""
    value = value.value if syntax_of(value) == "reference" else value
    return value.span() if isinstance(value, Form) else None


def inner_of(value: Any) -> Any:
    """Return what a pointer that was followed leads to; other values are themselves."""
    if isinstance(value, Word):
        raise LacksName(value.name)
    return value.value if syntax_of(value) == "reference" else value


def number_of(value: Any) -> float:
    """Return the number that a value is."""
    if isinstance(value, int | float):
        return value
    if (span := span_of(value)) is not None:
        return span
    if syntax_of(value) == "character":
        code = ord(value)
        return code - UNDECODED if UNDECODED <= code <= UNDECODED + LOWEST_BYTE else code
    if syntax_of(value) == "reference":
        return int(value.address)
    if isinstance(value, Word):
        raise LacksName(value.name)
    raise NotRecorded


def is_address(value: Any) -> bool:
    """Return whether a value is an address that was not followed."""
    return isinstance(value, Form) and value.column_kind == "address"


def address_of(value: Any) -> int:
    """Return an address, not 0 where a value is certainly not null."""
    if isinstance(value, int):
        return value
    if syntax_of(value) in ("string", "reference") or hasattr(value, "fields"):
        return 1
    raise NotRecorded


def text_of(value: Any) -> tuple[bytes, int | None] | None:
    """Return the bytes of text, as far as they were read, and their true number, if known."""
    if isinstance(value, Word):
        return None
    value = inner_of(value)
    if isinstance(value, bytes):
        return value, len(value)
    if syntax_of(value) == "string":
        return value.data, value.length
    if isinstance(value, str):
        return value.encode(errors="replace"), len(value.encode(errors="replace"))
    return None


def compare_text(test: Comparison, wanted: bytes, data: bytes, length: int | None) -> bool:
    """Return whether a text, of which ``data`` were read, compares as ``test`` says."""
    whole = length == len(data)
    if test.operator in ("startswith", "lacks"):
        if not whole and len(data) < len(wanted) and wanted.startswith(data):
            raise NotRecorded
        return data.startswith(wanted) == (test.operator == "startswith")
    if whole:
        return equality(test, data == wanted)
    if not wanted.startswith(data) or length not in (None, len(wanted)):
        return equality(test, equal=False)
    raise NotRecorded


def equality(test: Comparison, equal: bool) -> bool:
    """Return whether ``test`` holds of what is ``equal`` or not."""
    if test.operator not in ("==", "!="):
        raise ExpressionError(
            test.at, "text and names are compared with ==, != or startswith", 'path == "/x"'
        )
    return equal == (test.operator == "==")


def member_of(value: Any, name: str) -> Any:
    """Return a member of a value."""
    try:
        return recorded(find_value(inner_of(value).fields, name))
    except (AttributeError, KeyError):
        raise NotRecorded from None


def element_of(value: Any, index: int) -> Any:
    """Return an element of a value."""
    inner = inner_of(value)
    if syntax_of(value) == "reference" and index == 0 and not hasattr(inner, "__len__"):
        return recorded(inner)
    if syntax_of(inner) == "string":
        inner = inner.data
    try:
        return recorded(inner[index])
    except (TypeError, LookupError):
        raise NotRecorded from None


def length_of(value: Any) -> int:
    """Return how many elements or bytes a value has."""
    inner = inner_of(value)
    if syntax_of(inner) == "string" and inner.length is not None:
        return int(inner.length)
    if hasattr(inner, "more") and inner.more >= 0 and hasattr(inner, "__len__"):
        return len(inner) + int(inner.more)
    raise NotRecorded

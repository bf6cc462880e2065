"""A condition on calls that were recorded: compared with their values as a capture has them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from lbtrace.expressions.syntax import condition
from lbtrace.expressions.tree import (
    TIMES,
    After,
    Binary,
    Cast,
    Comparison,
    Dereference,
    ExpressionError,
    Field,
    Junction,
    LengthOf,
    Name,
    NamedType,
    Negation,
    Node,
    Number,
    Quoted,
    Register,
    Sum,
    Test,
    TextOf,
    written,
)
from lbtrace.expressions.unsuited import no_unit
from lbtrace.model import Call
from lbtrace.values.character import UNDECODED
from lbtrace.values.datum import Datum, Form, find_value, keys_of

NULLS = frozenset({"nil", "NULL", "null", "nullptr", "None"})
TRUTHS = {"true": 1, "false": 0}
LOWEST_BYTE = 0xFF

OF_CALLS: dict[str, Callable[[Call], int | bytes | None]] = {
    "pid": lambda call: call.pid,
    "tid": lambda call: call.tid,
    "comm": lambda call: call.thread_name.encode() or None,
    "goroutine": lambda call: call.goroutine,
    "duration": lambda call: call.duration,
    "blocked": lambda call: call.blocked,
    "runnable": lambda call: call.runnable,
}
"""What is known of a call besides its values; None where it was not seen."""

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

SIGNS: dict[str, Callable[[int, int], int]] = {
    "*": operator.mul,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}

WIDEST_SHIFT = 63


class Word(NamedTuple):
    """A name that is none of the call's values: perhaps of a constant."""

    name: str


class LacksName(Exception):
    """The call has no value of this name."""


class NotRecorded(Exception):
    """The capture does not have the value of this call."""


class RecordedTest:
    """Whether calls are as ``source``, a ``--where``, says. A call that has no value of a name in
    it is not. ``uncompared`` counts those of which a value was not recorded, or not whole. Raises
    `UsageError`."""

    def __init__(self, source: str) -> None:
        self.uncompared = 0
        self._source = source
        self._test = condition(source)
        try:
            _check_units(self._test)
        except ExpressionError as error:
            raise error.error("where", source) from None
        self._arguments: dict[str, Datum] = {}
        self._unknown: dict[str, int] = {}
        self._found: set[str] = set()
        self._seen: set[str] = set()

    def holds(self, call: Call) -> bool:
        """Return whether it holds of a call that has ended, or a point."""
        names = keys_of(each.name for each in call.args)
        self._arguments = dict(zip(names, (each.value for each in call.args), strict=True))
        self._seen.update(names)
        try:
            return self._holds(self._test, call)
        except LacksName:
            return False
        except NotRecorded:
            self.uncompared += 1
            return False
        except ExpressionError as error:
            raise error.error("where", self._source) from None

    def check(self) -> None:
        """Raise `UsageError` where no call has had a value of some name, when all were seen."""
        for name, at in self._unknown.items():
            if name not in self._found | self._seen:
                there = ", ".join(sorted(self._seen)[:20]) or "no argument"
                raise ExpressionError(
                    at,
                    f"no call of the capture has a value called {name}",
                    f"there are {there}; retval, duration, pid, tid, comm",
                ).error("where", self._source)

    # ------------------------------------------------------------- conditions

    def _holds(self, test: Test, call: Call) -> bool:
        match test:
            case Negation(inner=inner):
                return not self._holds(inner, call)
            case Junction(kind=kind, parts=parts):
                return self._joined(parts, call, until=kind == "or")
            case Comparison():
                return self._compares(test, call)

    def _joined(self, parts: tuple[Test, ...], call: Call, *, until: bool) -> bool:
        """Whether all parts hold, or, with ``until``, one of them: what is not recorded does not
        matter where another part decides."""
        missing = None
        for part in parts:
            try:
                if self._holds(part, call) == until:
                    return until
            except NotRecorded as error:
                missing = error
        if missing:
            raise missing
        return not until

    def _compares(self, test: Comparison, call: Call) -> bool:
        left, right = self._value(test.left, call), self._value(test.right, call)
        return self._related(test, left, right) != test.contrary

    def _related(self, test: Comparison, left: Any, right: Any) -> bool:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Word):
                return _equality(test, self._is_word(one, other))
            if isinstance(one, bytes) and (data := _text(other)) is not None:
                return _compare_text(test, one, *data)
        for time, number in ((left, test.right), (right, test.left)):
            if _span(time) is not None:
                _check_unit(number)
        compare = COMPARISONS.get(test.operator)
        if compare is None or isinstance(left, bytes) or isinstance(right, bytes):
            raise ExpressionError(test.at, "a number is no text", 'write n == 1, path == "/x"')
        return compare(_number(left), _number(right))

    def _is_word(self, word: Word, value: Any) -> bool:
        """Whether a value is the constant of that name, or is null."""
        name = word.name.rpartition("::")[2]
        if name in NULLS:
            self._found.add(word.name)
            return value == name if isinstance(value, str) else _address(value) == 0
        if name in TRUTHS:
            self._found.add(word.name)
            return _number(value) == TRUTHS[name]
        if isinstance(value, Word):
            raise LacksName(word.name)
        if isinstance(value, str) and name in value.split("|"):
            self._found.add(word.name)
        elif not isinstance(value, str):
            raise LacksName(word.name)
        return value == name

    # ----------------------------------------------------------------- values

    def _value(self, node: Node, call: Call) -> Any:
        """A number, `bytes`, a `Word`, or what the call's value was decoded to."""
        if isinstance(node, Number | Quoted):
            return node.value
        if (name := written(node)) and name in self._arguments:
            return _recorded(self._arguments[name])
        if isinstance(node, Name):
            return self._named(node, call)
        if isinstance(node, Register):
            raise ExpressionError(
                node.at, "a capture has no registers", "record them as values, and use their names"
            )
        if isinstance(node, Sum | Binary):
            return self._combined(node, call)
        return self._part(node, self._value(_inside(node), call))

    def _part(self, node: Node, inner: Any) -> Any:
        """What ``node`` asks of the value inside of it."""
        match node:
            case LengthOf():
                return _length(inner)
            case Field(name=name):
                return _member(inner, name)
            case Dereference(index=index):
                return _element(inner, index)
            case Cast(type=type):
                if isinstance(type, NamedType):
                    raise NotRecorded
                return type.decoder()(int(_number(inner)) & (1 << 64) - 1)
        return inner

    def _named(self, node: Name, call: Call) -> Any:
        name = node.name
        if name == "retval":
            if call.end == "point" or (call.end == "returned" and call.result is None):
                raise LacksName(name)
            return _recorded(call.result)
        if name in OF_CALLS:
            value = OF_CALLS[name](call)
            if value is None:
                raise LacksName(name) if call.end == "point" and name in TIMES else NotRecorded
            return value
        number = name.removeprefix("arg")
        if number != name and number.isdigit():
            if int(number) >= len(call.args):
                raise LacksName(name)
            return _recorded(call.args[int(number)].value)
        if name not in self._found and name.rpartition("::")[2] not in (*NULLS, *TRUTHS):
            self._unknown.setdefault(name, node.at)
        return Word(name)

    def _combined(self, node: Sum | Binary, call: Call) -> float:
        left, right = (_number(self._value(each, call)) for each in (node.left, node.right))
        if isinstance(node, Sum):
            return left - right if node.taken else left + right
        if node.sign in ("/", "%"):
            if not right:
                raise NotRecorded
            quotient = abs(left) // abs(right) if left * right >= 0 else -(abs(left) // abs(right))
            return quotient if node.sign == "/" else left - quotient * right
        if node.sign in ("<<", ">>") and not 0 <= right <= WIDEST_SHIFT:
            raise NotRecorded
        return SIGNS[node.sign](int(left), int(right)) if node.sign != "*" else left * right


def _check_units(test: Test) -> None:
    """Raise `ExpressionError` for a bare number where a time is meant."""
    match test:
        case Negation(inner=inner):
            _check_units(inner)
        case Junction(parts=parts):
            for part in parts:
                _check_units(part)
        case Comparison(left=left, right=right):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Name) and one.name in TIMES:
                    _check_unit(other)


def _check_unit(node: Node) -> None:
    if isinstance(node, Number) and node.form != "time" and node.value:
        raise no_unit(node.at, node.value)


def _inside(node: Node) -> Node:
    """The value that ``node`` is a part of, or is made from; of ``p->key``, what p leads to."""
    match node:
        case Field(inner=Dereference(inner=inner, subscript=False)):
            return inner
        case TextOf(start=inner) | After(inner=inner) | LengthOf(inner=inner) | Field(inner=inner):
            return inner
        case Dereference(inner=inner) | Cast(inner=inner):
            return inner
    raise NotRecorded


def _recorded(datum: Datum) -> Any:
    if datum is None:
        raise NotRecorded
    return datum


def _syntax(value: Any) -> str:
    return value.syntax if isinstance(value, Form) else ""


def _span(value: Any) -> float | None:
    """How many nanoseconds a span of time takes, also one to which a reference leads."""
    value = value.value if _syntax(value) == "reference" else value
    return value.span() if isinstance(value, Form) else None


def _inner(value: Any) -> Any:
    """What a pointer that was followed leads to; other values are themselves."""
    if isinstance(value, Word):
        raise LacksName(value.name)
    return value.value if _syntax(value) == "reference" else value


def _number(value: Any) -> float:
    if isinstance(value, int | float):
        return value
    if (span := _span(value)) is not None:
        return span
    if _syntax(value) == "character":
        code = ord(value)
        return code - UNDECODED if UNDECODED <= code <= UNDECODED + LOWEST_BYTE else code
    if _syntax(value) == "reference":
        return int(value.address)
    if isinstance(value, Word):
        raise LacksName(value.name)
    raise NotRecorded


def _address(value: Any) -> int:
    """Not 0 where a value is certainly not null."""
    if isinstance(value, int):
        return value
    if _syntax(value) in ("string", "reference") or hasattr(value, "fields"):
        return 1
    raise NotRecorded


def _text(value: Any) -> tuple[bytes, int | None] | None:
    """The bytes of text, as far as they were read, and their true number, if known."""
    if isinstance(value, Word):
        return None
    value = _inner(value)
    if isinstance(value, bytes):
        return value, len(value)
    if _syntax(value) == "string":
        return value.data, value.length
    if isinstance(value, str):
        return value.encode(errors="replace"), len(value.encode(errors="replace"))
    return None


def _compare_text(test: Comparison, wanted: bytes, data: bytes, length: int | None) -> bool:
    whole = length == len(data)
    if test.operator in ("startswith", "lacks"):
        if not whole and len(data) < len(wanted) and wanted.startswith(data):
            raise NotRecorded
        return data.startswith(wanted) == (test.operator == "startswith")
    if whole:
        return _equality(test, data == wanted)
    if not wanted.startswith(data) or length not in (None, len(wanted)):
        return _equality(test, equal=False)
    raise NotRecorded


def _equality(test: Comparison, equal: bool) -> bool:
    if test.operator not in ("==", "!="):
        raise ExpressionError(
            test.at, "text and names are compared with ==, != or startswith", 'path == "/x"'
        )
    return equal == (test.operator == "==")


def _member(value: Any, name: str) -> Any:
    try:
        return _recorded(find_value(_inner(value).fields, name))
    except (AttributeError, KeyError):
        raise NotRecorded from None


def _element(value: Any, index: int) -> Any:
    inner = _inner(value)
    if _syntax(value) == "reference" and index == 0 and not hasattr(inner, "__len__"):
        return _recorded(inner)
    if _syntax(inner) == "string":
        inner = inner.data
    try:
        return _recorded(inner[index])
    except (TypeError, LookupError):
        raise NotRecorded from None


def _length(value: Any) -> int:
    inner = _inner(value)
    if _syntax(inner) == "string" and inner.length is not None:
        return int(inner.length)
    if hasattr(inner, "more") and inner.more >= 0 and hasattr(inner, "__len__"):
        return len(inner) + int(inner.more)
    raise NotRecorded

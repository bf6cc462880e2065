"""Expressions about calls that were recorded: conditions on their values as a capture has them, and
what their calls are counted by."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lbtrace.errors import UsageError, option
from lbtrace.expressions.recorded_values import (
    LacksName,
    Looked,
    NotRecorded,
    Word,
    address_of,
    compare_text,
    cut_text,
    element_of,
    equality,
    is_address,
    length_of,
    member_of,
    number_of,
    number_of_symbol,
    recorded,
    span_of,
    syntax_of,
    text_of,
)
from lbtrace.expressions.syntax import condition
from lbtrace.expressions.tree import (
    TIMES,
    After,
    ArgExpression,
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
from lbtrace.model import Call, Plan
from lbtrace.values.datum import Datum, Form, Unreadable
from lbtrace.values.notation import text

NULLS = frozenset({"nil", "NULL", "null", "nullptr", "None"})
TRUTHS = {"true": 1, "false": 0}

OF_CALLS: dict[str, Callable[[Call], int | bytes | None]] = {
    "pid": lambda call: call.pid,
    "tid": lambda call: call.tid,
    "comm": lambda call: call.thread_name.encode() or None,
    "goroutine": lambda call: call.goroutine,
    "duration": lambda call: None if call.end == "tail" else call.duration,
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


class Evaluator:
    """Finds what ``source``, the value of an ``option``, says of recorded calls. Several share what
    is ``looked`` at."""

    def __init__(self, option: str, source: str, looked: Looked | None = None) -> None:
        self._option = option
        self._source = source
        self._looked = looked or Looked()
        self._unknown: dict[str, int] = {}
        self._found: set[str] = set()

    def check(self) -> None:
        """Raise `UsageError` where no call has had a value of some name, when all were seen."""
        seen = self._looked.seen
        for name, at in self._unknown.items():
            if name not in self._found | seen:
                there = ", ".join(sorted(seen)[:20]) or "no argument"
                raise ExpressionError(
                    at,
                    f"no call of the capture has a value called {name}",
                    f"there are {there}; retval, duration, pid, tid, comm",
                ).error(self._option, self._source)

    def _number(self, value: Any) -> float:
        """The number that a value is, or has a name for."""
        if (
            isinstance(value, Word)
            and (name := value.name.rpartition("::")[2]) in self._looked.constants
        ):
            self._found.add(value.name)
            return self._looked.constants[name]
        if syntax_of(value) == "symbol":
            return number_of_symbol(value, self._looked.constants)
        return number_of(value)

    # ----------------------------------------------------------------- values

    def _value(self, node: Node, call: Call) -> Any:
        """A number, `bytes`, a `Word`, or what the call's value was decoded to."""
        if isinstance(node, Number | Quoted):
            return node.value
        if (name := written(node)) and name in self._looked.arguments:
            return recorded(self._looked.arguments[name])
        if isinstance(node, Name):
            return self._named(node, call)
        if isinstance(node, Register):
            raise ExpressionError(
                node.at, "a capture has no registers", "record them as values, and use their names"
            )
        if isinstance(node, Sum | Binary):
            return self._combined(node, call)
        if isinstance(node, TextOf) and node.length is not None:
            length = self._number(self._value(node.length, call))
            return cut_text(self._value(node.start, call), int(length))
        return self._part(node, self._value(_inside(node), call))

    def _part(self, node: Node, inner: Any) -> Any:
        """What ``node`` asks of the value inside of it."""
        match node:
            case LengthOf():
                return length_of(inner)
            case Field(name=name):
                return member_of(inner, name)
            case Dereference(index=index):
                return element_of(inner, index)
            case Cast(type=type):
                if isinstance(type, NamedType):
                    raise NotRecorded
                return type.decoder()(int(self._number(inner)) & (1 << 64) - 1)
        return inner

    def _named(self, node: Name, call: Call) -> Any:
        name = node.name
        if name == "retval":
            if call.end == "point" or (call.end == "returned" and call.result is None):
                raise LacksName(name)
            result = recorded(call.result)
            return recorded(result.returned()) if isinstance(result, Form) else result
        if name in OF_CALLS:
            value = OF_CALLS[name](call)
            if value is None:
                raise LacksName(name) if call.end == "point" and name in TIMES else NotRecorded
            return value
        number = name.removeprefix("arg")
        if number != name and number.isdigit():
            if int(number) >= len(call.args):
                raise LacksName(name)
            return recorded(call.args[int(number)].value)
        if name not in self._found and name.rpartition("::")[2] not in (*NULLS, *TRUTHS):
            self._unknown.setdefault(name, node.at)
        return Word(name)

    def _combined(self, node: Sum | Binary, call: Call) -> float:
        left, right = (self._number(self._value(each, call)) for each in (node.left, node.right))
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


class RecordedTest(Evaluator):
    """Whether calls are as ``source``, a ``--where``, says. A call that has no value of a name in
    it is not. ``uncompared`` counts those of which a value was not recorded, or not whole. Raises
    `UsageError`."""

    def __init__(self, source: str, looked: Looked | None = None) -> None:
        super().__init__("where", source, looked)
        self.uncompared = 0
        self.tree = condition(source)
        try:
            _check_units(self.tree)
        except ExpressionError as error:
            raise error.error("where", source) from None

    def holds(self, call: Call, plan: Plan) -> bool:
        """Return whether it holds of a call that has ended, or a point."""
        self._looked.look_at(call, plan)
        try:
            return self._holds(self.tree, call)
        except LacksName:
            return False
        except NotRecorded:
            self.uncompared += 1
            return False
        except ExpressionError as error:
            raise error.error("where", self._source) from None

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
        left, right = self._as_constant(left, right), self._as_constant(right, left)
        return self._related(test, left, right) != test.contrary

    def _related(self, test: Comparison, left: Any, right: Any) -> bool:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Word):
                return equality(test, self._is_word(one, other))
            if isinstance(one, bytes) and (data := text_of(other)) is not None:
                return compare_text(test, one, *data)
            if isinstance(one, bytes) and is_address(other):
                if other:
                    raise NotRecorded
                return False  # no text is there, as the kernel program has it
        for time, number in ((left, test.right), (right, test.left)):
            if span_of(time) is not None:
                _check_unit(number)
        compare = COMPARISONS.get(test.operator)
        if compare is None or isinstance(left, bytes) or isinstance(right, bytes):
            raise ExpressionError(test.at, "a number is no text", 'write n == 1, path == "/x"')
        one, other = self._number(left), self._number(right)
        return compare(_beside(left, one, other), _beside(right, other, one))

    def _as_constant(self, value: Any, other: Any) -> Any:
        """The number that a name stands for which is compared with what has one."""
        if not isinstance(value, Word) or isinstance(other, Word):
            return value
        try:
            self._number(other)
            return self._number(value)
        except (LacksName, NotRecorded):
            return value

    def _is_word(self, word: Word, value: Any) -> bool:
        """Whether a value is the constant of that name, or is null."""
        name = word.name.rpartition("::")[2]
        if name in NULLS:
            self._found.add(word.name)
            return value == name if isinstance(value, str) else address_of(value) == 0
        if name in TRUTHS:
            self._found.add(word.name)
            return number_of(value) == TRUTHS[name]
        if isinstance(value, Word):
            raise LacksName(word.name)
        if isinstance(value, str) and name in value.split("|"):
            self._found.add(word.name)
        elif not isinstance(value, str):
            raise LacksName(word.name)
        return value == name


class RecordedValue(Evaluator):
    """What an expression of ``--by``, ``--sum`` or the like amounts to in calls. Raises
    `UsageError`."""

    def __init__(self, asked: ArgExpression, option: str, looked: Looked | None = None) -> None:
        super().__init__(option, asked.source, looked)
        self._node = asked.node
        self._is_recorded = False
        self._lacks = False

    def read(self, call: Call, plan: Plan) -> Datum:
        """Return the value that a call has; what says why it is not known. Raises `LacksName` where
        its function has none of that name."""
        self._looked.look_at(call, plan)
        made: Any
        try:
            value = self._value(self._node, call)
            if isinstance(self._node, TextOf) and text_of(value) is None and value:
                raise NotRecorded
            made = self._number(value) if isinstance(value, Word) else value
        except NotRecorded as error:
            self._is_recorded |= bool(error.args)
            self._lacks |= not error.args
            return Unreadable(*error.args)
        except ExpressionError as error:
            raise error.error(self._option, self._source) from None
        self._is_recorded = True
        if isinstance(made, bytes):
            return made.decode(errors="surrogateescape")
        datum: Datum = made.address if syntax_of(made) == "reference" else made
        return datum

    def amount(self, call: Call, plan: Plan) -> int | None:
        """Return the integer that a call has; None where it is not known. Raises `LacksName`."""
        value = self.read(call, plan)
        if isinstance(value, Unreadable):
            return None
        if not (is_address(value) or syntax_of(value) == "reference" or isinstance(value, float)):
            with suppress(NotRecorded):
                return int(self._number(value))
        raise UsageError(
            f"{option(self._option, self._source)}: {text(value)} is no integer",
            f"name one, or count by it: {option('by', self._source)}",
        )

    def check(self) -> None:
        """See `Evaluator.check`; also where no call has the value."""
        super().check()
        if self._lacks and not self._is_recorded:
            raise UsageError(
                f"{option(self._option, self._source)}: the capture does not have it",
                f"record it: lbtrace attach {option('arg', self._source)}",
            )


def _beside(value: Any, number: float, other: float) -> float:
    """The ``number`` of a value where it is compared with an ``other``, as
    `lbtrace.expressions.words` has it."""
    return value.beside(other) if is_address(value) else number


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

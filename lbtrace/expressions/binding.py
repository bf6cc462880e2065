"""Expressions and a function to the fetches and conditions of its probe."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.arch import Passing, Places
from lbtrace.arch.fetching import Fetcher
from lbtrace.arch.places import Detail
from lbtrace.expressions.places import (
    Constant,
    Located,
    Moment,
    Operand,
    Pseudo,
    Scope,
    address_in,
    is_string,
    locate,
    number_in,
    together,
)
from lbtrace.expressions.tree import (
    Cast,
    Comparison,
    Dereference,
    Field,
    Junction,
    Negation,
    Node,
    Operator,
    Product,
    Request,
    Sum,
    Test,
    TextOf,
    Unclear,
    Wanted,
)
from lbtrace.model import Condition, Fetch, Prototype, Record, String, Value, Void

CONDITIONS = 16
"""Comparisons of a probe: ``LBT_CONDITIONS`` in bpf_src/lbtrace.h."""

TEXT_LIMIT = 62
"""Bytes of text that a string is compared with: ``LBT_TEXT`` there."""

NOT: dict[Operator, Operator] = {
    **{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"},
    **{"startswith": "lacks", "lacks": "startswith"},
}
SWAPPED: dict[Operator, Operator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


class Bounds(Struct, frozen=True):
    """How many values a probe fetches, and how much of each."""

    limit: int
    detail: Detail


def depth(request: Request) -> int:
    """How many pointers the expressions follow."""
    tests = [] if request.test is None else _comparisons(request.test)
    nodes = [w.node for w in request.wanted] + [n for c in tests for n in (c.left, c.right)]
    return max(map(_followed, nodes), default=0)


def bind(
    request: Request,
    prototype: Prototype,
    places: Places,
    shown: int,
    registers: tuple[str, ...],
    bounds: Bounds,
    fetcher: type[Fetcher] = Fetcher,
) -> Passing:
    """The fetches and conditions of one function.

    ``shown`` is how many parameters are shown where the request names none;
    ``fetcher`` knows the language's values.
    Raises `UsageError` that points at what the function does not have.
    """
    result = prototype.result
    entry, after = (fetcher(bounds.limit, bounds.detail) for _ in range(2))
    scope = Scope(
        tuple(
            (formal.name, formal.type, place)
            for formal, place in zip(prototype.parameters, places.parameters, strict=True)
        ),
        (result.type, places.result) if result else (String(""), places.result),
        registers,
        lambda moment, fetch: (after if moment == "return" else entry).slot(fetch),
    )
    binder = _Binder(scope, entry, after)
    if request.test is not None:
        try:
            binder.conditions(request.test)
        except Unclear as error:
            raise error.error("--where", request.source) from None
    if not request.wanted:
        return binder.bound(prototype, places, shown)
    arguments: list[Value] = []
    results: list[Value] = []
    for wanted in request.wanted:
        try:
            moment, value = binder.value(wanted)
        except Unclear as error:
            raise error.error("--arg", wanted.source) from None
        (results if moment == "return" else arguments).append(value)
    returned = binder.result(prototype, places) if not results else None
    if len(results) == 1:
        returned = results[0]
    elif results:
        returned = Value("", Record("", 0), results[0].slot, members=tuple(results))
    return binder.bound_to(tuple(arguments), returned)


class _Binder:
    """Collects what one probe fetches and compares."""

    def __init__(self, scope: Scope, entry: Fetcher, after: Fetcher) -> None:
        self._scope = scope
        self._entry = entry
        self._after = after
        self._conditions: list[Condition] = []
        self._result_conditions: list[Condition] = []

    def bound(self, prototype: Prototype, places: Places, shown: int) -> Passing:
        """With the function's own parameters and result."""
        parameters = tuple(
            self._entry.value(formal.name, formal.type, place)
            for formal, place in zip(
                prototype.parameters[:shown], places.parameters[:shown], strict=True
            )
        )
        return self.bound_to(parameters, self.result(prototype, places))

    def result(self, prototype: Prototype, places: Places) -> Value | None:
        """The function's own result."""
        if prototype.result is None or isinstance(prototype.result.type, Void):
            return None
        return self._after.value("", prototype.result.type, places.result)

    def bound_to(self, parameters: tuple[Value, ...], result: Value | None) -> Passing:
        """With the values given."""
        return Passing(
            parameters,
            result,
            self._entry.fetches,
            self._after.fetches,
            self._entry.cut,
            tuple(self._conditions),
            tuple(self._result_conditions),
        )

    def value(self, wanted: Wanted) -> tuple[Moment, Value]:
        """A value to show, and when it is there."""
        operand = locate(wanted.node, self._scope)
        if not isinstance(operand, Operand):
            raise Unclear(operand.at, "this is no value of the function")
        moment: Moment = "return" if operand.moment == "return" else "entry"
        fetcher = self._after if moment == "return" else self._entry
        if operand.start is not None:
            value = fetcher.text(wanted.name, operand.type, operand.start, operand.length)
        else:
            value = fetcher.value(wanted.name, operand.type, operand.place)
            if operand.bits[1]:
                value = replace(value, bit_offset=operand.bits[0], bit_size=operand.bits[1])
        return moment, value

    def conditions(self, test: Test) -> None:
        """The comparisons, as groups of alternatives."""
        for group, alternatives in enumerate(_groups(_pushed(test, negated=False))):
            made = [self._condition(c, group) for c in alternatives]
            moments = {moment for moment, _ in made if moment != "any"}
            if len(moments) > 1:
                at = alternatives[0].at
                raise Unclear(at, "arguments and the result can be joined with and, not with or")
            target = self._conditions
            if "return" in moments:
                target = self._result_conditions
            target.extend(condition for _, condition in made)
        if max(len(self._conditions), len(self._result_conditions)) > CONDITIONS:
            raise Unclear(0, f"this takes more than {CONDITIONS} comparisons", "write it shorter")

    def _condition(self, comparison: Comparison, group: int) -> tuple[Moment, Condition]:
        operator = comparison.operator
        left, right = (locate(n, self._scope) for n in (comparison.left, comparison.right))
        if isinstance(left, Constant) and not isinstance(right, Constant):
            left, right, operator = right, left, SWAPPED.get(operator, operator)
        if isinstance(left, Constant):
            raise Unclear(right.at, "a value of the function is compared with a number or text")
        if isinstance(right, Operand):
            return self._relation(comparison.at, operator, left, right, group)
        if isinstance(right, Pseudo):
            raise Unclear(right.at, "a value is compared with a number, a name or text")
        if isinstance(right.value, bytes):
            return self._text_condition(comparison.at, operator, left, right, group)
        if operator in ("startswith", "lacks"):
            raise Unclear(right.at, "startswith wants text")
        if isinstance(left, Pseudo):
            if left.name == "comm":
                raise Unclear(right.at, "comm is compared with text", 'write comm == "redis"')
            moment: Moment = "return" if left.name == "duration" else "any"
            return moment, Condition(0, operator, right.value, False, group, subject=left.name)
        assert isinstance(left, Operand)
        fetch = address_in(left) if is_string(left) else number_in(left)
        slot = self._slot(left, fetch, left.moment)
        signed = bool(getattr(left.type, "signed", False))
        return left.moment, Condition(slot, operator, right.value, signed, group)

    def _relation(
        self, at: int, operator: Operator, left: Located, right: Operand, group: int
    ) -> tuple[Moment, Condition]:
        """The comparison of two values."""
        if not isinstance(left, Operand):
            raise Unclear(left.at, "a value is compared with a number, a name or text")
        if operator == "startswith" or is_string(left) or is_string(right):
            raise Unclear(at, "text is compared with text between quotation marks")
        moment = together(at, left, right)
        slots = [self._slot(operand, number_in(operand), moment) for operand in (left, right)]
        signed = all(
            getattr(o.type, "signed", False) or getattr(o.type, "size", 8) < 8
            for o in (left, right)
        )
        return moment, Condition(slots[0], operator, 0, signed, group, other=slots[1])

    def _text_condition(
        self, at: int, operator: Operator, left: Located, right: Constant, group: int
    ) -> tuple[Moment, Condition]:
        assert isinstance(right.value, bytes)
        if operator not in ("==", "!=", "startswith", "lacks"):
            raise Unclear(at, "text is compared with ==, != and startswith")
        if len(right.value) > TEXT_LIMIT:
            raise Unclear(right.at, f"text of more than {TEXT_LIMIT} bytes cannot be compared")
        subject: Literal["comm", "text"] = "comm"
        slot, moment = 0, left.moment if isinstance(left, Operand) else "any"
        if isinstance(left, Operand):
            subject = "text"
            fetcher = self._after if left.moment == "return" else self._entry
            start, length = left.start, left.length
            if start is None and not is_string(left):
                raise Unclear(left.at, "this is no text", "write str() around it")
            if start is not None:
                slot = fetcher.text("", left.type, start, length).slot
            else:
                slot = fetcher.value("", left.type, left.place).slot
            if slot < 0:
                raise Unclear(left.at, "too many values for one probe")
        elif isinstance(left, Pseudo) and left.name != "comm":
            raise Unclear(left.at, f"{left.name} is a number")
        return moment, Condition(slot, operator, 0, False, group, subject=subject, text=right.value)

    def _slot(self, operand: Operand, fetch: Fetch, moment: Moment) -> int:
        slot = self._scope.slot(moment, fetch)
        if slot < 0:
            raise Unclear(operand.at, "too many values for one probe")
        return slot


def _pushed(test: Test, *, negated: bool) -> Comparison | Junction:
    """``test`` with its negations pushed into the comparisons."""
    match test:
        case Negation():
            return _pushed(test.inner, negated=not negated)
        case Junction():
            kind = test.kind if not negated else "or" if test.kind == "and" else "and"
            return Junction(kind, tuple(_pushed(p, negated=negated) for p in test.parts))
        case Comparison():
            return replace(test, operator=NOT[test.operator]) if negated else test


def _groups(test: Test) -> list[list[Comparison]]:
    """Groups of alternatives, all of which must hold (conjunctive normal form)."""
    if isinstance(test, Comparison):
        return [[test]]
    assert isinstance(test, Junction)
    parts = [_groups(part) for part in test.parts]
    if test.kind == "and":
        return [group for part in parts for group in part]
    joined: list[list[Comparison]] = [[]]
    for part in parts:
        joined = [one + other for one in joined for other in part]
        if len(joined) > CONDITIONS:
            raise Unclear(0, "this takes too many comparisons", "write it shorter")
    return joined


def _comparisons(test: Test) -> list[Comparison]:
    match test:
        case Negation():
            return _comparisons(test.inner)
        case Junction():
            return [c for part in test.parts for c in _comparisons(part)]
        case Comparison():
            return [test]


def _followed(node: Node) -> int:
    """Pointers followed on the way to a node, about."""
    match node:
        case Dereference() | Field():
            return _followed(node.inner) + 1
        case Cast():
            return _followed(node.inner)
        case Sum() | Product():
            return max(_followed(node.left), _followed(node.right))
        case TextOf():
            lengths = _followed(node.length) if node.length is not None else 0
            return max(_followed(node.start), lengths) + 1
        case _:
            return 0

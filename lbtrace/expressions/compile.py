"""Compiles expressions for one function into fetches and conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import Locations
from lbtrace.abi.locations import WORD, Detail, Location
from lbtrace.errors import UsageError, option
from lbtrace.expressions.arithmetic import number_of
from lbtrace.expressions.conditions import Comparer
from lbtrace.expressions.deciding import with_decider
from lbtrace.expressions.failures import failed
from lbtrace.expressions.normal_form import find_comparisons, find_groups, join
from lbtrace.expressions.operands import (
    UNREADABLE,
    Constant,
    Located,
    Moment,
    Names,
    Operand,
    Pseudo,
    Scope,
    not_a_value,
    number_in,
)
from lbtrace.expressions.resolve import compute, label, locate
from lbtrace.expressions.scopes import scopes_of
from lbtrace.expressions.tree import (
    After,
    ArgExpression,
    Binary,
    Cast,
    Dereference,
    ExpressionError,
    Field,
    LengthOf,
    Node,
    Request,
    Sum,
    Test,
    TextOf,
    has_after,
    written,
)
from lbtrace.expressions.unsuited import no_amount
from lbtrace.fetch.call_values import CallValues
from lbtrace.fetch.grouping import group
from lbtrace.model import LONG, Condition, Fetch, Prototype, Type, Value
from lbtrace.model.wire_limits import (
    CONDITIONS,
    KEPT,
    SLOT_COMM,
    SLOT_DURATION,
    SLOT_GOROUTINE,
    SLOT_PID,
    SLOT_TID,
)
from lbtrace.recognize.fetcher import Fetcher
from lbtrace.recognize.sharing import collect
from lbtrace.values import join_results
from lbtrace.values.string import TEXT
from lbtrace.values.void import VOID


class Bounds(Struct, frozen=True):
    """How many values a probe fetches, and how much of each."""

    limit: int
    detail: Detail


def depth(request: Request) -> int:
    """Return how many pointers the expressions follow."""
    tests = [] if request.test is None else find_comparisons(request.test)
    nodes = [w.node for w in request.named] + [n for c in tests for n in (c.left, c.right)]
    return max(map(_followed, nodes), default=0)


def bind(
    request: Request,
    prototype: Prototype,
    places: Locations,
    shown: range,
    names: Names,
    bounds: Bounds,
    fetcher: type[Fetcher] = Fetcher,
) -> CallValues:
    """Return the fetches and conditions of one function.

    ``shown`` are the parameters that are shown where the request names none;
    expressions may use ``names`` besides; ``fetcher`` knows the language's values.
    Raises `UsageError` that points at what the function does not have.
    """

    def make(entry: Fetcher, after: Fetcher) -> CallValues:
        return _bind(request, prototype, places, shown, names, entry, after)

    made, _ = collect((fetcher, fetcher), bounds.limit, bounds.detail, make)
    return made


def _bind(
    request: Request,
    prototype: Prototype,
    places: Locations,
    shown: range,
    names: Names,
    entry: Fetcher,
    after: Fetcher,
) -> CallValues:
    result = prototype.result
    scope = Scope(
        tuple(
            (formal.name, formal.type, place)
            for formal, place in zip(prototype.parameters, places.parameters, strict=True)
        ),
        (result.type if result else VOID, places.result),
        names,
        lambda moment, fetch: (after if moment == "return" else entry).slot(fetch),
        keeps=names.retval and type(entry) is Fetcher,
        result_name=result.name if result else "",
    )
    binder = _Binder(scope, entry, after)
    if request.errors or request.test is not None:
        try:
            if request.test is not None:
                binder.conditions(request.test)
            if request.errors:
                binder.failures(result.type if result else None, throws=request.throws)
        except ExpressionError as error:
            if error.hint == UNREADABLE:
                error.hint = "compare another value"
            raise error.error("where", request.source) from None
    if request.aggregates:
        return binder.aggregating(request)
    if not request.wanted:
        return binder.bound(prototype, places, shown)
    arguments: list[Value] = []
    results: list[Value] = []
    for wanted in request.wanted:
        try:
            moment, value = binder.shown(wanted)
        except ExpressionError as error:
            raise error.error("arg", wanted.source) from None
        (results if moment == "return" else arguments).append(value)
    returned = binder.result(prototype, places) if not results else None
    if len(results) == 1 and not any(map(has_after, request.wanted)):
        returned = results[0]
    elif results:
        returned = Value("", join_results(), results[0].slot, members=tuple(results))
    return binder.bound_to(tuple(arguments), returned)


class _Binder:
    """Collects what one probe fetches and compares."""

    def __init__(self, scope: Scope, entry: Fetcher, after: Fetcher) -> None:
        self._scope = scope
        self._scopes = scopes_of(scope)
        self._entry = entry
        self._after = after
        self._conditions: list[Condition] = []
        self._result_conditions: list[Condition] = []
        self._groups = 0
        self._shows_left = False

    def bound(self, prototype: Prototype, places: Locations, shown: range) -> CallValues:
        """With the function's own parameters and result."""
        located = [*zip(prototype.parameters, places.parameters, strict=True)]
        parameters = tuple(
            self._entry.value(formal.name, formal.shown_type, place)
            for formal, place in located[shown.start : shown.stop]
        )
        return self.bound_to(parameters, self.result(prototype, places))

    def result(self, prototype: Prototype, places: Locations) -> Value | None:
        """Return the function's own result."""
        if prototype.result is None or not prototype.result.type.has_values:
            return None
        return self._after.value("", prototype.result.type, places.result)

    def bound_to(self, parameters: tuple[Value, ...], result: Value | None) -> CallValues:
        """With the values given. Raises `UsageError` if the return needs more registers as they
        were at entry than the kernel program saves."""
        kept = {f.register for f in self._after.fetches if f.base in ("kept", "file")}
        if len(kept) > KEPT:
            raise UsageError(
                f"after() of too many arguments: a call keeps {KEPT} values to its return",
                "trace again for the others; global variables take one place together, as does a"
                " record that is returned in memory",
            )
        if len(kept) > 1 and any(c.subject in ("pid", "tid") for c in self._result_conditions):
            raise UsageError(
                "after() of several arguments, where pid or tid is joined to the result with or",
                "trace again for the others, or take one condition away",
            )
        both = (*self._conditions, *self._result_conditions)
        if kept and any(c.subject == "goroutine" for c in both):
            raise UsageError(
                "after() where a condition is on the goroutine: a call keeps one of them",
                "trace again for the other",
            )
        return CallValues(
            parameters,
            result,
            self._entry.fetches,
            self._after.fetches,
            self._entry.cut,
            tuple(self._conditions),
            tuple(self._result_conditions),
            shows_left=self._shows_left,
        )

    def aggregating(self, request: Request) -> CallValues:
        """With no values but those that are aggregated, and those by which that is done."""
        options = ["arg"] * len(request.wanted)
        options += [
            next(c.how for c in request.columns if c.measure == n)
            for n, _ in enumerate(request.measured)
        ]
        measured = (*request.wanted, *request.measured)
        numbers = [_ask(self._number, *each) for each in zip(options, measured, strict=True)]
        self._scopes = scopes_of(replace(self._scope, of_keys=True))
        keys = [_ask(self._key, "by", each) for each in request.by]
        waits = bool(self._result_conditions)
        waits |= any(moment == "return" for moment, *_ in (*numbers, *keys))
        made = self.bound_to((), None)
        if not numbers and not keys:
            return made
        entry, after = group(
            [(moment == "return", value) for moment, value in keys],
            [(moment == "return", slot, unsigned) for moment, slot, unsigned in numbers],
            (made.fetches, made.result_fetches),
            waits=waits,
        )
        return replace(made, entry_grouping=entry, grouping=after if waits else entry, waits=waits)

    def _number(self, wanted: ArgExpression) -> tuple[Moment, int, bool]:
        """When a number is there, its slot, and whether it is one of 64 bits without a sign."""
        operand = _read(compute(wanted.node, self._scopes.key(wanted.node)), wanted.node)
        if isinstance(operand, Pseudo) and operand.name == "duration":
            return "return", SLOT_DURATION, False
        if not isinstance(operand, Operand):
            raise not_a_value(operand.at)
        if operand.type.is_address or operand.type.is_text():
            raise no_amount(operand.at, operand.type, written(wanted.node))
        moment: Moment = "return" if operand.moment == "return" else "entry"
        unsigned = operand.type.size == WORD and not (operand.type.signed or operand.bits[1])
        return moment, self._scope.take(operand.at, moment, number_in(operand)), unsigned

    def _key(self, wanted: ArgExpression) -> tuple[Moment, Value]:
        """When a value by which is aggregated is there, and the value."""
        scope = self._scopes.key(wanted.node)
        operand = _read(locate(wanted.node, scope), wanted.node)
        if isinstance(operand, Pseudo):
            type = TEXT if operand.name == "comm" else LONG
            moment: Moment = "return" if operand.name == "duration" else "entry"
            return moment, Value(wanted.name, type, OF_EVENTS[operand.name])
        if not isinstance(operand, Operand):
            raise not_a_value(operand.at)
        target = operand.type.target if operand.type.is_alias() else None
        if target is not None and not target.components() and not target.elements():
            # of records and containers the address tells which one it is
            wanted = replace(wanted, node=Dereference(wanted.node.at, wanted.node))
            operand = (compute if target.computes else locate)(wanted.node, scope)
            assert isinstance(operand, Operand)
        if operand.start is None and operand.type.computes and not operand.type.is_text():
            moment = "return" if operand.moment == "return" else "entry"
            slot = self._scope.take(operand.at, moment, number_in(operand))
            value = Value(wanted.name, operand.type.bare(), slot)
            return moment, with_decider(value, operand, moment, scope)
        moment, value = self.value(wanted, scope)
        if value.slot < 0 and not value.members:
            raise ExpressionError(
                operand.at, f"this cannot be read: {value.reason or 'it has no value'}", UNREADABLE
            )
        return moment, value

    def shown(self, wanted: ArgExpression) -> tuple[Moment, Value]:
        """Return a value to show, and when it is there."""
        return self.value(wanted, self._scopes.shown(wanted.node))

    def value(self, wanted: ArgExpression, scope: Scope) -> tuple[Moment, Value]:
        """Return a value in its scope, and when it is there."""
        operand = _read(locate(wanted.node, scope), wanted.node)
        if not isinstance(operand, Operand):
            raise not_a_value(operand.at)
        moment: Moment = "return" if operand.moment == "return" else "entry"
        fetcher = self._after if moment == "return" else self._entry
        name = label(wanted, self._scope, arrows=type(self._entry) is Fetcher)
        if operand.start is not None:
            value = fetcher.text(name, operand.type, operand.start, operand.length)
        elif operand.bits[1]:
            value = fetcher.take(name, operand.type, number_in(operand))
        else:
            value = fetcher.value(name, operand.type, operand.place)
        return moment, value

    def failures(self, result: Type | None, *, throws: bool) -> None:
        """That the call has failed, which exceptions show as well where nothing else is asked at
        the return."""
        self._shows_left = throws and not self._result_conditions
        test = failed(result, throws=throws)
        try:
            if test is not None:
                self.conditions(test)
                return
        except ExpressionError as error:  # as of a result that is optimised out
            if not throws:
                raise UsageError(f"{option('errors')}: {error.what}", error.hint) from None
        never = Condition(0, "<", 0, False, subject="duration", group=self._groups)
        self._result_conditions.append(never)

    def conditions(self, test: Test) -> None:
        """The comparisons, as groups of alternatives."""
        fetchers: dict[Moment, Fetcher] = {"entry": self._entry, "return": self._after}
        for alternatives in find_groups(test):
            comparers = (Comparer(s, fetchers) for s in self._scopes.compared(alternatives))
            made = [c.conditions(test) for c, test in zip(comparers, alternatives, strict=True)]
            moments = {moment for moment, _ in made if moment != "any"}
            if len(moments) > 1:
                at = alternatives[0].at
                raise ExpressionError(
                    at,
                    "arguments and the result can be joined with and, not with or",
                    "trace twice, or take one condition away",
                )
            target = self._conditions
            if "return" in moments:
                target = self._result_conditions
            for joined in join(groups for _, groups in made):
                target.extend(replace(condition, group=self._groups) for condition in joined)
                self._groups += 1
        if max(len(self._conditions), len(self._result_conditions)) > CONDITIONS:
            raise ExpressionError(
                0, f"this takes more than {CONDITIONS} comparisons", "write it shorter"
            )


OF_EVENTS = {
    "pid": SLOT_PID,
    "tid": SLOT_TID,
    "comm": SLOT_COMM,
    "duration": SLOT_DURATION,
    "goroutine": SLOT_GOROUTINE,
}
"""The slots of what the kernel program knows of every event."""

_Found = TypeVar("_Found")


def _ask(find: Callable[[ArgExpression], _Found], option: str, wanted: ArgExpression) -> _Found:
    """What is found of an expression; what is wrong is said of the option."""
    try:
        return find(wanted)
    except ExpressionError as error:
        if error.hint == UNREADABLE:
            error.hint = "name another value"
        if error.lacks_name and option == "by" and wanted.source == "stack":
            error.hint = "stacks are no key beside others: lbtrace stacks counts by them"
        raise error.error(option, wanted.source) from None


def _read(found: Located, node: Node) -> Located:
    """What is found of a node, as a value that is read: how many elements an array has is known."""
    if not (isinstance(found, Constant) and isinstance(node, LengthOf)):
        return found
    length = Fetch(base="constant", offset=number_of(found))
    return Operand(found.at, LONG, Location(words=(length,)))


def _followed(node: Node) -> int:
    """Pointers followed on the way to a node, about."""
    match node:
        case Dereference() | Field():
            inner = node.inner
            # an element may be a pointer
            element = isinstance(inner, Dereference) and inner.subscript
            return _followed(inner) + 1 + (isinstance(node, Field) and element)
        case Cast() | After() | LengthOf():
            return _followed(node.inner)
        case Sum():  # of a pointer, it takes the size of what that leads to
            return max(_followed(node.left), _followed(node.right)) + 1
        case Binary():
            return max(_followed(node.left), _followed(node.right))
        case TextOf():
            lengths = _followed(node.length) if node.length is not None else 0
            return max(_followed(node.start), lengths) + 1
        case _:
            return 0

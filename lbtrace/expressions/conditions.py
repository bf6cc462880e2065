"""Comparisons to what the kernel program compares."""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

from msgspec.structs import replace

from lbtrace.expressions.arithmetic import converted, number_of, together
from lbtrace.expressions.conversions import (
    TYPES,
    UNSIGNED,
    UNSIGNED_LONG,
    Width,
    common,
    comparable,
    limits,
    promoted,
    width,
)
from lbtrace.expressions.deciding import called_so
from lbtrace.expressions.operands import (
    Constant,
    Located,
    Moment,
    Operand,
    Pseudo,
    Scope,
    address_in,
    as_number,
    characters_in,
    is_address_of_network,
    is_string,
    number_in,
)
from lbtrace.expressions.own_values import part_of
from lbtrace.expressions.refusals import (
    check_text,
    explain_no_text,
    refuse_decimals,
    refuse_prefix,
    refuse_time,
)
from lbtrace.expressions.resolve import compute_both
from lbtrace.expressions.tree import SWAPPED, TIMES, Comparison, ExpressionError, Operator, written
from lbtrace.expressions.unsuited import (
    no_text,
    no_unit,
    refuse_declared,
    where_decimals_are,
)
from lbtrace.model import Condition, Type
from lbtrace.model.wire_limits import TEXT_LIMIT
from lbtrace.recognize.fetcher import Fetcher

COMM = 15
"""Bytes of the name of a thread: ``TASK_COMM_LEN`` in include/linux/sched.h, less a NUL."""

ADDRESS = TYPES[UNSIGNED_LONG]
"""What the address of text is compared as."""

PSEUDO_TYPES: dict[str, Type] = {
    "pid": TYPES[UNSIGNED],
    "tid": TYPES[UNSIGNED],
    **dict.fromkeys(TIMES, TYPES[UNSIGNED_LONG]),
    "goroutine": TYPES[UNSIGNED_LONG],
    "from_program": TYPES[UNSIGNED],
}

MOMENTS: dict[str, Moment] = {**dict.fromkeys(TIMES, "return"), "from_program": "entry"}
"""When the kernel knows them, if not at both."""

Groups: TypeAlias = list[list[Condition]]
"""Conditions of which one of each group must hold."""

UNSUITED = "a value is compared with a number, a name or text"


class Comparer:
    """Makes conditions of comparisons. What they fetch, ``fetchers`` collect, by moment."""

    def __init__(self, scope: Scope, fetchers: dict[Moment, Fetcher]) -> None:
        self._scope = replace(scope, of_events=True)
        self._fetchers = fetchers

    def conditions(self, comparison: Comparison) -> tuple[Moment, Groups]:
        """Return the conditions for a comparison, and when they can be evaluated. Raises
        `ExpressionError`."""
        operator = comparison.operator
        sides, equality = (comparison.left, comparison.right), operator in ("==", "!=")
        left, right = compute_both(*sides, self._scope, equality)
        if isinstance(left, Constant):
            left, right, operator = right, left, SWAPPED.get(operator, operator)
        right = as_number(left, right) if equality else right
        match left, right:
            case Constant(), _:
                at = comparison.right.at
                raise ExpressionError(
                    at,
                    "a value of the function is compared with a number or text",
                    "name one: n == 1",
                )
            case Operand() as one, Operand() as other if _are_times(one, other):
                return self._of_times(comparison.at, operator, one, other)
            case Operand() as one, Operand() as other:
                moment, condition = self._relation(comparison.at, operator, one, other)
            case (Pseudo(at=at), Operand()) | (_, Pseudo(at=at)):
                raise ExpressionError(at, UNSUITED, 'write pid == 4711, comm == "redis"')
            case _, Constant(value=bytes(text)) as constant:
                name = _name_of_value(comparison)
                return self._of_text(comparison.at, operator, left, constant, text, name)
            case Pseudo() as pseudo, Constant() as constant:
                moment, condition = self._of_pseudo(operator, pseudo, constant)
            case Operand() as operand, Constant() as constant if _is_timed(operand, constant):
                return self._of_time(comparison, operator, operand, constant)
            case Operand() as operand, Constant() as constant if operand.type.is_real:
                return self._of_float(operator, operand, constant, contrary=comparison.contrary)
            case Operand() as operand, Constant() as constant:
                name = _name_of_value(comparison)
                moment, condition = self._of_number(operator, operand, constant, name)
                return moment, called_so(
                    comparison, condition, operand, self._scope, self._of_number
                )
        return moment, [[condition]]

    def _of_float(
        self, operator: Operator, operand: Operand, constant: Constant, *, contrary: bool
    ) -> tuple[Moment, Groups]:
        """The comparison of a float with a number, by its bits."""
        # Imported here because few conditions are about floats.
        from lbtrace.expressions import floats

        refuse_prefix(operator, constant)
        refuse_time(constant)
        size, number = operand.type.size, constant.value
        assert not isinstance(number, bytes)
        if size not in floats.FORMATS:
            what = f"{operand.type.name or 'a float of this size'} cannot be compared"
            raise ExpressionError(operand.at, what, "float and double can")
        if isinstance(number, int):
            number = floats.converted(number, size)
        found = floats.compare(operator, number, size, contrary=contrary)
        if found is None:
            what = "with this number it holds for every call, or for none"
            hint = "no float is exactly that: compare with < or >"
            raise ExpressionError(constant.at, what, hint)
        bits = replace(operand, type=TYPES[Width(size, signed=True)])
        slot = self._scope.take(operand.at, operand.moment, number_in(bits))
        made = [Condition(slot, t.operator, t.bits, t.signed) for t in found.tests]
        return operand.moment, [[each] for each in made] if found.all else [made]

    def _of_time(
        self, comparison: Comparison, operator: Operator, operand: Operand, constant: Constant
    ) -> tuple[Moment, Groups]:
        """The comparison of a span of time with a time."""
        from lbtrace.expressions import times  # imported here because few values are times

        refuse_prefix(operator, constant)
        number, parts = constant.value, operand.type.time_parts()
        assert not isinstance(number, bytes)
        if constant.form != "time" and number:
            raise no_unit(constant.at, number)
        placed = [part_of(operand.at, operand, member) for member, _, _ in parts]
        if placed[0].type.is_real:
            real = Constant(constant.at, times.in_ticks(parts, int(number)), "real")
            return self._of_float(operator, placed[0], real, contrary=comparison.contrary)
        made = [
            [
                self._of_number(each, placed[part], Constant(constant.at, ticks), "")[1]
                for part, each, ticks in group
            ]
            for group in times.compare(operator, parts, constant)
        ]
        return operand.moment, made

    def _of_times(
        self, at: int, operator: Operator, left: Operand, right: Operand
    ) -> tuple[Moment, Groups]:
        """The comparison of two spans of time."""
        from lbtrace.expressions import times

        moment = together(at, left, right)
        return moment, [
            [
                self._of_number(test, one, other, "")[1]
                if isinstance(other, Constant)
                else self._relation(at, test, one, other)[1]
                for test, one, other in group
            ]
            for group in times.relate(at, operator, left, right, self._scope)
        ]

    def _of_pseudo(
        self, operator: Operator, pseudo: Pseudo, constant: Constant
    ) -> tuple[Moment, Condition]:
        """The comparison of what the kernel knows of every event with a number."""
        refuse_prefix(operator, constant)
        refuse_decimals(constant, "pid" if pseudo.name == "comm" else pseudo.name)
        if pseudo.name == "comm":
            raise ExpressionError(
                constant.at, "comm is compared with text", 'write comm == "redis"'
            )
        if pseudo.name not in TIMES:
            refuse_time(constant)
        elif constant.form != "time" and (number := number_of(constant)):
            raise no_unit(constant.at, number)
        moment = MOMENTS.get(pseudo.name, "any")
        number = _comparable(operator, PSEUDO_TYPES[pseudo.name], 0, constant)
        return moment, Condition(0, operator, number, False, subject=pseudo.name)

    def _of_number(
        self, operator: Operator, operand: Operand, constant: Constant, name: str
    ) -> tuple[Moment, Condition]:
        """The comparison of the value ``name`` with a number; of text that of its address."""
        refuse_prefix(operator, constant)
        refuse_time(constant)
        text = is_string(operand)
        if text and not operand.type.is_address:
            what = f"this is {operand.type.name or 'text'}, which is compared with text"
            raise ExpressionError(operand.at, what, 'write name == "abc"')
        fetch = address_in(operand) if text else number_in(operand, name)
        if constant.form == "real":
            refuse_declared(operand.at, operand.type)
            where = where_decimals_are(operand.type, name)
            refuse_decimals(constant, operand.type.name, where)
        if constant.form == "character" and constant.value and operand.type.is_address:
            what = f"this is a character, and {operand.type.name} is an address"
            hint = f"write {name or 'p'}[0], if what it leads to is meant"
            raise ExpressionError(constant.at, what, hint)
        type = ADDRESS if text else operand.type
        number = _comparable(operator, type, operand.bits[1], constant)
        if type.is_truth and number == 1 and operator in ("==", "!="):  # 90 is true as well
            operator, number = "!=" if operator == "==" else "==", 0
        slot = self._scope.take(operand.at, operand.moment, fetch)
        return operand.moment, Condition(slot, operator, number, width(type).signed)

    def _relation(
        self, at: int, operator: Operator, left: Operand, right: Operand
    ) -> tuple[Moment, Condition]:
        """The comparison of two values."""
        if operator == "startswith" or is_string(left) or is_string(right):
            what = "text is compared with text between quotation marks"
            raise ExpressionError(at, what, 'write name == "abc"')
        moment = together(at, left, right)
        for operand in (left, right):
            number_in(operand)  # or it is refused
        shared = common(*(promoted(o.type, o.bits[1]) for o in (left, right)))
        converted_both = [converted(operand, shared, self._scope) for operand in (left, right)]
        slots = [self._scope.take(o.at, moment, number_in(o)) for o in converted_both]
        return moment, Condition(slots[0], operator, 0, shared.signed, other=slots[1])

    def _of_text(
        self,
        at: int,
        operator: Operator,
        left: Located,
        constant: Constant,
        text: bytes,
        name: str,
    ) -> tuple[Moment, Groups]:
        """The comparison of text, the value ``name``, or of the name of the thread, with text."""
        check_text(at, operator, constant, text)
        if isinstance(left, Operand) and left.start is None and left.type.long_text():
            return self._of_short_text(operator, left, text)
        if isinstance(left, Operand) and is_address_of_network(left):
            return self._of_address(operator, left, constant, text)
        if (size := characters_in(left)) and isinstance(left, Operand):
            moment, condition = self._of_characters(operator, left, constant, text, size)
            return moment, [[condition]]
        subject: Literal["comm", "text"] = "comm"
        slot, moment = 0, _moment_of(left)
        if isinstance(left, Operand):
            subject, slot = "text", self._text_slot(left, operator, text, constant.at, name)
        elif isinstance(left, Pseudo) and left.name != "comm":
            raise ExpressionError(left.at, f"{left.name} is a number", f"write {left.name} == 4711")
        elif len(text) > COMM:
            what = f"the kernel keeps {COMM} bytes of a name, this is longer"
            raise ExpressionError(constant.at, what, f"write its first {COMM} bytes")
        return moment, [[Condition(slot, operator, 0, False, subject=subject, text=text)]]

    def _of_characters(
        self,
        operator: Operator,
        left: Operand,
        constant: Constant,
        text: bytes,
        size: int,
    ) -> tuple[Moment, Condition]:
        """The comparison of the text in an array of ``size`` characters: it ends at a NUL, or with
        the array."""
        memory = left.place.memory
        if memory is None:
            what = "the text in this array is compared only where it lies in memory"
            raise ExpressionError(left.at, what, "compare its characters: name[0] == 'a'")
        if len(text) > size or b"\0" in text:
            what = "with this text it holds for every call, or for none"
            raise ExpressionError(constant.at, what, f"the array has {size} characters")
        if operator in ("==", "!="):
            operator = "startswith" if operator == "==" else "lacks"
            text += b"\0" * (len(text) < size)
        if len(text) > TEXT_LIMIT:
            what = f"text of more than {TEXT_LIMIT - 1} bytes cannot be compared with an array"
            raise ExpressionError(constant.at, what, "compare its beginning, with startswith")
        fetch = replace(memory, read="bytes", limit=min(size, TEXT_LIMIT))
        slot = self._scope.take(left.at, left.moment, fetch)
        return left.moment, Condition(slot, operator, 0, False, subject="text", text=text)

    def _of_short_text(
        self, operator: Operator, left: Operand, text: bytes
    ) -> tuple[Moment, Groups]:
        """The comparison of text that may lie in its own record."""
        from lbtrace.expressions import short_texts  # imported here because few compare such

        record, places = left.place.memory, left.type.long_text()
        if record is None or places is None:
            raise no_text(left.at, left.type, "")
        take = partial(self._scope.take, left.at, left.moment)
        return left.moment, short_texts.compare(places, record, operator, text, take)

    def _of_address(
        self, operator: Operator, left: Operand, constant: Constant, text: bytes
    ) -> tuple[Moment, Groups]:
        """The comparison of the address of a socket, or of one of IPv6, with text."""
        from lbtrace.expressions import socket_addresses  # imported here because few compare such

        take = partial(self._scope.take, left.at, left.moment)
        if left.start is None:
            test = socket_addresses.compare_record(constant.at, operator, text, left, take)
            return left.moment, [[test]]
        whole = self._text_slot(left, operator, text, constant.at, "")
        return left.moment, socket_addresses.compare(
            constant.at, operator, text, left.start, whole, take
        )

    def _text_slot(
        self, operand: Operand, operator: Operator, text: bytes, at: int, name: str
    ) -> int:
        """The slot of a text that is compared with what stands ``at`` a character."""
        fetcher = self._fetchers["return" if operand.moment == "return" else "entry"]
        if operand.start is not None:
            slot = fetcher.text("", operand.type, operand.start, operand.length).slot
        elif is_string(operand):
            slot = fetcher.value("", operand.type, operand.place).slot
        else:
            raise explain_no_text(operand, operator, text.decode(errors="replace"), at, name)
        if slot < 0:
            raise ExpressionError(operand.at, "too many values for one probe", "compare fewer")
        if b"\0" in text and fetcher.fetches[slot].read == "string":
            raise ExpressionError(at, "this text ends before its NUL", "take buf() for bytes")
        return slot


def _are_times(one: Operand, other: Operand) -> bool:
    """Whether two values are compared as spans of time; those of Go are numbers as well."""
    types = (one.type, other.type)
    return all(t.time_parts() for t in types) and not all(t.computes for t in types)


def _is_timed(operand: Operand, constant: Constant) -> bool:
    """Whether a value is compared as a span of time: numbers of Go's also as such."""
    timed = constant.form == "time" or not operand.type.computes
    return timed and bool(operand.type.time_parts())


def _name_of_value(comparison: Comparison) -> str:
    """What is compared with a constant, as one writes it; empty where it is computed."""
    sides = comparison.left, comparison.right
    return next((name for side in sides if (name := written(side))), "")


def _moment_of(located: Located) -> Moment:
    return located.moment if isinstance(located, Operand) else "any"


def _comparable(operator: Operator, type: Type, bits: int, constant: Constant) -> int:
    """The number that values of ``type`` are compared with. Raises `ExpressionError` where
    that would say nothing of them."""
    value = constant.value
    assert isinstance(value, int)
    low, high = limits(type, bits)
    if constant.form == "character" and value > 0x7F:
        if width(type).size > 1:
            raise ExpressionError(
                constant.at, "this character is not ASCII", "compare with a number"
            )
        value -= 256 if low < 0 else 0
    number = comparable(value, constant.form == "hexadecimal", operator, type, bits)
    if number is None:
        span = f"its values are from {low} to {high}"
        raise ExpressionError(
            constant.at, "with this number it holds for every call, or for none", span
        )
    return number

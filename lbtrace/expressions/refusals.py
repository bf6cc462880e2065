"""Constants with which a value is not compared."""

from __future__ import annotations

from lbtrace.abi.locations import WORD
from lbtrace.expressions.constants import text_for_constant
from lbtrace.expressions.operands import Constant, Operand
from lbtrace.expressions.tree import TIMES, ExpressionError, Operator
from lbtrace.expressions.unsuited import no_text, number_for_text, refuse_declared
from lbtrace.model.wire_limits import TEXT_LIMIT


def refuse_prefix(operator: Operator, constant: Constant) -> None:
    """Raise `ExpressionError` where a beginning is asked for."""
    if operator in ("startswith", "lacks"):
        raise ExpressionError(constant.at, "startswith wants text", 'write name startswith "abc"')


def refuse_time(constant: Constant) -> None:
    """Raise `ExpressionError` where it is a time."""
    if constant.form == "time":
        raise ExpressionError(
            constant.at,
            "this is a time, and what it is compared with is none",
            "write the number without a unit",
        )


def refuse_decimals(constant: Constant, name: str, hint: str = "") -> None:
    """Raise `ExpressionError` where it has decimals, which the value ``name`` has not."""
    if constant.form == "real":
        whole = "write a time: 1.5ms" if name in TIMES else "write a whole number"
        hint = hint or whole
        what = f"{name or 'this'} has no decimals"
        raise ExpressionError(constant.at, what, hint)


def explain_no_text(
    operand: Operand, operator: Operator, text: str, at: int, value: str
) -> ExpressionError:
    """Return why a ``value``, so written, is not compared with ``text``, which stands ``at`` a
    character."""
    type, name = operand.type, operand.type.name or "the value"
    equality = operator in ("==", "!=")
    if type.constants():
        return text_for_constant(at, text, type, equality=equality)
    refuse_declared(operand.at, type)
    if not type.computes or type.is_real or type.is_address:
        return no_text(operand.at, type, value)
    whole = operand.type.size == WORD and not operand.bits[1]
    hint = number_for_text(type, text) if equality else ""
    if not hint and whole:
        hint = "write str() around it, if it is an address"
    hint = hint or "compare it with a number: n == 1"
    return ExpressionError(at, f"this is text, and {name} is a number", hint)


OF_TEXT = frozenset({"==", "!=", "startswith", "lacks"})


def check_text(at: int, operator: Operator, constant: Constant, text: bytes) -> None:
    """Raise `ExpressionError` where text is not compared so."""
    if operator not in OF_TEXT:
        raise ExpressionError(
            at, "text is compared with ==, != and startswith", 'write name == "abc"'
        )
    if len(text) > TEXT_LIMIT:
        raise ExpressionError(
            constant.at,
            f"text of more than {TEXT_LIMIT} bytes cannot be compared",
            "compare its beginning, with startswith",
        )

"""Constants with which a value is not compared."""

from __future__ import annotations

from lbtrace.expressions.operands import Constant
from lbtrace.expressions.tree import TIMES, ExpressionError, Operator


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

"""What tells of a call that it has failed, by the type of its result: ``--errors``."""

from __future__ import annotations

from lbtrace.errors import UsageError, option
from lbtrace.expressions.tree import Comparison, Field, Junction, Name, Number, Test
from lbtrace.model import Type
from lbtrace.values.outcome import MOST
from lbtrace.values.pointer import NIL
from lbtrace.values.word import AUTO, UNKNOWN

RETURNED = Name(0, "retval")
GO_ERROR = "error"
HANDLERS = ("__sighandler_t", "sighandler_t")
"""Types of glibc of which null is no error, but ``SIG_DFL``."""

RUST_ERROR, RUST_VALUE = "Err", "Ok"


def failed(result: Type | None, *, throws: bool) -> Test | None:
    """Return the condition that a call has failed: errors of Go are not nil, results of Rust are
    ``Err``, pointers null or the number of an error, as ``MAP_FAILED`` is, numbers with a sign
    negative. None where a ``result`` tells of no error,
    and only exceptions do, which functions of the file ``throws``. Raises `UsageError` where
    nothing tells.
    """
    typed = result is None or all(r.is_typed for r in (result, *_several(result)))
    found = None
    if result is not None and typed:
        found = _of_errors(result) or _of_numbers(result)
    if found is None:
        what = "it returns nothing that tells of an error"
        if result is not None and not (result.is_known and typed):
            what = "the type of its result is not known"
        elif result is not None and result.has_values:
            what = f"its result tells of no error: {result.name or 'several values'}"
        if throws and result not in (UNKNOWN, AUTO) and (result is None or result.is_known):
            return None
        hint = "errors are: error of Go, Err of Rust, null pointers, negative numbers"
        raise UsageError(f"{option('errors')}: {what}", hint)
    return found


def _several(result: Type) -> list[Type]:
    """The types of several results, of Go."""
    return [] if result.name else [member.type for member in result.components() or ()]


def _of_errors(result: Type) -> Test | None:
    """That it is one of the language's errors."""
    if result.name == GO_ERROR:
        return Comparison(0, "!=", RETURNED, Name(0, NIL))
    if not result.name:  # several, of Go
        for member in reversed(result.components() or ()):
            if member.type.name == GO_ERROR:
                return Comparison(0, "!=", Field(0, RETURNED, member.name), Name(0, NIL))
    states = [state for state, _, _ in result.named_states()]
    if RUST_ERROR in states:
        return Comparison(0, "==", RETURNED, Name(0, RUST_ERROR))
    if RUST_VALUE in states and result.name.startswith("Result<"):
        return Comparison(0, "!=", RETURNED, Name(0, RUST_VALUE))
    return None


def _of_numbers(result: Type) -> Test | None:
    """That it is null, negative, or an address that is the number of an error."""
    if not (result.is_known and result.computes):
        return None
    if result.is_address and not result.is_alias():
        numbered = Comparison(0, ">=", RETURNED, Number(0, (1 << 64) - MOST))
        null = Comparison(0, "==", RETURNED, Number(0, 0))
        return numbered if result.name in HANDLERS else Junction("or", (null, numbered))
    other = result.is_address or result.is_truth or result.is_char() or result.constants()
    if result.signed and not other:
        return Comparison(0, "<", RETURNED, Number(0, 0))
    return None

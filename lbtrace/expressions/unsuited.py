"""Why a value is not what an expression takes it for, and what to write instead."""

from __future__ import annotations

import re

from lbtrace.abi.locations import WORD
from lbtrace.errors import option
from lbtrace.expressions.hints import IN_A_SHELL
from lbtrace.expressions.tree import TIMES, ExpressionError, spelled
from lbtrace.model import Type
from lbtrace.recognize.wide_text import is_wide

_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)")
"""A number, as expressions write it."""

PARTS = 8
"""Parts of a value that an error lists."""


def only_declared(at: int, type: Type) -> ExpressionError:
    """Return what is wrong where something is asked of a value of ``type``, or of what that leads
    to, which debug information only declares."""
    while not type.is_declared and type.target is not None:
        type = type.target
    what = f"{type.name or 'its type'} is only declared in the debug information"
    hint = "build what defines it with -g, by clang with -fstandalone-debug"
    return ExpressionError(at, what, hint)


def refuse_declared(at: int, type: Type) -> None:
    """Raise `ExpressionError` where ``type``, or what it leads to, is only declared."""
    if type.is_declared or (type.target is not None and type.target.is_declared):
        raise only_declared(at, type)


def no_number(at: int, type: Type, name: str) -> ExpressionError:
    """Return what is wrong where ``name``, a value of ``type``, is taken for a number."""
    whole = type.name or "a value"
    if type.computes and type.size > WORD:
        what = f"{whole} is too wide: the kernel computes with 64 bits"
        return ExpressionError(at, what, f"take its lower half: (long){name or 'n'}")
    what = f"a number is expected here, this is {whole}"
    return ExpressionError(at, what, how_to_compare(type, name))


def no_amount(at: int, type: Type, name: str) -> ExpressionError:
    """Return what is wrong where ``name``, an address or text, is added up or measured."""
    if type.is_text():
        length = "" if type.is_address else f"take its length, len({name or 'name'}), or "
        by = option("by", name or "name")
        return ExpressionError(
            at, f"this is {type.name or 'text'}: no amount", f"{length}count with {by}"
        )
    what = f"this is {type.name or 'a pointer'}: an address, no amount"
    return ExpressionError(at, what, f"name what it leads to, or cast it: (long){name or 'p'}")


def how_to_compare(type: Type, name: str = "") -> str:
    """Return what of a value of ``type``, written as ``name``, can be compared."""
    if type.element_at(0) is not None:
        return f"name one of its elements: {name or 'name'}[0]"
    if type.is_text():
        return f'compare it with text: {name or "name"} == "abc"'
    of_it = name or "name"
    states = [state for state, _, _ in type.named_states()]
    ways = [f"{of_it} == {state}" for state in states[:1]]
    if type.components() is None:
        ways += [f"{of_it}.{spelled(part.name)}" for part in type.named_parts()[:PARTS]]
    if ways:
        return f"what can be compared: {', '.join(ways)}"
    if not type.is_known:
        return "leave it out of the condition"
    if type.components() is None and not (type.computes or type.is_real):
        return f"no part of it can be compared; {option('arg', name or 'NAME')} shows it"
    return "name a number, a pointer or a member: node->key"


def no_elements(at: int, type: Type, index: int, name: str, *, subscript: bool) -> ExpressionError:
    """Return what is wrong where ``*`` or an index is applied to a value of ``type``."""
    whole = type.name or "a value without a name for its type"
    if type.element_at(0) is not None:
        what = f"this is {whole}, which has no element {index}"
        return ExpressionError(at, what, "[0] is the first")
    if type.computes or type.is_real:
        allowed = "only pointers and arrays have elements" if subscript else "no pointer"
        return ExpressionError(at, f"this is {whole}: {allowed}", "cast it first: *(int*)arg0")
    allowed = "its elements cannot be named" if subscript else "no pointer"
    return ExpressionError(at, f"this is {whole}: {allowed}", how_to_compare(type, name))


def refuse_handle(at: int, type: Type) -> None:
    """Raise `ExpressionError` for a map or a channel of Go whose address is computed with."""
    if type.is_handle():
        what = f"this is {type.name}: its elements cannot be named"
        raise ExpressionError(at, what, "the value itself shows the first; .len is their number")


def no_members(at: int, type: Type, name: str) -> ExpressionError:
    """Return what is wrong where a member is named of a value of ``type`` that has none."""
    what = f"this is {type.name or 'a value'}, which has no members"
    hint = "only records and pointers to some do"
    if type.is_text() or (type.is_known and not (type.computes or type.is_real)):
        hint = how_to_compare(type, name)
    return ExpressionError(at, what, hint, lacks_name=True)


def no_such_cast(at: int, type: Type, inner: Type | None) -> ExpressionError:
    """Return what is wrong where a value of a type ``inner``, None of a constant, is converted to
    ``type``."""
    if type.is_real:
        hint = "leave the cast out"
        if inner is not None and inner.computes:
            hint = "leave the cast out, and compare with a whole number: n > 2"
        elif inner is not None and inner.is_real:
            hint = "leave the cast out: x > 1.5"
        return ExpressionError(at, "numbers cannot be converted to floats", hint)
    if inner is not None and inner.is_real:
        what = "floats cannot be converted to whole numbers"
        return ExpressionError(at, what, "leave the cast out: x > 1.5")
    what = "only numbers and pointers can be cast"
    hint = how_to_compare(inner) if inner is not None else "leave the cast out"
    return ExpressionError(at, what, hint)


def never_nil(at: int, type: Type, *, equality: bool) -> ExpressionError:
    """Return what is wrong where a value of ``type`` is compared with ``nil``, by ``equality`` or
    another way."""
    if not equality:
        return ExpressionError(at, "nil is compared by == and != only", "write p != nil")
    names = [part.name for part in type.named_parts() if part.name]
    if not type.name and names:
        hint = f"name one: {' or '.join(f'{name} != nil' for name in names[:PARTS])}"
        return ExpressionError(at, "these are several results", hint)
    hint = "pointers, interfaces, slices, maps, channels and functions of Go can be"
    return ExpressionError(at, f"{type.name or 'this'} is never nil", hint)


def how_to_name(type: Type) -> str:
    """Return what may be meant by a name that is not known, where it is compared with a value of
    ``type``."""
    if states := [state for state, _, _ in type.named_states()][:PARTS]:
        return f"it is compared by == and != with {', '.join(states)}"
    if type.is_truth:
        return "write true or false"
    if type.is_real:
        return "write a number: 1.5"
    if type.has_constants and not type.constants():
        return f"debug information has no constants of {type.name}: write the number"
    if type.computes and not type.is_address:
        return "other constants are written as numbers"
    return 'text is quoted: "abc"'


def how_to_compare_event(event: str, word: str) -> str:
    """Return what to write instead of ``word``, a name that is not known, to compare with it what
    is known of every ``event``: its ``pid``, for one."""
    if event == "comm":
        return f'text is quoted: "{word}"{IN_A_SHELL}'
    if event in TIMES:
        return f"write a time: {event} > 1.5ms"
    return f"write a number: {event} == 4711"


def where_decimals_are(type: Type, name: str) -> str:
    """Return what to write instead of ``name``, a value of ``type``, to compare it with decimals;
    empty where that is not known."""
    if not type.is_address:
        return ""
    if type.target is not None and type.target.is_real:
        return f"write *{name or 'p'}"
    return _leads_to(type, name)


def no_unit(at: int, number: float) -> ExpressionError:
    """The error for a bare number where a time is compared."""
    what = f"this time has no unit: {number} of what?"
    return ExpressionError(at, what, f"write {number}ms, {number}us or {number}ns")


def no_text(at: int, type: Type, name: str) -> ExpressionError:
    """Return what is wrong where ``name``, a value of ``type`` that is no number, is compared with
    text."""
    what = f"this is {type.name or 'the value'}, not text"
    if type.is_address:
        return ExpressionError(at, what, _where_text_is(type, name))
    if type.is_real:
        return ExpressionError(at, what, "compare it with a number: x > 1.5")
    if type.components() is None:
        return ExpressionError(at, what, how_to_compare(type, name))
    return ExpressionError(at, what, "name a member of it")


def _where_text_is(type: Type, name: str) -> str:
    """What to write instead of ``name``, a pointer, to compare it with text."""
    if is_wide(type):
        return "text of wide characters is shown, not compared; one of them is: w[0] == 'x'"
    if type.target is not None:
        first = type.target.element_at(0)
        if type.target.is_text() or (first is not None and first.type.is_char()):
            return f"write *{name or 'p'}"
    return _leads_to(type, name) or "write str() around it"


def _leads_to(type: Type, name: str) -> str:
    """What to write instead of ``name``, a pointer that is not looked into, or leads to members."""
    name = name or "p"
    if type.target is None:
        nowhere = "void" in type.name.split()
        return "" if nowhere else f"write *{name}, or name a member of it: {name}->key"
    return f"name a member of it: {name}->key" if type.target.named_parts() else ""


def number_for_text(type: Type, text: str) -> str:
    """Return how to write the number that quoted ``text`` means for a ``type``; empty where it is
    none."""
    if _NUMBER.fullmatch(text) or (type.is_truth and text in ("true", "false")):
        return f"write {text} without quotes"
    if type.is_char() and len(text) == 1 and text.isascii() and text.isprintable():
        return "one character is written " + (f"'\\{text}'" if text in "'\\" else f"'{text}'")
    return ""

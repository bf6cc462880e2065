"""The words and signs of an expression."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.errors import option
from lbtrace.expressions.tree import ExpressionError

LENGTH = 400
"""Words and signs of an expression: more than sixteen comparisons of sixteen values need."""

Kind: TypeAlias = Literal["number", "name", "string", "character", "sign", "end"]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>0[xX][0-9a-fA-F]+|(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)(?P<unit>ns|us|ms|s)?(?![\w.])
      | (?P<name>[^\W\d]\w*)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<character>'(?:[^'\\]|\\.[0-9a-fA-F]{0,2})')
      | (?P<sign>->|==|!=|<=|>=|&&|\|\||[-+*.,()\[\]<>=!])
      )""",
    re.VERBOSE,
)
_NO_NUMBER = re.compile(r"[0-9][\w.]*")
_KINDS: tuple[Kind, ...] = ("number", "name", "string", "character", "sign")
RESERVED = frozenset({"and", "or", "not", "startswith"})
_WORDS = {"&&": "and", "||": "or", "!": "not"}


_CASTS = "types are those of C and <stdint.h>: (unsigned char)n, *(uint32_t *)v"
_VALUES = "values are names, arg0, node->key, str(arg0), numbers and their sums"
_COMPUTING = "values are added, subtracted, and multiplied by a number: n * 2 + 1"
_COMPARING = 'compare with ==, !=, <, <=, >, >= or startswith: n == 5, name startswith "oc"'
_NAMING = 'a value goes by its name, arg0 or reg("ax")'

_HINTS = {
    **dict.fromkeys("/%&|^~?", _COMPUTING),
    **dict.fromkeys(("=", "in", "is", "contains", "like", "eq", "lt", "gt"), _COMPARING),
    **dict.fromkeys("@$#", _NAMING),
    **dict.fromkeys("\"'", "text is written \"abc\", one character 'a'"),
    "&": "conditions are joined by and: n > 1 and arg1 == 2",
    "~": _COMPARING,
    ")": "no parenthesis was opened",
    ",": f"write {option('arg')} once for each value",
    **dict.fromkeys(("<", ">"), "join comparisons by and: 1 < n and n < 3"),
}


def _hint_for(word: str) -> str:
    """What to write instead of a word or sign that is not understood."""
    return _HINTS.get(word, "join values by + - *, comparisons by and, or: n + 1 > 5 and arg1 == 2")


class Token(Struct, frozen=True):
    """A word or sign that begins at character ``at``."""

    at: int
    kind: Kind
    text: str
    unit: str = ""


def tokens(source: str) -> list[Token]:
    """Return what ``source`` is made of. Raises `ExpressionError` at what means nothing."""
    found: list[Token] = []
    position, end = 0, len(source.rstrip())
    while position < end:
        match = _TOKEN.match(source, position)
        if match is None:
            at = end - len(source[position:end].lstrip())
            if number := _NO_NUMBER.match(source, at):
                hint = "write 12, 0x1f, or a time in ns, us, ms, s: 1.5ms"
                raise ExpressionError(at, f"{number[0]} is not a number", hint)
            what = (
                "a string without end" if source[at] in "\"'" else f"{source[at]!r} means nothing"
            )
            raise ExpressionError(at, f"{what} here", _hint_for(source[at]))
        kind = next(k for k in _KINDS if match[k] is not None)
        word = match[kind]
        at, position = match.start(kind), match.end()
        if word in _WORDS:
            kind, word = "name", _WORDS[word]
        found.append(Token(at, kind, word, match["unit"] or ""))
        if len(found) > LENGTH:
            raise ExpressionError(
                at, f"this is too long: more than {LENGTH} words and signs", "write it shorter"
            )
    found.append(Token(end, "end", ""))
    return found


def unexpected(token: Token, wanted: str = "") -> ExpressionError:
    """Return what is wrong where ``token`` stands in the place of what is ``wanted``, or of the
    end."""
    if not wanted:
        what = f"{token.text!r} is not expected here"
        return ExpressionError(token.at, what, _hint_for(token.text))
    instead = f", not {token.text!r}" if token.text else ""
    what = f"{wanted!r} is expected here{instead}"
    return ExpressionError(token.at, what, "close what was opened, or leave this out")


def missing_value(token: Token) -> ExpressionError:
    """Return what is wrong where ``token`` stands in the place of a value."""
    if token.kind == "end":
        return ExpressionError(token.at, "a value is missing at the end", _VALUES)
    return ExpressionError(token.at, f"a value is expected, not {token.text!r}", _VALUES)


def unknown_type(at: int, name: str) -> ExpressionError:
    """Return what is wrong with the type of a cast."""
    return ExpressionError(at, f"{name} is no type that is known here", _CASTS)


def refuse_unknown_cast(found: list[Token], start: int) -> None:
    """Raise `ExpressionError` where names in parentheses, at the token ``start``, stand before a
    value, as only types do."""
    names = start + 1
    if found[start].text != "(":
        return
    while found[names].kind == "name" and found[names].text not in RESERVED:
        names += 1
    at = names
    while found[at].text == "*":
        at += 1
    if names == start + 1 or found[at].text != ")":
        return
    after = found[at + 1]
    is_cast = at > names or names > start + 2 or after.text == "(" or after.kind == "number"
    if is_cast or (after.kind == "name" and after.text not in RESERVED):
        words = (token.text for token in found[start + 1 : names])
        raise unknown_type(found[start + 1].at, " ".join(words))

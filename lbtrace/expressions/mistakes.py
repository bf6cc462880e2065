"""What is wrong where a word or sign of an expression stands in the place of something else."""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.expressions.hints import CLOSING, JOINING, Asked, hint_for
from lbtrace.expressions.numbers import UNITS
from lbtrace.expressions.tokens import RESERVED, Token
from lbtrace.expressions.tree import ExpressionError, NamedType
from lbtrace.text import in_quotes

_CASTS = "types are those of C, <stdint.h> and debug information: (unsigned char)n, *(uint32_t *)v"
_ARROW = "quote it, if c->name was written: the shell takes > for a redirection"
_VALUES = "values are names, arg0, node->key, str(arg0), numbers and what C computes of them"


def unexpected(
    before: Token | None,
    token: Token,
    asked: Asked,
    wanted: str = "",
    *,
    compared: bool = False,
) -> ExpressionError:
    """Return what is wrong where ``token`` stands in the place of what is ``wanted``, or of the
    end, and after ``before``. Where what precedes it has ``compared`` something, the next
    comparison may begin with it."""
    begins = compared and bool(token.text) and (token.kind != "sign" or token.text == "(")
    if not wanted:
        what, otherwise = f"{in_quotes(token.written)} is not expected here", ""
    else:
        instead = f", not {in_quotes(token.written)}" if token.text else ""
        what, otherwise = f"{wanted!r} is expected here{instead}", CLOSING
    hint = hint_for(token.written, asked, otherwise=JOINING if begins else otherwise)
    if before and before.kind == "number" and not before.unit and token.text in UNITS:
        hint = f"write a time in one word: {before.text}{token.text}"
    return ExpressionError(token.at, what, hint)


def compared_first(token: Token) -> ExpressionError:
    """Return what is wrong where ``token``, one of ``& ^ |``, stands beside a comparison: C makes
    that first, other languages do not."""
    what = f"this is compared before {token.text} combines it, in C"
    ways = f"(n {token.text} 4) == 4, or n == (A {token.text} B)"
    hint = f"write {ways}; conditions are joined by and, or"
    return ExpressionError(token.at, what, hint)


def unclosed(found: Sequence[Token]) -> ExpressionError:
    """Return what is wrong with the last of the parentheses that are not closed at the end."""
    opened = []
    for token in found:
        if token.text == "(":
            opened.append(token.at)
        elif token.text == ")" and opened:
            opened.pop()
    return ExpressionError(opened[-1], "this parenthesis is not closed", "write ) where it ends")


def missing_value(token: Token, before: Token | None) -> ExpressionError:
    """Return what is wrong where ``token``, behind ``before``, stands in the place of a value."""
    if token.kind == "end":
        minus = before is not None and before.text == "-"
        return ExpressionError(
            token.at, "a value is missing at the end", _ARROW if minus else _VALUES
        )
    return ExpressionError(
        token.at, f"a value is expected, not {in_quotes(token.written)}", _VALUES
    )


def unknown_type(at: int, name: str) -> ExpressionError:
    """Return what is wrong with the type of a cast."""
    return ExpressionError(at, f"{name} is no type that is known here", _CASTS)


KEYWORDS = frozenset({"struct", "union", "enum", "class", "const", "volatile"})


def named_cast(found: Sequence[Token], start: int) -> NamedType | None:
    """Return the type that is named in parentheses, at the token ``start``, where these stand
    before a value, as only those of types do. Raises `ExpressionError` where it can be none."""
    names = start + 1
    if found[start].text != "(":
        return None
    while found[names].kind == "name" and found[names].text not in RESERVED:
        names += 1
    at = names
    while found[at].text == "*":
        at += 1
    if names == start + 1 or found[at].text != ")":
        return None
    after = found[at + 1]
    is_cast = at > names or names > start + 2 or after.text == "(" or after.kind == "number"
    if not is_cast and (after.kind != "name" or after.text in RESERVED):
        return None
    words = [token.text for token in found[start + 1 : names]]
    own = [word for word in words if word not in KEYWORDS]
    if len(own) != 1:
        raise unknown_type(found[start + 1].at, " ".join(words))
    return NamedType(found[start + 1].at, own[0], at - names)

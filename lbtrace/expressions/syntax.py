"""The language of ``--arg`` and ``--where``: text to a tree.

::

    argument   = [NAME "="] value
    condition  = conjunction {"or" conjunction}
    conjunction = negation {"and" negation}
    negation   = "not" negation | "(" condition ")" | comparison
    comparison = value [("==" | "!=" | "<" | "<=" | ">" | ">=" | "startswith") value
                 | ["not"] "in" "(" value {"," value} ")"]
    value      = exclusive {"|" exclusive}
    exclusive  = masked {"^" masked}
    masked     = shifted {"&" shifted}
    shifted    = sum {("<<" | ">>") sum}
    sum        = product {("+" | "-") product}
    product    = unary {("*" | "/" | "%") unary}
    unary      = ("*" | "-" | "~") unary | "(" type ")" unary | postfix
    postfix    = primary {("->" | ".") NAME ["(" ")"] | "[" NUMBER "]"}
    primary    = NUMBER [unit] | STRING | CHARACTER | NAME | "(" value ")"
               | "reg" "(" STRING ")" | "str" "(" value ["," value] ")"
               | "buf" "(" value "," value ")" | ("after" | "len") "(" value ")"
    type       = words of a C type {"*"}

Of a comparison, ``value`` is a ``shifted``: C compares before it combines by ``&``, ``^`` and
``|``, other languages do not, so that parentheses have to say what is meant.

``&&``, ``||`` and ``!`` are other spellings of ``and``, ``or`` and ``not``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar, cast

from msgspec.structs import replace

from lbtrace.expressions.c_types import QUALIFIERS, TYPE_WORDS, find_type
from lbtrace.expressions.hints import Asked
from lbtrace.expressions.mistakes import (
    compared_first,
    missing_value,
    named_cast,
    unexpected,
    unknown_type,
)
from lbtrace.expressions.numbers import read_integer, read_number
from lbtrace.expressions.token_reader import TokenReader
from lbtrace.expressions.tokens import RESERVED, Token
from lbtrace.expressions.tree import (
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
    Negation,
    Node,
    Number,
    Operator,
    Quoted,
    Register,
    Sign,
    Sum,
    Test,
    TextOf,
)
from lbtrace.model import Pointer, Type

_LEVELS = (("|",), ("^",), ("&",), ("<<", ">>"))
"""The signs that bind less than sums, those that bind least first."""

_COMBINING = ("|", "^", "&")
_SHIFTS = len(_COMBINING)
"""The level of what is compared."""

_OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "startswith")


def argument(source: str, option: str = "arg") -> ArgExpression:
    """Return an ``--arg``, or the value of an ``option`` like it. Raises `UsageError` that points
    at the character."""
    return _whole("arg", source, _Parser.wanted, option)


def condition(source: str) -> Test:
    """Return a ``--where``. Raises `UsageError` that points at the character."""
    return _whole("where", source, _Parser.test)


_Parsed = TypeVar("_Parsed")


def _whole(
    asked: Asked, source: str, parse: Callable[[_Parser], _Parsed], option: str = ""
) -> _Parsed:
    try:
        return _Parser(source, asked).whole(parse)
    except ExpressionError as error:
        raise error.error(option or asked, source) from None


def _is_value(test: object) -> bool:
    """Whether a condition is a mere value, which is compared with nothing."""
    return isinstance(test, Comparison) and test.right.at == test.at


class _Parser(TokenReader):
    """Recursive descent: a method a rule of the grammar above."""

    _failed: tuple[int, ExpressionError] | None = None

    def whole(self, parse: Callable[[_Parser], _Parsed]) -> _Parsed:
        """Return the whole expression. Raises the error of those that is furthest on, where one
        parenthesis was read in several ways: what precedes it was understood."""
        try:
            parsed = parse(self)
            if self._token.kind != "end":
                compared = not (isinstance(parsed, ArgExpression) or _is_value(parsed))
                raise unexpected(self._before, self._token, self._asked, compared=compared)
            return parsed
        except ExpressionError as error:
            self._fail(error)
            assert self._failed is not None
            raise self._failed[1] from None

    # ------------------------------------------------------------------ rules

    def wanted(self) -> ArgExpression:
        name = ""
        if self._token.kind == "name" and self._tokens[self._next + 1].text == "=":
            name = self._take().text
            self._take()
        start = self._token.at
        node = self.value()
        return ArgExpression(
            self._source, name or self._source[start : self._token.at].strip(), node
        )

    def test(self) -> Test:
        return self._joined("or", lambda: self._joined("and", self._negation))

    def _joined(self, word: Literal["and", "or"], part: Callable[[], Test]) -> Test:
        parts = [part()]
        while self._accept(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _negation(self) -> Test:
        with self._deeper():
            if self._accept("not"):
                return Negation(self._negation())
            if self._token.text == "(" and (grouped := self._grouped()) is not None:
                return grouped
            return self._comparison()

    def _grouped(self) -> Test | None:
        """A condition in parentheses; None where they belong to a value."""
        start = self._next
        self._take()
        try:
            inner = self.test()
            self._expect(")", compared=not _is_value(inner))
        except ExpressionError as error:
            self._fail(error)
            self._next = start
            return None
        if self._token.kind == "end" or self._token.text in ("and", "or", ")"):
            return inner
        if not _is_value(inner):
            self._fail(unexpected(self._before, self._token, self._asked, compared=True))
        self._next = start
        return None

    def _fail(self, error: ExpressionError) -> None:
        """Keep why a way to read the expression fails, if it leads further on than the others."""
        if self._failed is None or self._next > self._failed[0]:
            self._failed = self._next, error

    def _comparison(self) -> Test:
        start, at = self._next, self._token.at
        left, combined = self._binary(_SHIFTS), self._token
        if combined.text in _COMBINING:
            self._next = start
            left = self.value()
        if (listed := self._listed(left, combined)) is not None:
            return listed
        if self._token.text not in _OPERATORS or self._token.kind == "string":
            return Comparison(at, "!=", left, Number(at, 0))
        operator, right = self._take(), self._binary(_SHIFTS)
        combined = self._token if self._token.text in _COMBINING else combined
        if combined.text in _COMBINING:
            raise compared_first(combined)
        return Comparison(operator.at, cast(Operator, operator.text), left, right)

    def _listed(self, left: Node, combined: Token) -> Test | None:
        """The condition that ``left`` is one of the values in a list, or none of them; None where
        no list follows."""
        words = [token.text for token in self._tokens[self._next : self._next + 3]]
        negated = words[:1] == ["not"]
        if words[negated : negated + 2] != ["in", "("]:
            return None
        if combined.text in _COMBINING:
            raise compared_first(combined)
        self._next += negated
        at = self._take().at
        self._take()
        parts = [Comparison(at, "==", left, self.value())]
        while self._accept(","):
            parts.append(Comparison(at, "==", left, self.value()))
        self._expect(")", "")
        test = parts[0] if len(parts) == 1 else Junction("or", tuple(parts))
        return Negation(test) if negated else test

    def value(self) -> Node:
        with self._deeper():
            return self._binary(0)

    def _binary(self, level: int) -> Node:
        """Operands of the signs of a level, joined from left to right; a higher one binds more."""
        if level == len(_LEVELS):
            return self._sum()
        node = self._binary(level + 1)
        while self._token.kind == "sign" and self._token.text in _LEVELS[level]:
            sign = self._take()
            node = Binary(sign.at, cast(Sign, sign.text), node, self._binary(level + 1))
            self._lengthen()
        return node

    def _sum(self) -> Node:
        node = self._product()
        while self._token.kind == "sign" and self._token.text in "+-":
            sign = self._take()
            right = self._product()
            node = Sum(sign.at, node, right, taken=sign.text == "-")
            self._lengthen()
        return node

    def _product(self) -> Node:
        node = self._unary()
        while self._token.kind == "sign" and self._token.text in ("*", "/", "%"):
            sign = self._take()
            node = Binary(sign.at, cast(Sign, sign.text), node, self._unary())
            self._lengthen()
        return node

    def _unary(self) -> Node:
        with self._deeper():
            token = self._token
            if self._accept("*"):
                return Dereference(token.at, self._unary())
            if self._accept("-"):
                return _negative(token.at, self._unary())
            if self._accept("~"):
                return Binary(token.at, "^", self._unary(), Number(token.at, -1))
            if token.text == "(" and self._tokens[self._next + 1].text in TYPE_WORDS:
                self._take()
                type = self._type()
                self._expect(")")
                return Cast(token.at, type, self._unary())
            if (named := named_cast(self._tokens, self._next)) is not None:
                while not self._accept(")"):
                    self._take()
                return Cast(token.at, named, self._unary())
            return self._postfix()

    def _postfix(self) -> Node:
        node = self._primary()
        while self._token.kind == "sign":
            token = self._token
            if self._accept("->"):
                node = self._member(Dereference(token.at, node))
            elif self._accept("."):
                node = self._member(node)
            elif self._accept("["):
                node = Dereference(token.at, node, self._index(), subscript=True)
                self._expect("]")
            else:
                break
            self._lengthen()
        return node

    def _member(self, of: Node) -> Node:
        token = self._take()
        if token.kind != "name":
            raise ExpressionError(token.at, "the name of a member is expected here", "node->key")
        if (called := self._accept("(")) and not self._accept(")"):
            raise ExpressionError(token.at, "methods cannot be called", "name a member: node->key")
        return Field(token.at, of, token.text, called)

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "number":
            return read_number(token)
        if token.kind == "string":
            return Quoted(token.at, self._unescaped(token))
        if token.kind == "character":
            return Number(token.at, self._unescaped(token)[0], "character")
        if token.text == "(":
            node = self.value()
            self._expect(")")
            return node
        if token.kind == "name" and self._token.text == "(":
            return self._function(token)
        if token.kind == "name" and token.text not in RESERVED:
            return Name(token.at, token.text)
        raise missing_value(token, self._before)

    def _function(self, token: Token) -> Node:
        self._take()
        if token.text == "reg":
            name = self._take()
            if name.kind != "string":
                raise ExpressionError(name.at, "reg() wants a register's name", 'write reg("ax")')
            self._expect(")", "")
            return Register(name.at, self._unescaped(name).decode(errors="replace"))
        if token.text not in ("str", "buf", "after", "len"):
            raise ExpressionError(
                token.at, f"{token.text}() is not known", "there are str, buf, len, after and reg"
            )
        start = self.value()
        if token.text in ("after", "len"):
            self._expect(")", "")
            return (After if token.text == "after" else LengthOf)(token.at, start)
        length = self.value() if self._accept(",") else None
        if length is None and token.text == "buf":
            raise ExpressionError(self._token.at, "buf() wants a length", "write buf(arg0, 16)")
        self._expect(")", "")
        return TextOf(token.at, start, length, token.text == "buf")

    def _type(self) -> Type:
        """The type named next; stars may follow its name."""
        at, words = self._token.at, []
        while self._token.text in TYPE_WORDS:
            words.append(self._take().text)
        words = [word for word in words if word not in QUALIFIERS]
        type = find_type(words)
        if type is None and words != ["void"]:
            raise unknown_type(at, " ".join(words))
        while self._accept("*"):
            space = "" if type is not None and type.name.endswith("*") else " "
            name = f"{type.name if type else 'void'}{space}*"
            type = Pointer(name, 8, type)
        if type is None:
            raise ExpressionError(at, "void has no values", "write (void *)")
        return type

    def _index(self) -> int:
        negative = self._accept("-")
        token = self._take()
        if token.kind != "number":
            raise ExpressionError(
                token.at, "only a number can be an index", "write ptr[2], or *(ptr + n)"
            )
        return -read_integer(token) if negative else read_integer(token)


def _negative(at: int, node: Node) -> Node:
    if isinstance(node, Number) and node.form == "real":
        return replace(node, at=at, value=-node.value)
    return Binary(at, "*", node, Number(at, -1))

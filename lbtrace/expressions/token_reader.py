"""Takes the tokens of an expression one by one, for the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lbtrace.expressions.hints import Asked
from lbtrace.expressions.mistakes import unclosed, unexpected
from lbtrace.expressions.tokens import Token, tokens
from lbtrace.expressions.tree import ExpressionError

DEPTH = 50
"""Parentheses, operators and the like that may be nested."""

CHAINED = 100
"""Sums, products and steps to members, which may be nested as well."""


_ESCAPES = {
    **{"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"},
    "e": "\x1b",
}


class TokenReader:
    """Those of ``source``, the value of the option ``asked``. Raises `ExpressionError`."""

    def __init__(self, source: str, asked: Asked) -> None:
        self._source = source
        self._asked: Asked = asked
        self._tokens = tokens(source)
        self._next = 0
        self._depth = 0
        self._chained = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    @property
    def _before(self) -> Token | None:
        return self._tokens[self._next - 1] if self._next else None

    def _take(self) -> Token:
        token = self._token
        if token.kind != "end":
            self._next += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._token.text == text and self._token.kind in ("sign", "name"):
            self._next += 1
            return True
        return False

    def _expect(self, text: str, asked: Asked | None = None, *, compared: bool = False) -> None:
        if self._accept(text):
            return
        if text == ")" and self._token.kind == "end":
            raise unclosed(self._tokens)
        known = self._asked if asked is None else asked
        raise unexpected(self._before, self._token, known, text, compared=compared)

    def _unescaped(self, token: Token) -> bytes:
        def replaced(match: re.Match[str]) -> str:
            if match[1]:
                return chr(int(match[1], 16) | (0xDC00 if int(match[1], 16) > 0x7F else 0))
            return _ESCAPES.get(match[2], match[2])

        text = re.sub(r"\\(?:x([0-9a-fA-F]{2})|(.))", replaced, token.text[1:-1])
        try:
            raw = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ExpressionError(
                token.at, "this text is no Unicode", r"write bytes as \xff"
            ) from None
        if token.kind == "character" and len(raw) != 1:
            raise ExpressionError(
                token.at, "a character is one byte", "compare longer text with strings"
            )
        return raw

    def _lengthen(self) -> None:
        """One more operator in a row, each of which holds what precedes it."""
        self._chained += 1
        if self._chained > CHAINED:
            raise ExpressionError(
                self._token.at,
                f"this is too long: more than {CHAINED} operators",
                "write it shorter",
            )

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > DEPTH:
            raise ExpressionError(self._token.at, "too deeply nested", "write it shorter")
        try:
            yield
        finally:
            self._depth -= 1

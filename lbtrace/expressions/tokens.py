"""The words and signs of an expression."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.expressions.hints import IN_A_SHELL, hint_for
from lbtrace.expressions.tree import ExpressionError
from lbtrace.text import in_quotes

LENGTH = 400
"""Words and signs of an expression: more than sixteen comparisons of sixteen values need."""

Kind: TypeAlias = Literal["number", "name", "string", "character", "sign", "end"]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>0[xX][0-9a-fA-F]+|0[0-7]+
                |(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|(?<![\w)\]])\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
            (?P<unit>ns|us|ms|s)?(?![\w.])
      | (?P<name>(?:[\w+-]+\.(?:[chmd]|cc|cpp|cxx|c\+\+|hh|hpp|hxx|rs|go|mm|f90|zig)::[^\W\d]\w*
                  |(?:::)?\$?[^\W\d][\w$]*(?:::[^\W\d]\w*)*))
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<character>'(?:[^'\\]|\\.[0-9a-fA-F]{0,2})')
      | (?P<sign>->|<<|>>|==|!=|<=|>=|&&|\|\||[-+*/%&|^~.,()\[\]<>=!])
      )""",
    re.VERBOSE,
)
_PLACE = re.compile(r"\s*(?P<place>0|[1-9][0-9]*)(?!\w)")
"""A member of a tuple, where that of a record has its name: ``pair.0``."""
_OF_TEMPLATE = re.compile(
    r"""\s*(?P<name>(?:::)?[^\W\d][\w:]*)
        <(?:(?!\b(?:and|or|not)\b)[\w\s:,<>*])*>
        (?P<rest>::[^\W\d][\w:]*)""",
    re.VERBOSE,
)
_NO_NUMBER = re.compile(r"[0-9][\w.]*")
_NO_CHARACTER = re.compile(r"'((?:[^'\\]|\\.)*)'")
_KINDS: tuple[Kind, ...] = ("number", "name", "string", "character", "sign")
RESERVED = frozenset({"and", "or", "not", "startswith"})
_WORDS = {"&&": "and", "||": "or", "!": "not"}


class Token(Struct, frozen=True):
    """A word or sign that begins at character ``at``. A word with another ``spelling`` stands there
    as that: ``!`` for ``not``."""

    at: int
    kind: Kind
    text: str
    unit: str = ""
    spelling: str = ""

    @property
    def written(self) -> str:
        """What stands in the expression."""
        return self.spelling or self.text


def tokens(source: str) -> list[Token]:
    """Return what ``source`` is made of. Raises `ExpressionError` at what means nothing."""
    found: list[Token] = []
    position, end = 0, len(source.rstrip())
    while position < end:
        if found and found[-1].kind == "sign" and found[-1].text in (".", "->"):
            if place := _PLACE.match(source, position):
                position, number = place.end(), place["place"]
                found.append(Token(place.start("place"), "name", f"__{number}", spelling=number))
                continue
        elif named := _OF_TEMPLATE.match(source, position):
            what = "the arguments of a template do not belong to the name of a constant"
            raise ExpressionError(named.end("name"), what, f"write {named['name']}{named['rest']}")
        match = _TOKEN.match(source, position)
        if match is None:
            at = end - len(source[position:end].lstrip())
            if number := _NO_NUMBER.match(source, at):
                hint = "write 12, 0x1f, 1.5, 2e-3, or a time in ns, us, ms, s: 1.5ms"
                raise ExpressionError(at, f"{number[0]} is not a number", hint)
            if quoted := _NO_CHARACTER.match(source, at):
                raise _several_characters(at, quoted[1])
            what = (
                "a string without end"
                if source[at] in "\"'"
                else f"{in_quotes(source[at])} means nothing"
            )
            raise ExpressionError(at, f"{what} here", hint_for(source[at]))
        kind = next(k for k in _KINDS if match[k] is not None)
        word = match[kind]
        at, position = match.start(kind), match.end()
        spelling = word if word in _WORDS else ""
        if spelling:
            kind, word = "name", _WORDS[word]
        found.append(Token(at, kind, word, match["unit"] or "", spelling))
        if len(found) > LENGTH:
            raise ExpressionError(
                at, f"this is too long: more than {LENGTH} words and signs", "write it shorter"
            )
    found.append(Token(end, "end", ""))
    return found


def _several_characters(at: int, quoted: str) -> ExpressionError:
    """Return what is wrong where text is ``quoted`` as one character is."""
    text = re.sub(r'\\?"', r"\"", quoted)
    hint = f'text is quoted: "{text}"{IN_A_SHELL}'
    return ExpressionError(at, f"'{quoted}' is not one character", hint)

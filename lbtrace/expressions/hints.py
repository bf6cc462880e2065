"""What to write instead of a word or sign of an expression that is not understood."""

from __future__ import annotations

from typing import Literal, TypeAlias

from lbtrace.errors import option

Asked: TypeAlias = Literal["arg", "where", ""]
"""The option that an expression is the value of; empty inside of a function's parentheses."""

COMPUTING = "values are computed as in C, by + - * / % & | ^ ~ << >>: n * 2 + 1"
COMPARING = 'compare with ==, !=, <, <=, >, >=, startswith or in: n == 5, name in ("a", "b")'
JOINING = "join comparisons by and, or: n > 1 and arg1 == 2"
NAMING = 'a value goes by its name, arg0 or reg("ax")'
CLOSING = "close what was opened, or leave this out"

IN_A_SHELL = "; in a shell, the whole expression stands in single quotes"

WORDS = {
    "startswith": 'write startswith: name startswith "oc"',
    "and": "write and: n > 1 and arg1 == 2",
    "or": "write or: n > 1 or arg1 == 2",
    "not": "write not before the whole comparison: not n == 1",
}
"""The words between values, and how each is used."""

_SIGNS = ("&&", "||", "!")
"""Other spellings of ``and``, ``or`` and ``not``."""

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in", "is", "contains", "like", "eq", "lt", "gt")

_OF_BOTH = {
    "?": COMPUTING,
    **dict.fromkeys("@$#", NAMING),
    **dict.fromkeys("\"'", "text is written \"abc\", one character 'a'"),
    "as": "a cast stands before its value: (long)n",
    ")": "no parenthesis was opened",
}
_HINTS: dict[Asked, dict[str, str]] = {
    "where": {
        **dict.fromkeys(("=", *_COMPARISONS[6:]), COMPARING),
        **dict.fromkeys(
            ("==", "!=", "<", "<=", ">", ">="), "join comparisons by and: 1 < n and n < 3"
        ),
        **dict.fromkeys((",", "xor"), JOINING),
        "!": "write != in one word, or ! before the whole comparison: n != 1, !(n == 1)",
    },
    "arg": {
        **dict.fromkeys(
            (*_COMPARISONS, *WORDS, *_SIGNS),
            f"{option('arg')} shows values, {option('where')} compares them",
        ),
        ",": f"write {option('arg')} once for each value",
        "=": "a name stands before its value: sum=n + 1",
    },
    "": {},
}


def hint_for(word: str, asked: Asked = "", *, otherwise: str = "") -> str:
    """Return what to write instead of ``word`` where ``asked`` is the option: what is known of it,
    the word that is almost the same, or ``otherwise``."""
    known = _HINTS[asked].get(word) or _OF_BOTH.get(word)
    if known is None and asked == "where" and word.isidentifier():
        from difflib import get_close_matches  # imported here because only a wrong word needs it

        near = get_close_matches(word.casefold(), WORDS, 1)
        known = WORDS[near[0]] if near else None
    joining = "join values by + - * / &, comparisons by and, or: n + 1 > 5 and arg1 == 2"
    if asked == "arg":
        joining = COMPUTING
    return known or otherwise or (COMPARING if word.isidentifier() and asked != "arg" else joining)

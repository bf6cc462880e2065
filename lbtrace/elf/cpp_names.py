"""Names of C++ as people write them: ``std::string`` for what compilers write in 70 characters.

Left out are the arguments of the standard library's templates that are what they are by default,
the library's own namespaces for its versions, and the tags of ABIs.
"""

from __future__ import annotations

import re
from functools import lru_cache

VERSIONS = re.compile(
    r"\[abi:\w+\]|(?<=std::)(?:__cxx11|__1|__2|__ndk1|__fs|_V2)::|(?<=::)(?:__cxx11|_V2|__fs)::"
)
"""Tags of ABIs, and inline namespaces: of libstdc++, libc++ and Android's."""

SUFFIXED = re.compile(r"(-?\d+)[uU]?[lL]{1,2}|(-?\d+)[uU]")
"""A number as an argument of a template: its type is the parameter's."""

TEXTS = {
    f"std::basic_{name}<{char}>": f"std::{prefix}{name}"
    for prefix, char in (
        ("", "char"),
        ("w", "wchar_t"),
        ("u8", "char8_t"),
        ("u16", "char16_t"),
        ("u32", "char32_t"),
    )
    for name in (
        *("string", "string_view", "ostream", "istream", "iostream", "ios", "streambuf", "filebuf"),
        *("ostringstream", "istringstream", "stringstream", "stringbuf"),
        *("ofstream", "ifstream", "fstream", "regex"),
    )
}
"""Typedefs of the standard library."""

ALWAYS = ("std::allocator<", "std::char_traits<", "std::regex_traits<")
"""Arguments that nobody writes where these are the last."""

OF_FIRST = ("std::less", "std::hash", "std::equal_to", "std::default_delete")
"""Those that have the template's first argument as their own: of one that has another, as of
``std::less<void>``, that is a choice."""

VALUES = {"std::span": "18446744073709551615", "std::chrono::duration": "std::ratio<1, 1>"}
"""Defaults that do not depend on other arguments."""

CONTAINERS = {
    "std::queue": "std::deque",
    "std::stack": "std::deque",
    "std::priority_queue": "std::vector",
}
"""Adapters, and what they adapt by default."""

STANDARD = frozenset(
    {
        *("basic_string", "basic_string_view", "vector", "deque", "list", "forward_list"),
        *("set", "multiset", "map", "multimap", "unordered_set", "unordered_multiset"),
        *("unordered_map", "unordered_multimap", "queue", "stack", "priority_queue"),
        *("unique_ptr", "span", "basic_ostream", "basic_istream", "basic_iostream", "basic_regex"),
    }
)
"""Templates with arguments that have defaults."""

ELEMENTS = frozenset({"std::pair", "std::tuple", "std::variant"})
"""Those of whose arguments none has a default."""

OF_NAMES = "".join(chr(code) for code in range(128) if chr(code).isalnum()) + "_:"
"""What names consist of, as far as it is ASCII."""

BRACKETS = {"<": ">", "(": ")", "[": "]", "{": "}"}

OPERATOR = re.compile(r"operator\s*(<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<(?!.*>)|<(?=<)|<|>)")

MARKED = re.compile(r"__|\[abi:|_V2")
"""What is in every name that has something of `VERSIONS`."""

CHANGED = re.compile(r"std::|\d[uUlL]|\s[>,]|<\s|,(?! \S)")
"""What is in every name with a template that is written otherwise."""

SPECIAL = re.compile(r"operator|[<>()\[\]{}]")
"""What is not copied as it stands."""

BETWEEN = re.compile(r"->|[<>()\[\]{},]")
"""What decides where an argument ends."""

DEEPEST = 64
"""Templates within templates; beyond, a name stays as it is."""


@lru_cache(maxsize=1 << 16)
def shorten(name: str) -> str:
    """Return the name of a type or function of C++, or a declaration, as people write it."""
    plain = VERSIONS.sub("", VERSIONS.sub("", name)) if MARKED.search(name) else name
    if "<" not in plain or not CHANGED.search(plain):
        return plain
    try:
        made, end = _read(plain, 0, "", DEEPEST)
    except ValueError:
        return plain
    return made if end == len(plain) else plain


def shorten_unqualified(name: str) -> str:
    """Return the same for the name that debug information has of a type, without what qualifies
    it."""
    if name.partition("<")[0] in STANDARD:
        return shorten(f"std::{name}").removeprefix("std::")
    return shorten(name)


def _read(text: str, at: int, closing: str, depth: int) -> tuple[str, int]:
    """Read up to a bracket that closes, or the end. Raises `ValueError`."""
    if not depth:
        raise ValueError("too deep")
    made = ""
    while special := SPECIAL.search(text, at):
        made, at = made + text[at : special.start()], special.start()
        character = special[0]
        if character == "operator":
            found = OPERATOR.match(text, at) or special
            made, at = made + found[0], found.end()
            continue
        if character == closing:
            return made, at
        if character in ")>]}":
            if character == ">" and made.endswith("-"):  # a result type: ``->``
                made, at = made + character, at + 1
                continue
            raise ValueError("unbalanced")
        if character == "<":
            made, at = _template(text, at + 1, made, depth)
        else:
            inner, at = _read(text, at + 1, BRACKETS[character], depth - 1)
            if at >= len(text):
                raise ValueError("unbalanced")
            made, at = f"{made}{character}{inner}{text[at]}", at + 1
    if closing:
        raise ValueError("unbalanced")
    return made + text[at:], len(text)


def _template(text: str, at: int, before: str, depth: int) -> tuple[str, int]:
    """A template behind ``before``, which ends with its name, and its arguments."""
    inner, at = _read(text, at, ">", depth - 1)
    if at >= len(text):
        raise ValueError("unbalanced")
    arguments = _split(inner)
    rest = before.rstrip(OF_NAMES)
    while rest[-1:].isalnum():  # a letter that is not one of ASCII
        rest = rest[:-1].rstrip(OF_NAMES)
    name = before[len(rest) :]
    arguments = _needed(name, [_unsuffixed(each) for each in arguments])
    written = f"{name}<{', '.join(arguments)}>"
    written = TEXTS.get(written, written)
    return before[: len(before) - len(name)] + written, at + 1


def _unsuffixed(argument: str) -> str:
    number = SUFFIXED.fullmatch(argument) if argument.endswith(("u", "U", "l", "L")) else None
    return number[1] or number[2] if number else argument


def _split(inner: str) -> list[str]:
    """Arguments, at each comma outside of brackets."""
    if "," not in inner:
        return [inner.strip()]
    found, depth, start = list[str](), 0, 0
    for mark in BETWEEN.finditer(inner):
        character = mark[0]
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and not depth:
            found.append(inner[start : mark.start()].strip())
            start = mark.end()
    return [*found, inner[start:].strip()]


def _needed(name: str, arguments: list[str]) -> list[str]:
    """The arguments of a template, without what they are by default: of one that is not the
    standard library's, an allocator alone."""
    while len(arguments) > 1 and name not in ELEMENTS:
        last, first = arguments[-1], arguments[0]
        default = f"{CONTAINERS[name]}<{first}>" if name in CONTAINERS else VALUES.get(name)
        head, _, rest = last.partition("<")
        standard = name.startswith("std::")
        alike = OF_FIRST if standard else ("std::allocator",)
        own = head in alike and rest.endswith(">") and _same(rest[:-1], first)
        if not own and not (standard and (last.startswith(ALWAYS) or last == default)):
            break
        arguments = arguments[:-1]
    return arguments


def _same(one: str, other: str) -> bool:
    """Whether types are the same, wherever ``const`` stands and spaces are."""
    return _normal(one) == _normal(other)


def _normal(type: str) -> str:
    const = re.sub(r"^const (.*?)(?=[*&]|$)", r"\1 const", type)
    return re.sub(r"\s+", "", const)

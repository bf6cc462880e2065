"""The names that tracepoints print for values: ``__print_symbolic`` and ``__print_flags`` in the
``print fmt`` of their formats (include/trace/stages/stage3_trace_output.h of the kernel)."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

TABLE = re.compile(r"__print_(symbolic|flags)(?:64|_u64)?\(")
FIELD = re.compile(r"\(*\s*REC->(\w+)[\s)]*(?:&(.*))?", re.S)
"""A field, or some bits of it."""
OTHERWISE = re.compile(r'\s*\)?\s*:\s*"([^"]+)"')
"""What is printed where no flag is set."""
ALSO = re.compile(r'REC->(\w+)\s*&([^?"]+)\?\s*"\+"')
"""A flag that is printed as a plus: ``R+``, of what was preempted."""

ROW = re.compile(r'\s*\{([^"]*),\s*"([^"]*(?:"\s*"[^"]*)*)"\s*\}\s*')
"""A number, and its name in one literal or several."""
DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|L)?(p\w*|[a-zA-Z])")
INTERNET = re.compile(r"pI4|pi4|pI6c?|pIS[pc]*")
VALUE = re.compile(r"[\s(]*(?:\([\w\s*]+\)[\s(]*)*REC->(\w+)[\s)]*")

CAST = re.compile(r"\(\s*(?:(?:unsigned|signed|long|int|short|char|\w+_t|(?:__)?[us]\d+)\s*)+\)")
SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
NUMBER = re.compile(r"[0-9a-fA-FxX()|&~^<>+*\s-]+")
LONGEST = 2000
"""Characters of a number that are computed."""

TWO: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.LShift: lambda a, b: a << b if b < 64 else 0, ast.RShift: lambda a, b: a >> b,
}  # fmt: skip
ONE: dict[type[ast.unaryop], Callable[[int], int]] = {
    ast.Invert: operator.invert,
    ast.USub: operator.neg,
}


class Table(Struct, frozen=True):
    """Names of values: of ``flags``, or each of a whole number."""

    flags: bool
    names: tuple[tuple[int, str], ...]


def read_tables(printed: str) -> dict[str, Table]:
    """Return the names of values by field, as far as ``printed``, a ``print fmt``, tells."""
    found: dict[str, Table] = {}
    for start in TABLE.finditer(printed):
        parts, end = _split(printed, start.end())
        field = FIELD.fullmatch(parts[0].strip())
        if field is None or (field[2] and _number(_balanced(field[2])) is None):
            continue
        names = dict(_names(parts[1:]))
        flags = start[1] == "flags"
        if flags and (otherwise := OTHERWISE.match(printed, end)):
            names.setdefault(0, otherwise[1])
            for also in ALSO.finditer(printed, end):
                bit = _number(_balanced(also[2]))
                if also[1] == field[1] and bit:
                    names.setdefault(bit, f"{otherwise[1]}+")
        if names:
            found.setdefault(field[1], Table(flags, tuple(names.items())))
    return found


def find_hexadecimal(printed: str) -> frozenset[str]:
    """Return the fields that ``printed`` writes as addresses or in hexadecimal."""
    return frozenset(name for how, name in _directives(printed) if how[0] in "pxX")


def find_internet(printed: str) -> frozenset[str]:
    """Return the fields that ``printed`` writes as addresses of IPv4, IPv6 and sockets."""
    return frozenset(name for how, name in _directives(printed) if INTERNET.fullmatch(how))


def _directives(printed: str) -> Iterator[tuple[str, str]]:
    """How fields are written, each with its name."""
    parts, _ = _split(printed, 0)
    ways = DIRECTIVE.findall(parts[0].replace("%%", ""))
    for how, part in zip(ways, parts[1:], strict=False):
        if field := VALUE.fullmatch(part.strip()):
            yield how, field[1]


def _split(text: str, start: int) -> tuple[list[str], int]:
    """The arguments that begin at ``start``, and where what follows them begins."""
    parts, depth, quoted, begun = list[str](), 0, False, start
    for at in range(start, len(text)):
        letter = text[at]
        if letter == '"' and text[at - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "({":
            depth += 1
        elif letter in ")}":
            depth -= 1
            if depth < 0:
                return [*parts, text[begun:at]], at + 1
        elif letter == "," and not depth:
            parts.append(text[begun:at])
            begun = at + 1
    return [*parts, text[begun:]], len(text)


def _names(entries: list[str]) -> Iterator[tuple[int, str]]:
    """The rows ``{ 1, "NAME" }`` whose number is known."""
    for entry in entries:
        found = ROW.fullmatch(entry)
        number = _number(found[1]) if found else None
        if found and number is not None:
            yield number, "".join(found[2].split('"')[::2])


def _balanced(text: str) -> str:
    """``text`` without parentheses that close what is before it."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return text[:at]
    return text


def _number(written: str) -> int | None:
    """What an expression of C amounts to; None where that is not known here."""
    plain = SUFFIX.sub(r"\1", CAST.sub("", written)).strip()
    if len(plain) > LONGEST or not NUMBER.fullmatch(plain):
        return None
    try:
        return _compute(ast.parse(" ".join(plain.split()), mode="eval").body)
    except (SyntaxError, ValueError, KeyError, RecursionError):
        return None


def _compute(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.BinOp():
            return TWO[type(node.op)](_compute(node.left), _compute(node.right))
        case ast.UnaryOp():
            return ONE[type(node.op)](_compute(node.operand))
    raise ValueError

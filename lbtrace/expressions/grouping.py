"""What ``--by`` and columns such as ``sum(size)`` ask for: by which values is aggregated, and of
which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lbtrace.errors import UsageError, option
from lbtrace.expressions.syntax import argument
from lbtrace.expressions.tree import ArgExpression
from lbtrace.model import Column
from lbtrace.model.wire_limits import MEASURES

KEYS = 4
"""Values by which is aggregated, at most."""

OF_CALLS = ("func", "pid")
"""What every key has."""

COLUMN = re.compile(r"(sum|min|max|avg)\((.+)\)", re.DOTALL)


def parse_keys(sources: Sequence[str]) -> tuple[tuple[str, ...], tuple[ArgExpression, ...]]:
    """Return the names of keys, `OF_CALLS` among them, and the others. Raises `UsageError`."""
    texts = [text for source in sources for text in _split(source)]
    if len(texts) > KEYS:
        raise UsageError(f"{option('by')} takes {KEYS} values at most", "name the first of them")
    keys = [argument(text, "by") for text in texts if text not in OF_CALLS]
    found = {key.source: key.name for key in keys}
    names = tuple(found.get(text, text) for text in texts)
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{option('by')} names {name} twice", "give each a name: k=node->key")
    return names, tuple(keys)


def parse_columns(columns: Sequence[str]) -> tuple[tuple[Column, ...], tuple[ArgExpression, ...]]:
    """Return the columns, and the values of which they are. Raises `UsageError`."""
    found, measured = [], dict[str, ArgExpression]()
    for text in columns:
        match = COLUMN.fullmatch(text.strip())
        if match is None:
            raise UsageError(f"{text} is no column", "write sum(n), min(n), max(n) or avg(n)")
        how = match[1]
        for source in _split(match[2]):
            measured.setdefault(source, argument(source, how))
            name, place = measured[source].name, [*measured].index(source)
            found.append(Column(how, name, place))  # type: ignore[arg-type]
    if len(measured) > MEASURES:
        raise UsageError(
            f"no more than {MEASURES} different values have columns", "trace again for the others"
        )
    return tuple(found), tuple(measured.values())


def _split(source: str) -> Iterator[str]:
    """The parts between commas that are neither in parentheses nor in quotation marks."""
    depth, quoted, begin = 0, False, 0
    for at, character in enumerate(source):
        quoted ^= character == '"'
        depth += 0 if quoted else (character in "([") - (character in ")]")
        if character == "," and not (depth or quoted):
            yield source[begin:at].strip()
            begin = at + 1
    yield source[begin:].strip()

"""Tables on terminals that are too narrow: columns that give way, so that those of the key stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lbtrace.text import shortened

LAST = 24
"""Characters of the last column that are to be seen."""

LEAST = 8
"""Characters to which another column of the key is cut."""


def narrowed(
    columns: Sequence[Sequence[str]], keys: int, spare: Iterable[str], width: int
) -> list[Sequence[str]]:
    """Return the columns that have room in a ``width``, each with its heading. First those of
    ``spare`` headings give way, then of the last, the ``keys``, what does not fit is cut. The last
    of all may be cut by the terminal."""
    made = [*columns]

    def over() -> int:
        *others, last = (max(map(len, column)) for column in made)
        return sum(others) + 2 * len(others) + min(last, LAST) - width

    for heading in spare if keys else ():
        if over() <= 0:
            break
        at = next((n for n, column in enumerate(made[:-keys]) if column[0] == heading), -1)
        if at >= 0:
            del made[at]
    of_keys = range(len(made) - keys, len(made) - 1)
    for number in sorted(of_keys, key=lambda n: -max(map(len, made[n]))):
        if (excess := over()) > 0:
            most = max(LEAST, max(map(len, made[number])) - excess)
            made[number] = [
                text if len(text) <= most else shortened(text, most - 3) for text in made[number]
            ]
    return made

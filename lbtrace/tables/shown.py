"""Tables for programs in Python, which show themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lbtrace.errors import DependencyError
from lbtrace.tables.table import Table, flat, lines

if TYPE_CHECKING:
    import pandas

SHOWN = 20
"""Rows that are shown of a table that is printed."""


class ShownTable(ABC):
    """A table of `rows`. ``print(table)`` shows the first ones, a notebook as well."""

    @property
    @abstractmethod
    def rows(self) -> list[Any]:
        """The rows."""

    @property
    @abstractmethod
    def _table(self) -> Table:
        """How they are shown."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame of pandas: columns of the key, the count, the others.
        Raises `DependencyError` where pandas is not installed (``pip install 'lbtrace[pandas]'``).
        """
        try:
            import pandas
        except ImportError:
            raise DependencyError(
                "pandas is not installed, or cannot be imported", "pip install 'lbtrace[pandas]'"
            ) from None
        names, values = flat(self._table, self.rows)
        return pandas.DataFrame(values, columns=names)

    def __repr__(self) -> str:
        rows = self.rows
        more = [f"and {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []
        return "\n".join([*self._lines(rows[:SHOWN]), *more])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"

    def _lines(self, rows: Sequence[Any]) -> list[str]:
        return [*lines(self._table, rows)]

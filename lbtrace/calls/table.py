"""Makes tables of calls for pyarrow and pandas: a row for each call, a column for each
argument."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO

from lbtrace.errors import DependencyError, UsageError
from lbtrace.model import Call, Datum, Form, Unreadable, keys_of
from lbtrace.validation import check_choice, wrong_kind
from lbtrace.values.datum import Partial, column_of
from lbtrace.values.notation import encodable, text

if TYPE_CHECKING:
    import pandas
    import pyarrow

CHUNK = 1 << 16
"""Calls that are converted to Arrow at a time."""

COLUMNS = 1000
"""Arguments of different names that a table may have: each is a column of every row."""

EXAMPLE = 'read_capture("run.lbt").calls()'

NAMES = ("name", "binary", "thread_name")
"""Columns of text from files and programs, which need not be UTF-8."""


def to_arrow(calls: Iterable[Call]) -> pyarrow.Table:
    """Return ``calls`` as a table of pyarrow (https://arrow.apache.org), a row each, in their
    order.

    Its columns are ``name``, ``binary`` (the path of the function's file), ``pid``, ``tid``,
    ``thread_name``, ``goroutine``, ``depth``, ``start`` (time since boot, CLOCK_MONOTONIC) and
    ``duration``, both ``duration[ns]``, as ``blocked`` and ``runnable``, where they are known of
    some, ``end``, ``lost``, ``result``, and for each name of an argument ``args.NAME``. Integers
    are 64 bits wide, addresses unsigned, strings and names of constants are strings, records
    structs, arrays lists. Of a pointer that was followed the column holds what is there. What could
    not be read, and arguments that a call does not have, are null. Where a column holds values that
    no such type has in common, or records and arrays that were not read whole, each value is
    written as ``str(call)`` writes it.

    Raises `DependencyError` where pyarrow is not installed (``pip install 'lbtrace[arrow]'``),
    `UsageError` where ``calls`` are something else, or have too many arguments of different names.
    """
    _check_calls("to_arrow", calls)
    arrow = find_arrow("arrow")
    fixed: dict[str, Any] = {
        **dict.fromkeys(("name", "binary"), arrow.dictionary(arrow.int32(), arrow.string())),
        **dict.fromkeys(("pid", "tid"), arrow.int32()),
        "thread_name": arrow.dictionary(arrow.int32(), arrow.string()),
        "goroutine": arrow.uint64(),
        "depth": arrow.int32(),
        **dict.fromkeys(TIMES, arrow.duration("ns")),
        "end": arrow.dictionary(arrow.int32(), arrow.string()),
        "lost": arrow.int64(),
    }
    chunks: dict[str, list[Any]] = {name: [] for name in fixed}
    arguments = ArgumentColumns()
    results: list[Datum] = []
    waiting: list[Call] = []

    def settle() -> None:
        for name, kind in fixed.items():
            facts = [*map(attrgetter(name), waiting)]
            if name in NAMES:
                facts = [*map(encodable, facts)]
            chunks[name].append(arrow.array(facts, kind))
        waiting.clear()

    for row, call in enumerate(calls):
        if not isinstance(call, Call):
            raise wrong_kind(f"calls[{row}]", call, "a Call", f"give calls: {EXAMPLE}")
        waiting.append(call)
        results.append(call.result)
        for column, argument in zip(arguments.of(call), call.args, strict=True):
            column.rows.append(row)
            column.values.append(argument.value)
        if len(waiting) == CHUNK:
            settle()
    settle()
    columns: dict[str, Any] = {
        name: arrow.chunked_array(chunks[name], kind) for name, kind in fixed.items()
    }
    for name in ("blocked", "runnable"):
        if columns[name].null_count == len(columns[name]):
            del columns[name]
    columns["result"] = array(arrow, results)
    for name, column in arguments.columns.items():
        columns[f"args.{name}"] = column.array(arrow, len(results))
    return arrow.table(columns)


UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
"""Of times as numbers, in ns."""

TIMES = ("start", "duration", "blocked", "runnable")


def to_pandas(calls: Iterable[Call], *, unit: str = "") -> pandas.DataFrame:
    """Return ``calls`` as a data frame of pandas (https://pandas.pydata.org), a row each.

    The columns are those of `to_arrow`; ``start`` and ``duration`` are ``timedelta64[ns]``,
    names categories, integers that may be missing pandas' nullable ones, records and arrays dicts
    and lists. With a ``unit`` (``ns``,
    ``us``, ``ms``, ``s``) times are numbers of it, and ``start`` counts from the first one: what
    all plots take.

    Raises `DependencyError` where pandas or pyarrow are not installed
    (``pip install 'lbtrace[pandas]'``), `UsageError` as `to_arrow` does.
    """
    _check_calls("to_pandas", calls)
    if unit:
        check_choice("unit", unit, (*UNITS,))
    arrow = find_arrow("pandas")
    try:
        import pandas
    except ImportError as error:
        raise _missing("pandas", "pandas") from error
    kinds = {
        arrow.int64(): pandas.Int64Dtype(),
        arrow.uint64(): pandas.UInt64Dtype(),
        arrow.bool_(): pandas.BooleanDtype(),
    }
    table = to_arrow(calls)
    frame: pandas.DataFrame = table.to_pandas(types_mapper=kinds.get)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if arrow.types.is_nested(column.type):  # pandas makes floats of integers beside a null
            frame[name] = pandas.Series(column.to_pylist(), dtype=object)
    if unit:
        frame["start"] -= frame["start"].min()
        for name in frame.columns.intersection(TIMES):
            frame[name] = frame[name].dt.total_seconds() * (1e9 / UNITS[unit])
    return frame


def _check_calls(function: str, calls: object) -> None:
    """Raise `UsageError` for what a user may mean, but is no iterable of calls."""
    if isinstance(calls, Call):
        raise UsageError(f"calls is one call, {calls}", f"give several: {function}([call])")
    if callable(getattr(calls, "calls", None)):
        hint = f"give its calls: {function}({type(calls).__name__.lower()}.calls())"
        raise wrong_kind("calls", calls, "an iterable of calls", hint)
    if isinstance(calls, str | bytes) or not isinstance(calls, Iterable):
        raise wrong_kind("calls", calls, "an iterable of calls", f"give some: {EXAMPLE}")


class ArgumentColumns:
    """The columns of all arguments, by name."""

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}
        self._known: dict[tuple[str, ...], list[Column]] = {}

    def of(self, call: Call) -> list[Column]:
        """Return those of the arguments of ``call``. Raises `UsageError` where they become too
        many."""
        names = tuple([argument.name for argument in call.args])
        if (found := self._known.get(names)) is None:
            keys = map(encodable, keys_of(names))
            found = self._known[names] = [self.columns.setdefault(k, Column()) for k in keys]
            if len(self.columns) > COLUMNS:
                raise UsageError(
                    f"the arguments have more than {COLUMNS:,} names, each of which is a column",
                    "choose some: to_arrow(call for call in calls if call.name == ...)",
                )
        return found


class Column:
    """The values of an argument, and in which rows they are."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.values: list[Datum] = []

    def array(self, arrow: Any, rows: int) -> Any:
        """Of all ``rows``, null where there is no value."""
        found = array(arrow, self.values)
        if len(self.rows) == rows:
            return found
        indexes: list[int | None] = [None] * rows
        for index, row in enumerate(self.rows):
            indexes[row] = index
        return found.take(arrow.array(indexes, arrow.int64()))


def find_arrow(extra: str) -> Any:
    """Return the package pyarrow, which ``extra`` installs. Raises `DependencyError` without it."""
    try:
        import pyarrow
    except ImportError as error:
        raise _missing("pyarrow", extra) from error
    return pyarrow


def write_parquet(stream: BinaryIO, columns: Mapping[str, Sequence[Datum]]) -> None:
    """Write a Parquet file (https://parquet.apache.org). Raises `DependencyError`."""
    arrow = find_arrow("arrow")
    from pyarrow import parquet  # imported here: takes long, and a trace may fail before

    held = io.BytesIO()
    parquet.write_table(arrow.table({name: array(arrow, c) for name, c in columns.items()}), held)
    left = held.getbuffer()
    while left:
        left = left[stream.write(left) or 0 :]


def _missing(package: str, extra: str) -> DependencyError:
    return DependencyError(
        f"{package} is not installed, or cannot be imported", f"pip install 'lbtrace[{extra}]'"
    )


def array(arrow: Any, values: Sequence[Datum]) -> Any:
    """Return an array of the type that all ``values`` have in common, else of their text."""
    kinds = {_kind_of(value) for value in values} - {""}
    if kinds <= {"integer", "address"}:
        numbers = [*map(column_of, values)]
        for kind in (arrow.uint64(), arrow.int64())[:: 1 if kinds == {"address"} else -1]:
            try:
                return arrow.array(numbers, kind if kinds else arrow.null())
            except (OverflowError, arrow.ArrowInvalid):
                continue
    elif len(kinds) == 1 or kinds & COMPOSED:
        null = "address" if "reference" in kinds else ""  # a null pointer
        try:
            return arrow.array([None if _kind_of(v) == null else column_of(v) for v in values])
        except (Partial, OverflowError, arrow.ArrowInvalid, arrow.ArrowTypeError):
            pass
    return arrow.array([_text(value) for value in values], arrow.string())


COMPOSED = frozenset({"nested", "reference"})

_PLAIN = {int: "integer", bool: "truth", float: "float", str: "text"}


def _kind_of(value: Datum) -> str:
    """What column a value goes into: see `ColumnKind`. ``""`` where there is none."""
    if isinstance(value, Form):
        return "" if isinstance(value, Unreadable) else value.column_kind
    return _PLAIN.get(type(value), "")


def _text(value: Datum) -> str | None:
    if value is None or isinstance(value, Unreadable):
        return None
    return encodable(value) if isinstance(value, str) else text(value)

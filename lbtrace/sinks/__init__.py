"""The output formats: a table with a row for each, and a module for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from lbtrace.errors import UsageError
from lbtrace.text import in_quotes

if TYPE_CHECKING:
    from lbtrace.sinks.base import Sink


class Format:
    """A row of the table: the module of the sink here, so that only the one needed is imported. A
    capture has no sink: it takes batches, not calls."""

    # Written out because the help shows the table, for which msgspec would take too long to import.
    def __init__(self, name: str, suffix: str, help: str, module: str = "", sink: str = "") -> None:
        self.name = name
        self.suffix = suffix
        self.help = help
        self.module = module
        self.sink = sink

    @property
    def is_capture(self) -> bool:
        """Whether this is the capture format, written by `lbtrace.capture`."""
        return not self.sink

    def load(self) -> type[Sink]:
        """Return the sink's class."""
        loaded: type[Sink] = getattr(import_module(f"lbtrace.sinks.{self.module}"), self.sink)
        return loaded


def _table(*rows: Format) -> dict[str, Format]:
    return {row.name: row for row in rows}


FORMATS = _table(
    Format("tree", ".txt", "call tree for a person", "tree", "Tree"),
    Format("racket", ".racket", "as Racket's trace prints", "racket", "Racket"),
    Format("jsonl", ".jsonl", "a JSON object a line", "jsonl", "JsonLines"),
    Format("speedscope", ".speedscope.json", "for speedscope.app", "speedscope", "Speedscope"),
    Format("chrome", ".json", "for Perfetto, chrome://tracing", "chrome", "Chrome"),
    Format("report", ".report", "a table of functions", "report", "Report"),
    Format("folded", ".folded", "stacks for flame graphs", "folded", "Folded"),
    Format("lbt", ".lbt", "capture, for lbtrace export"),
)
TABLES = _table(
    Format("table", ".txt", "table for a person", "tables", "TextTable"),
    Format("json", ".json", "one JSON object", "tables", "JsonTable"),
    Format("csv", ".csv", "comma-separated values", "tables", "CsvTable"),
    Format("parquet", ".parquet", "columns with types, by pyarrow", "parquet", "ParquetTable"),
    FORMATS["lbt"],
)
"""Those of answers that the kernel aggregates."""
STACKS = _table(
    Format("list", ".txt", "stacks for a person", "stacks", "StackList"),
    Format("tree", ".tree", "a tree of callers", "stacks", "StackTree"),
    Format("folded", ".folded", "stacks for flame graphs", "stacks", "FoldedStacks"),
    Format(
        "speedscope", ".speedscope.json", "for speedscope.app", "speedscope", "SpeedscopeStacks"
    ),
    Format("json", ".json", "one JSON object", "stacks", "StackJson"),
    Format("csv", ".csv", "comma-separated values", "stacks", "StackCsv"),
    Format("parquet", ".parquet", "columns with types, by pyarrow", "parquet", "StackParquet"),
    FORMATS["lbt"],
)
"""Those of stacks, which the kernel counts."""
REPORTS = _table(
    Format("table", ".txt", "table for a person", "report", "Report"),
    Format("json", ".json", "one JSON object", "report", "JsonReport"),
    Format("csv", ".csv", "comma-separated values", "report", "CsvReport"),
    Format("parquet", ".parquet", "columns with types, by pyarrow", "parquet", "ParquetReport"),
    FORMATS["lbt"],
)
"""Those of reports."""
EACH = _table(
    Format("list", ".txt", "each with its stack", "each_stack", "EachStack"),
    Format("jsonl", ".jsonl", "a JSON object a line", "each_stack", "EachJson"),
    FORMATS["lbt"],
)
"""Those of each stack by itself."""


def formats_of(action: str) -> dict[str, Format]:
    """Return those in which what an action leads to is shown."""
    return {"send": FORMATS, "stacks": STACKS}.get(action, TABLES)


def format_for(
    name: str | None,
    path: str | None,
    *,
    captures: bool = True,
    formats: Mapping[str, Format] = FORMATS,
) -> Format:
    """Return the format that ``name`` gives, else the suffix of ``path``, else the first one.
    Errors offer that of ``captures``, unless these are what is read.

    Raises `UsageError` for a name or a suffix that is not in the table, and where format and suffix
    disagree about whether the file is a capture.
    """
    offered = [row for row in formats.values() if captures or not row.is_capture]
    if path and os.path.isdir(path):
        suffix = formats[name].suffix if name and name in formats else offered[-1].suffix
        within = os.path.join(path, f"trace{suffix}")
        raise UsageError(f"{path} is a directory", f"name a file in it: {within}")
    by_suffix = next((row for row in formats.values() if path and path.endswith(row.suffix)), None)
    if name is not None:
        if name not in formats:
            raise UsageError(
                f"no format is called {in_quotes(name)}",
                f"choose one of: {', '.join(row.name for row in offered)}",
            )
        chosen = formats[name]
        if by_suffix is not None and by_suffix.is_capture != chosen.is_capture:
            verb = "is" if by_suffix.is_capture else "is not"
            raise UsageError(
                f"--format {name} contradicts the name {path}:"
                f" {by_suffix.suffix} {verb} the suffix of captures",
                "choose another name, or leave --format out",
            )
        return chosen
    if path is None or path == "-" or path.startswith("/dev/"):
        return next(iter(formats.values()))
    if by_suffix is not None:
        return by_suffix
    raise UsageError(
        f"the name {path} does not give the format",
        f"add --format, or a suffix: {', '.join(row.suffix for row in offered)}",
    )

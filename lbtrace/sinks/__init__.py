"""The output formats: a file a format, and this table."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

from lbtrace.errors import UsageError

if TYPE_CHECKING:
    from lbtrace.sinks.base import Sink


class Format(Struct, frozen=True):
    """A row of the table: where the sink lives, so that only the one needed
    is imported. A capture has no sink: it takes batches, not calls."""

    name: str
    suffix: str
    help: str
    module: str = ""
    sink: str = ""

    @property
    def is_capture(self) -> bool:
        """Whether this is the capture format, written by `lbtrace.capture`."""
        return not self.sink

    def load(self) -> type[Sink]:
        """The sink's class."""
        loaded: type[Sink] = getattr(import_module(self.module), self.sink)
        return loaded


FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("tree", ".txt", "call tree for a person", "lbtrace.sinks.tree", "Tree"),
        Format("racket", ".racket", "as Racket's trace prints", "lbtrace.sinks.racket", "Racket"),
        Format("jsonl", ".jsonl", "a JSON object a line", "lbtrace.sinks.jsonl", "JsonLines"),
        Format(
            "chrome", ".json", "for Perfetto, chrome://tracing", "lbtrace.sinks.chrome", "Chrome"
        ),
        Format("lbt", ".lbt", "capture, for lbtrace export"),
    )
}
DEFAULT = "tree"


def format_for(name: str | None, path: str | None) -> Format:
    """The format asked for by ``name``, else by the suffix of ``path``, else
    the default.

    Raises `UsageError` for a name or a suffix that is not in the table.
    """
    if name is not None:
        if name not in FORMATS:
            raise UsageError(f"no format is called {name}", f"choose one of: {', '.join(FORMATS)}")
        return FORMATS[name]
    if path is None or path == "-" or path.startswith("/dev/"):
        return FORMATS[DEFAULT]
    for row in FORMATS.values():
        if path.endswith(row.suffix):
            return row
    raise UsageError(
        f"the name {path} does not tell the format",
        f"add --format, or a suffix: {', '.join(row.suffix for row in FORMATS.values())}",
    )

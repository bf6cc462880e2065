"""Folded stacks: a line for each path of calls, ``main;parse;read 1234``, whose number is the time
in ns that its last function took itself, without traced callees, or the weight of a stack that the
kernel has counted. Flame graphs are made of it by
flamegraph.pl, inferno and speedscope."""

from __future__ import annotations

from typing import Any

from lbtrace.model import Aggregates, Plan, Summary
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.report import Report, Settings
from lbtrace.text import clean

PATHS = Settings(by="path")


class Folded(Report):
    """See the module. Calls without an end, and points, have no time and no line."""

    name = "folded"

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout, settings=PATHS)

    def aggregates(self, aggregates: Aggregates) -> None:
        """The stacks that the kernel has counted."""
        if "stacks" in self._plan.actions:
            from lbtrace.tables import table_of  # imported here because most traces hold calls
            from lbtrace.tables.stacks import folded_lines

            rows = table_of(self._plan, aggregates, "stacks")
            self._stream.writelines(f"{line}\n" for line in folded_lines(rows))

    def end(self, summary: Summary) -> None:
        for row in sorted(self.rows(), key=lambda row: row.path):
            if row.self_time:
                # The last space is before the number: others may be in names.
                path = ";".join(clean(name).replace(";", ":") for name in row.path)
                self._stream.write(f"{path} {row.self_time}\n")

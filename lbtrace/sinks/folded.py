"""Folded stacks: a line for each path of calls, ``main;parse;read 1234``, whose number is the time
in ns that its last function took itself, without traced callees. Where callers were sent, they are
in the path, too. Flame graphs are made of it by flamegraph.pl, inferno and speedscope."""

from __future__ import annotations

from typing import Any

from lbtrace.answers.call_paths import CallPaths, Path
from lbtrace.model import Call, Plan, Summary
from lbtrace.sinks.layout import PLAIN, Layout
from lbtrace.sinks.report import Report, Settings
from lbtrace.tables.stacks import folded_line
from lbtrace.text import clean

PATHS = Settings(by="path")


class Folded(Report):
    """See the module. Calls without an end, and points, have no time and no line."""

    name = "folded"
    needs_callers = True

    def __init__(self, stream: Any, plan: Plan, layout: Layout = PLAIN) -> None:
        super().__init__(stream, plan, layout, settings=PATHS)
        self._paths = CallPaths() if plan.stack_depth else None
        self._own: dict[Path, int] = {}

    def entry(self, call: Call) -> None:
        if self._paths:
            self._paths.enter(call)
        else:
            super().entry(call)

    def exit(self, call: Call) -> None:
        if not self._paths:
            super().exit(call)
        elif own := (ended := self._paths.leave(call)).own:
            self._own[ended.path] = self._own.get(ended.path, 0) + own

    def end(self, summary: Summary) -> None:
        found = [([name for name, _ in path], own) for path, own in self._own.items()]
        found += [([*row.path], row.self_time) for row in self.rows() if row.self_time]
        for path, own in sorted(found):
            self._stream.write(folded_line(map(clean, path), own))

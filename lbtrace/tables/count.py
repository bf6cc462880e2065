"""How often functions were called: action ``count``."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from lbtrace.model import Aggregate, Plan
from lbtrace.tables.table import Table, by_function
from lbtrace.text import clean


class Count(Struct, frozen=True):
    """How often a process has called a function: ``name``, in the file ``binary``. ``str`` gives
    a line fit for a terminal: ``fib: 33 calls in process 4711``."""

    name: str
    binary: str
    pid: int
    count: int

    def __str__(self) -> str:
        calls = "1 call" if self.count == 1 else f"{self.count:,} calls"
        return f"{clean(self.name)}: {calls} in process {self.pid}"


def count_calls(plan: Plan, aggregated: Sequence[Aggregate]) -> list[Count]:
    """Return a row for each function and process that called it, most often called first."""
    counts = [
        Count(each.function.name, each.binary, each.pid, sum(row.count for row in each.rows))
        for each in by_function(plan, aggregated)
    ]
    return sorted(counts, key=lambda each: (-each.count, each.name, each.pid))


TABLE = Table(
    row=Count,
    rows=count_calls,
    heading=("COUNT", "PID", "FUNCTION"),
    cells=lambda row: (str(row.count), str(row.pid), row.name),
)

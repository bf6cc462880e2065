"""Tables of what was aggregated in the kernel, a file for each action that aggregates, by its name:
``TABLE`` there says how what ``bpf_src/actions`` aggregates is shown. How to add an action:
docs/extending.md.
"""

from lbtrace.tables.aggregation import (
    AGGREGATING,
    added_since,
    aggregated,
    check_aggregates,
    find_table,
    merge_aggregated,
    table_of,
)
from lbtrace.tables.count import Count
from lbtrace.tables.table import Table

__all__ = [
    "AGGREGATING",
    "Count",
    "Table",
    "added_since",
    "aggregated",
    "check_aggregates",
    "find_table",
    "merge_aggregated",
    "table_of",
]

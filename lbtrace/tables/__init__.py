"""Tables of what was gathered in the kernel, a file for each action that gathers, by its name:
``TABLE`` there says how what ``bpf_src/actions`` gathers is shown. How to add an action:
docs/extending.md.
"""

from lbtrace.tables.count import Count
from lbtrace.tables.gathering import (
    GATHERING,
    check_gathers,
    find_table,
    gathered,
    merge_gathered,
    table_of,
)
from lbtrace.tables.table import Table

__all__ = [
    "GATHERING",
    "Count",
    "Table",
    "check_gathers",
    "find_table",
    "gathered",
    "merge_gathered",
    "table_of",
]

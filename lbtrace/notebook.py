"""``%load_ext lbtrace``: IPython and Jupyter trace what a cell does.

%%lbtrace --func getppid --binary libc.so.6
os.getppid()

The options are those of ``lbtrace attach`` that say what is traced. The cell's result is the
`OwnTrace`, which notebooks show as a tree, and which is ``_`` in the next cell.
"""

from __future__ import annotations

import shlex
from typing import Any

from lbtrace.errors import LbtraceError
from lbtrace.own_process import OwnTrace


def load_ipython_extension(shell: Any) -> None:
    """Add the magic to a ``shell`` of IPython, which calls this."""

    def trace_cell(line: str, cell: str) -> OwnTrace:
        """Trace what this cell does: %%lbtrace --func getppid --binary libc.so.6 (for example)."""
        from IPython.core.error import UsageError  # imported here: only IPython comes here

        try:
            trace = OwnTrace(shlex.split(line))
            with trace:
                shell.run_cell(cell)  # which shows its result, and what it raises
        except (LbtraceError, ValueError) as error:
            hint = error.hint if isinstance(error, LbtraceError) else "quote it as in a shell"
            raise UsageError(f"{error}\n  {hint}") from None
        return trace

    shell.register_magic_function(trace_cell, "cell", "lbtrace")

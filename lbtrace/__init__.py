"""Shows how a program runs: its calls, with arguments, results and durations.

    import lbtrace

    with lbtrace.trace(command=["./fib", "4"], functions=["fib"]) as session:
        for call in session.calls():
            print(call, call.args["n"], call.duration)

`trace` traces a command, a process or every process that runs a file: a `Trace`, whose
`Trace.calls` yields each `Call` when it has ended. `trace_this_process` traces the own process,
``%load_ext lbtrace`` gives notebooks ``%%lbtrace``.
`read_capture` reads what ``lbtrace attach -o NAME.lbt`` recorded: a `Capture`, with the same
``calls()``. `to_pandas` and `to_arrow` make tables of calls, `report` one of functions, a `Row`
each: of a capture, or a `LiveReport` of a trace. Of a trace that counts, `Trace.counts` gives a
`Count` for each function. `count`, `latency` and `stacks` return a `LiveTable` that the kernel
makes, read while it runs; of a capture the first two return a `CapturedTable`.

The values of arguments and results are ``int``, ``float``, ``bool``, None, or one of `Address`,
`Char`, `Constant`, `Symbol`, `Text`, `Fields`, `Elements`, `Variant`, `Referent`, `Unreadable`.

Everything raised on purpose is a `LbtraceError`, with a ``message`` that says what is wrong and
a ``hint`` that says what to do: `UsageError` (`NoMatchError`), `BinaryError`, `TargetError`
(`CommandError`), `KernelError` (`PrivilegeError`), `CaptureError`, `OutputError`,
`DependencyError`.
"""

# Nothing is imported here, not even __future__: until lbtrace/__main__.py runs, Ctrl-C ends
# the command line with a traceback.
TYPE_CHECKING = False  # as type checkers read it

if TYPE_CHECKING:
    from typing import Any

    from lbtrace.answers.report import Rows
    from lbtrace.answers.row import Row
    from lbtrace.api import trace
    from lbtrace.calls.iterator import Calls
    from lbtrace.calls.table import to_arrow, to_pandas
    from lbtrace.capture import Capture, read_capture
    from lbtrace.captured_table import CapturedTable
    from lbtrace.errors import (
        BinaryError,
        CaptureError,
        CommandError,
        DependencyError,
        KernelError,
        LbtraceError,
        NoMatchError,
        OutputError,
        PrivilegeError,
        TargetError,
        UsageError,
    )
    from lbtrace.live_report import LiveReport
    from lbtrace.live_table import LiveTable, count, latency, stacks
    from lbtrace.live_trace import Trace
    from lbtrace.model import (
        Address,
        Argument,
        Arguments,
        Call,
        Char,
        Constant,
        Datum,
        Elements,
        Fields,
        Losses,
        Plan,
        Referent,
        Symbol,
        Text,
        Unreadable,
        Variant,
    )
    from lbtrace.own_process import OwnTrace, trace_this_process
    from lbtrace.reports import report
    from lbtrace.session.options import Options
    from lbtrace.tables import Count

__version__ = "0.1.0"

__all__ = [
    "Address",
    "Argument",
    "Arguments",
    "BinaryError",
    "Call",
    "Calls",
    "Capture",
    "CaptureError",
    "CapturedTable",
    "Char",
    "CommandError",
    "Constant",
    "Count",
    "Datum",
    "DependencyError",
    "Elements",
    "Fields",
    "KernelError",
    "LbtraceError",
    "LiveReport",
    "LiveTable",
    "Losses",
    "NoMatchError",
    "Options",
    "OutputError",
    "OwnTrace",
    "Plan",
    "PrivilegeError",
    "Referent",
    "Row",
    "Rows",
    "Symbol",
    "TargetError",
    "Text",
    "Trace",
    "Unreadable",
    "UsageError",
    "Variant",
    "__version__",
    "count",
    "latency",
    "read_capture",
    "report",
    "stacks",
    "to_arrow",
    "to_pandas",
    "trace",
    "trace_this_process",
]

_MODULES = {
    **{"Trace": "live_trace", "trace": "api"},
    **dict.fromkeys(("Capture", "read_capture"), "capture"),
    **dict.fromkeys(("to_arrow", "to_pandas"), "calls.table"),
    **dict.fromkeys(("OwnTrace", "trace_this_process"), "own_process"),
    **dict.fromkeys(("LiveTable", "count", "latency", "stacks"), "live_table"),
    "Calls": "calls.iterator",
    "CapturedTable": "captured_table",
    "Count": "tables",
    "Options": "session.options",
    "LiveReport": "live_report",
    "Row": "answers.row",
    "Rows": "answers.report",
    "report": "reports",
}
"""Where a name is that is no error, and not in ``lbtrace.model``."""


def __getattr__(name: str) -> "Any":
    # Importing everything here would cost each command what only some need.
    if name not in __all__:
        raise AttributeError(f"module 'lbtrace' has no attribute {name!r}")
    from importlib import import_module

    home = "errors" if name.endswith("Error") else _MODULES.get(name, "model")
    found = globals()[name] = getattr(import_module(f"lbtrace.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def load_ipython_extension(shell: "Any") -> None:
    """Give a ``shell`` of IPython the magic ``%%lbtrace``; ``%load_ext lbtrace`` calls this."""
    from lbtrace import notebook

    notebook.load_ipython_extension(shell)

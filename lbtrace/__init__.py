"""lbtrace shows how a compiled program runs, call by call.

    with lbtrace.trace(command=["./fib", "4"], functions=["fib"]) as session:
        for call in session.calls():
            print(call.name, call.args, call.result)

`trace` traces; `read_capture` reads what ``lbtrace attach -o NAME.lbt`` wrote.
Everything raised on purpose is a `LbtraceError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lbtrace.api import Trace, trace
    from lbtrace.capture import Capture, read_capture
    from lbtrace.errors import LbtraceError
    from lbtrace.model import (
        Address,
        Argument,
        Call,
        Char,
        Constant,
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
    from lbtrace.session import Options

__all__ = [
    "Address",
    "Argument",
    "Call",
    "Capture",
    "Char",
    "Constant",
    "Elements",
    "Fields",
    "LbtraceError",
    "Losses",
    "Options",
    "Plan",
    "Referent",
    "Symbol",
    "Text",
    "Trace",
    "Unreadable",
    "Variant",
    "read_capture",
    "trace",
]

_HOME = {
    "Trace": "api",
    "trace": "api",
    "Capture": "capture",
    "read_capture": "capture",
    "LbtraceError": "errors",
    "Options": "session",
}


def __getattr__(name: str) -> Any:
    # Importing everything here would cost each command what only some need.
    if name not in __all__:
        raise AttributeError(f"module 'lbtrace' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"lbtrace.{_HOME.get(name, 'model')}"), name)

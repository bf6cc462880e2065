"""Captures: the batches of a trace, with the plan that explains them.

``layout`` holds the file format, ``check`` what a plan must fulfil to be recorded and
read, ``salvage`` reads what is left of a damaged file.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lbtrace.capture.check import check_plan
    from lbtrace.capture.layout import MAGIC, VERSION
    from lbtrace.capture.opening import read_capture
    from lbtrace.capture.reading import Capture
    from lbtrace.capture.writing import CaptureWriter

__all__ = ["MAGIC", "VERSION", "Capture", "CaptureWriter", "check_plan", "read_capture"]

_HOMES = {
    **{"MAGIC": "layout", "VERSION": "layout", "check_plan": "check", "read_capture": "opening"},
    **{"Capture": "reading", "CaptureWriter": "writing"},
}
"""The module of each name, imported when it is first used: who checks a plan reads no batches."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found

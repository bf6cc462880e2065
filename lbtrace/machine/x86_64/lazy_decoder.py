"""Imports iced_x86 in parts.

Its ``__init__`` imports forty modules of constants, which takes a tenth of the time in which
lbtrace starts. Here each is imported when something asks for it; what asks for anything else has
the whole package run.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec

NAME = "iced_x86"


def install() -> None:
    """Put the package where imports find it, unless it is imported already."""
    spec = find_spec(NAME)
    if NAME in sys.modules or spec is None or spec.loader is None:
        return
    package, loader = module_from_spec(spec), spec.loader
    sys.modules[NAME] = package
    native = import_module(f"{NAME}._iced_x86_py")

    def find(name: str) -> object:
        if find_spec(f"{NAME}.{name}"):  # constants
            return import_module(f"{NAME}.{name}")
        if name.endswith("_") and not name.startswith("_"):
            return int  # the type of constants
        if not hasattr(native, name):
            del package.__dict__["__getattr__"]
            loader.exec_module(package)
            return getattr(package, name)
        package.__dict__[name] = getattr(native, name)
        return package.__dict__[name]

    package.__dict__["__getattr__"] = find

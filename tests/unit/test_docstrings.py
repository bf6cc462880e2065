"""Everything public is documented where ``help()`` and editors show it. ruff wants sentences."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, Protocol

import lbtrace

NOT_WRITTEN = frozenset({"lbtrace.__main__", "lbtrace.model.wire_limits"})
"""A module that runs when it is imported, and one that is generated."""


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(lbtrace.__path__, "lbtrace."):
        if found.name not in NOT_WRITTEN and not found.name.split(".")[-1].startswith("_"):
            yield importlib.import_module(found.name)


def classes(module: ModuleType) -> Iterator[type]:
    for name, value in vars(module).items():
        is_own = isinstance(value, type) and value.__module__ == module.__name__
        if is_own and not name.startswith("_"):
            yield value


def members(owner: type) -> Iterator[str]:
    """The public methods and properties that a class itself defines."""
    kinds = (FunctionType, classmethod, staticmethod, property)
    for name, value in vars(owner).items():
        if isinstance(value, kinds) and not name.startswith("_"):
            yield name


PROTOCOLS = [c for module in modules() for c in classes(module) if Protocol in c.__bases__]


def documentation(owner: type, name: str) -> str:
    """What is said of a member: by itself, by what it overrides, by the docstring of its class,
    or by a protocol that the class implements, or helps to implement."""
    own = set(members(owner))
    implemented = [
        p for p in PROTOCOLS if own <= set(members(p)) or set(members(p)) <= set(dir(owner))
    ]
    for each in (owner, *implemented):
        if text := inspect.getdoc(getattr(each, name, None)):
            return text
        if f"``{name}``" in (each.__doc__ or ""):
            return str(each.__doc__)
    return ""


def documented() -> Iterator[tuple[str, Any]]:
    for module in modules():
        yield module.__name__, module.__doc__
        for name, value in vars(module).items():
            is_own = isinstance(value, FunctionType) and value.__module__ == module.__name__
            if is_own and not name.startswith("_"):
                yield f"{module.__name__}.{name}", value.__doc__
        for owner in classes(module):
            yield f"{module.__name__}.{owner.__name__}", vars(owner).get("__doc__")
            for name in members(owner):
                yield f"{module.__name__}.{owner.__name__}.{name}", documentation(owner, name)


def test_all_that_is_public_is_documented() -> None:
    assert [name for name, text in documented() if not text] == []

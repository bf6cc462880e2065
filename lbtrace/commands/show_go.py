"""Functions of Go as lines of text."""

from __future__ import annotations

import re

from lbtrace.model import Function, Value

METHOD = re.compile(
    r"(?P<package>.*?)\.(?P<type>\(\*[\w·]+(\[.*\])?\)|[\w·]+(\[.*\])?)\.(?P<name>[\w·]+)"
)
"""``net/http.(*conn).serve``, ``main.Point.Sum``; closures as well."""

PATH = re.compile(r"(?:[\w.%~+-]+/)+(?=[\w.%~+-]+\.)")
"""What is before the last element of an import path, before the name of a type."""

ARGUMENTS = re.compile(r"\[.*\]")


def signature(function: Function) -> str:
    """Return a function as Go declares it, ``func (p *main.Point) Move(dx int) (int, error)``,
    but with the package's path before the name of one that is no method."""
    parameters = list(function.parameters)
    receiver, name = "", function.name
    method = METHOD.fullmatch(function.name)
    if method and parameters and _is_receiver(parameters[0], method):
        receiver, name = f"({_declared(parameters.pop(0))}) ", method["name"]
    inside = _listed(parameters)
    return f"func {receiver}{name}({inside}){_results(function.result)}"


def _is_receiver(value: Value, method: re.Match[str]) -> bool:
    """Whether the first parameter is of the type in the method's name. In that type
    arguments are left out in places."""
    star = "*" if method["type"].startswith("(") else ""
    bare = ARGUMENTS.sub("", method["type"].strip("(*)"))
    return ARGUMENTS.sub("", _name(value)) == f"{star}{method['package']}.{bare}"


def _listed(values: list[Value]) -> str:
    if any(value.name for value in values):
        return ", ".join(_declared(value, "_") for value in values)
    return ", ".join(map(written, values))


def _results(result: Value | None) -> str:
    if result is None:
        return ""
    if not _name(result) and result.members:  # several
        return f" ({_listed(list(result.members))})"
    return f" {written(result)}"


def _declared(value: Value, blank: str = "") -> str:
    return f"{value.name or blank} {written(value)}".strip() if _name(value) else written(value)


def written(value: Value) -> str:
    """Return a type as Go writes it, with the last element of its package's path; for what debug
    information leaves out the warning that something is missing."""
    return PATH.sub("", _name(value)) or value.reason


def _name(value: Value) -> str:
    return value.type.name if value.type.has_values else ""

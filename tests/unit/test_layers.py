"""Imports go one way, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path

import lbtrace.model
from lbtrace.values.base import Type
from lbtrace.values.datum import Form

ROOT = Path(__file__).resolve().parents[2] / "lbtrace"

LAYERS = (
    {"naming"},
    {"errors", "text"},
    {"validation"},
    {"system", "values"},
    {"model"},
    {"probes"},
    {"machine"},
    {"files"},
    {"elf", "bpf"},
    {"abi"},
    {"recognize", "providers"},
    {"dwarf", "btf", "fetch", "mangled"},
    {"calls", "expressions", "syscalls", "tracepoints"},
    {"tables", "libc"},
    {"capture"},
    {"answers"},
    {"plan", "sinks", "targets"},
    {"session"},
    {"live_trace"},
    {"api"},
    {"own_process"},
    {"notebook"},
    {"captured_table"},
    {"live_table"},
    {"live_report"},
    {"reports"},
    {"commands"},
)
"""From below to above. A module imports from below, or from its own package."""

MODULES = sorted(ROOT.rglob("*.py"))


@cache
def imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a file, also those inside functions."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(path: Path) -> set[str]:
    """The parts of lbtrace that a file names in imports, also inside functions."""
    found = set()
    for node in imports(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lbtrace"):
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
            found |= set(names)
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("lbtrace.")}
    return found


def part(path: Path) -> str:
    """The part a file belongs to: a package or a module."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def level(name: str) -> int:
    for number, layer in enumerate(LAYERS):
        if name in layer:
            return number
    raise AssertionError(f"lbtrace.{name} has no place in LAYERS")


def test_imports_point_down() -> None:
    for path in MODULES:
        mine = part(path)
        if mine in ("__init__", "__main__"):
            continue
        for name in imported(path) - {mine}:
            assert level(name) <= level(mine), f"{path} imports {name}"
            peers = LAYERS[level(mine)]
            assert not {mine, name} <= peers, f"{path}: {mine} and {name} stand side by side"


def name_of(path: Path) -> str:
    """The module that a file is."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = frozenset(map(name_of, MODULES))


def modules_named(path: Path) -> set[str]:
    """The modules of lbtrace that a file imports: anywhere, also for type checkers only. What
    lbtrace/__init__.py and model/__init__.py import by strings is among the latter."""
    found = set()
    for node in imports(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lbtrace"):
            full = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in NAMES else node.module for name in full}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & NAMES


def test_imported_by_strings() -> None:
    """What a package imports by the name of an attribute is imported for type checkers too."""
    lazy = {f"lbtrace.{module}" for module in lbtrace._MODULES.values()}
    assert lazy | {"lbtrace.errors", "lbtrace.model"} <= modules_named(ROOT / "__init__.py")
    homes = {f"lbtrace.{module}" for module in lbtrace.model._HOMES.values()}
    assert homes <= modules_named(ROOT / "model/__init__.py")


def test_no_import_is_relative() -> None:
    for path in MODULES:
        for node in imports(path):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


def test_no_circles() -> None:
    """Remove modules that import none of the remaining ones; a circle would remain."""
    left = {name_of(path): modules_named(path) - {name_of(path)} for path in MODULES}
    while left:
        free = {name for name, named in left.items() if not named & left.keys()}
        assert free, f"in circles, or above them: {sorted(left)}"
        left = {name: named for name, named in left.items() if name not in free}


def importers(prefix: str) -> set[str]:
    """The parts that import a package from outside."""
    return {
        part(path)
        for path in MODULES
        for node in imports(path)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == prefix)
        or (
            isinstance(node, ast.Import) and any(a.name.split(".")[0] == prefix for a in node.names)
        )
    }


def test_one_importer_each() -> None:
    assert importers("elftools") <= {"elf", "dwarf"}
    assert importers("iced_x86") == {"machine"}
    assert importers("cffi") <= {"bpf"}


def test_only_commands_print() -> None:
    for path in MODULES:
        text = path.read_text()
        if part(path) == "commands" or "print(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            called = node.func if isinstance(node, ast.Call) else None
            assert not (isinstance(called, ast.Name) and called.id == "print"), path


SPELLED = {
    "__init__": "users ask of what kind a value is",
    "model": "hands them on to tests and users",
    "expressions/syntax": "a cast makes pointers",
    "expressions/c_types": "a cast names types of C",
    "expressions/globals": "a cast makes pointers",
    "plan/off_cpu": "nothing describes the values of its points",
    "plan/marker_values": "definitions of providers name types of C",
    "plan/filled_buffers": "known functions of C fill these",
    "plan/passed_values": "known functions of C are passed these",
    "plan/formatted_values": "formats of C ask for these",
    "plan/error_numbers": "known functions of C leave an error's number",
    "expressions/conversions": "arithmetic has C's integers",
}
"""Modules outside values and recognize that name kinds of values, and why. The rest asks a type or
a value what it needs to know (`lbtrace.values.base.Type`, `lbtrace.values.datum.Form`), so that a
new kind is two files and a row."""


def named_kinds(path: Path) -> set[str]:
    """The kinds of values, of types or of what they are decoded to, that a file imports."""
    kinds = set()
    for node in imports(path):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lbtrace.")):
            continue
        module = import_module(node.module or "")
        for alias in node.names:
            found = getattr(module, alias.name, None)
            plain = getattr(found, "__module__", "") in (Type.__module__, Form.__module__)
            if isinstance(found, type) and issubclass(found, Type | Form) and not plain:
                kinds.add(alias.name)
    return kinds


def test_kinds_are_spelled_where_they_are_at_home() -> None:
    for path in MODULES:
        if part(path) in ("values", "recognize", "syscalls", "tracepoints", "libc"):
            continue
        name = str(path.relative_to(ROOT).with_suffix("")).removesuffix("/__init__")
        kinds = named_kinds(path)
        assert bool(kinds) == (name in SPELLED), f"lbtrace/{name}.py: {kinds or 'names none now'}"

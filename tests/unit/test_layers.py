"""Imports go one way, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "lbtrace"

LAYERS = (
    {"errors"},
    {"model"},
    {"wire", "values"},
    {"elf", "arch", "bpf"},
    {"calls", "expressions", "seccomp"},
    {"capture"},
    {"plan", "process"},
    {"session"},
    {"sinks"},
    {"api"},
    {"commands"},
)
"""From below to above. A module imports from below, or from its own package."""

MODULES = sorted(ROOT.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The parts of lbtrace that a file names in imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    mine = part(path)
    if mine in ("__init__", "__main__"):
        return
    for name in imported(path) - {mine}:
        assert level(name) <= level(mine), f"{mine} imports {name}"
        peers = LAYERS[level(mine)]
        assert not {mine, name} <= peers, f"{mine} and {name} stand side by side"


def importers(prefix: str) -> set[str]:
    """The parts that import a package from outside."""
    return {
        part(path)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == prefix)
        or (
            isinstance(node, ast.Import) and any(a.name.split(".")[0] == prefix for a in node.names)
        )
    }


def test_one_importer_each() -> None:
    assert importers("elftools") == {"elf"}
    assert importers("iced_x86") == {"arch"}
    assert importers("cffi") <= {"bpf"}


def test_only_commands_print() -> None:
    for path in MODULES:
        if part(path) == "commands":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            assert not (isinstance(called, ast.Name) and called.id == "print"), path

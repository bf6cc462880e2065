"""Every processor's package has what `lbtrace.machine.interface` asks of it, and no other room
knows one by name."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

from lbtrace import machine
from lbtrace.machine import MACHINES, interface

ROOT = Path(machine.__file__).parents[1]

NAMES = ("x86_64", "aarch64", "amd64", "arm64")

EXEMPT = {"plan/known_names.py"}
"""Names of functions of libraries."""


SOURCE = inspect.getsource(machine)

DESCRIBED = {
    "kernel": interface.Kernel,
    "linking": interface.Linking,
    "jump_patterns": interface.JumpPatterns,
}
"""Modules that are handed out whole."""


def what_lacks(package: str) -> list[str]:
    """What the package of a processor does not have, as ``module.name``."""
    asked = re.findall(r'self\._module\("(\w+)"\)\.(\w+)', SOURCE)
    asked += [("registers", "REGISTERS"), ("registers", "RETURN_ADDRESS_SIZE")]
    for module, protocol in DESCRIBED.items():
        asked += [(module, name) for name in vars(protocol) if not name.startswith("_")]
    lacking = []
    for module, name in asked:
        try:
            found = importlib.import_module(f"{package}.{module}")
        except ModuleNotFoundError:
            found = None
        if not hasattr(found, name):
            lacking.append(f"{module}.{name}")
    return lacking


@pytest.mark.parametrize("name", [row.name for row in MACHINES])
def test_packages_are_complete(name: str) -> None:
    assert not what_lacks(f"lbtrace.machine.{name}")


def test_an_incomplete_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a third processor's package lacks is said."""
    package = tmp_path / "invented64"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "registers.py").write_text("REGISTERS = ('r0', 'pc')\nRETURN_ADDRESS_SIZE = 0\n")
    (package / "linking.py").write_text("RELATIVE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    lacking = what_lacks("invented64")
    for name in [name for name in sys.modules if name.split(".")[0] == "invented64"]:
        del sys.modules[name]
    assert "kernel.PT_REGS" in lacking
    assert "probe_sites.Planner" in lacking
    assert "linking.stubs" in lacking
    assert "linking.RELATIVE" not in lacking
    assert not [name for name in lacking if name.startswith("registers")]


def test_optional_modules_have_what_they_are_asked_for() -> None:
    asked = re.findall(r'self\._ask\("(\w+)", "(\w+)"', SOURCE)
    assert {module for module, _ in asked} == {*interface.OPTIONAL}
    for row in MACHINES:
        for module, function in asked:
            name = f"lbtrace.machine.{row.name}.{module}"
            if importlib.util.find_spec(name) is not None:
                assert callable(getattr(importlib.import_module(name), function)), name


def texts(module: ast.Module) -> list[str]:
    """The names and strings in code, without docstrings."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""  # a docstring
    for node in ast.walk(module):
        for value in (getattr(node, field, None) for field in ("value", "id", "attr", "module")):
            found += [value] if isinstance(value, str) else []
    return found


def test_no_other_room_names_a_machine() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT)
        own = inside.parts[0] == "abi" or inside.parts[:2] == ("machine", "__init__.py")
        if not (own or str(inside) in EXEMPT or set(NAMES) & set(inside.parts)):
            text = path.read_text()
            named = texts(ast.parse(text)) if any(name in text for name in NAMES) else ()
            found += [(inside, text) for text in named if any(name in text for name in NAMES)]
    assert not found

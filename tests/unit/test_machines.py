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
from types import ModuleType
from typing import get_type_hints

import pytest

from lbtrace import machine
from lbtrace.machine import MACHINES, interface

ROOT = Path(machine.__file__).parents[1]

NAMES = ("x86_64", "aarch64", "amd64", "arm64")

EXEMPT = {"plan/known_names.py"}
"""Names of functions of libraries."""


def what_lacks(package: str) -> list[str]:
    """What the package of a processor does not have, as ``module`` or ``module.name``."""
    lacking = []
    for module in interface.Package.__struct_fields__:
        try:
            found = importlib.import_module(f"{package}.{module}")
        except ModuleNotFoundError:
            lacking.append(module)
            continue
        lacking += [f"{module}.{name}" for name in members(module) if not hasattr(found, name)]
    return lacking


def members(module: str) -> list[str]:
    """What a module of a package has to have."""
    protocol = get_type_hints(interface.Package)[module]
    return [name for name in vars(protocol) if not name.startswith("_")]


@pytest.mark.parametrize("name", [row.name for row in MACHINES])
def test_packages_are_complete(name: str) -> None:
    assert not what_lacks(f"lbtrace.machine.{name}")


def test_an_incomplete_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a third processor's package lacks is said: mypy says it of types as well."""
    package = tmp_path / "invented64"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "registers.py").write_text("REGISTERS = ('r0', 'pc')\nRETURN_ADDRESS_SIZE = 0\n")
    (package / "linking.py").write_text("RELATIVE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    lacking = what_lacks("invented64")
    for name in [name for name in sys.modules if name.split(".")[0] == "invented64"]:
        del sys.modules[name]
    assert "kernel" in lacking
    assert "linking.stubs" in lacking
    assert "linking.RELATIVE" not in lacking
    assert not [name for name in lacking if name.startswith("registers")]


def test_optional_modules_have_what_they_are_asked_for() -> None:
    source = inspect.getsource(importlib.import_module("lbtrace.machine"))
    asked = re.findall(r'self\._ask\("(\w+)", "(\w+)"', source)
    assert {module for module, _ in asked} == {*interface.OPTIONAL}
    for row in MACHINES:
        for module, function in asked:
            name = f"lbtrace.machine.{row.name}.{module}"
            if importlib.util.find_spec(name) is not None:
                assert callable(getattr(importlib.import_module(name), function)), name


def test_every_package_is_checked_by_mypy() -> None:
    """Its ``__init__.py`` makes an `interface.Package` of its modules."""
    for row in MACHINES:
        package = importlib.import_module(f"lbtrace.machine.{row.name}")
        assert "interface.Package(" in inspect.getsource(package)


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
            named = texts(ast.parse(path.read_text()))
            found += [(inside, text) for text in named if any(name in text for name in NAMES)]
    assert not found


def test_modules_are_found() -> None:
    for row in MACHINES:
        processor = machine.Machine(row.name)
        for module in (processor.kernel, processor.linking, processor.jump_patterns):
            assert isinstance(module, ModuleType)

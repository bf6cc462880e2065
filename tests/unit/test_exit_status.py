"""docs/exit-status.md says what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from lbtrace import errors
from lbtrace.commands import BROKEN_PIPE
from lbtrace.commands.ending import INTERRUPTED, LOST

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/exit-status.md").read_text()
VARIABLE = re.compile(r"[A-Z][A-Z_]+")


def statuses() -> set[int]:
    return {int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.M)}


def read_variables() -> set[str]:
    """Constant names by which the code looks into os.environ."""
    found = set()
    for path in (ROOT / "lbtrace").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text if re.search("environ|getenv", text) else "")):
            where = ""
            if isinstance(node, ast.Subscript):
                where, what = ast.unparse(node.value), node.slice
            elif isinstance(node, ast.Call) and node.args:
                where, what = ast.unparse(node.func), node.args[0]
            elif isinstance(node, ast.Compare):
                where, what = ast.unparse(node.comparators[0]), node.left
            if where.startswith(("os.environ", "os.getenv")) and isinstance(what, ast.Constant):
                found.add(str(what.value))
    return {name for name in found if VARIABLE.fullmatch(name)}


def test_statuses() -> None:
    of_errors = {
        error.status
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.LbtraceError)
    }
    of_commands = {errors.CommandError("", "", errno=number).status for number in (2, 13)}
    assert statuses() == {0, LOST, INTERRUPTED, BROKEN_PIPE} | of_errors | of_commands


def test_variables() -> None:
    table = PAGE.partition("## Environment")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in VARIABLE.findall(row)}
    assert read_variables() <= documented
    assert documented <= read_variables() | {"PATH"}

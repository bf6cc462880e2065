"""Messages name options as their reader writes them: on the command line, and in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbtrace.errors import UsageError, option

ROOT = Path(__file__).resolve().parents[2] / "lbtrace"

OPTION = re.compile(r"(?<!\w)--[a-z]")
COMMANDS = re.compile(
    r"lbtrace \w+( --\w+)+|setpriv.*"
    r"|--(cap-add|privileged|regid|init-groups|[a-z]+-caps|format|where)"
)
"""Whole commands to type, options of other programs, and what only commands print: about formats,
and of ``lbtrace doctor``."""


@pytest.mark.parametrize(
    ("message", "command_line", "python"),
    [
        (f"{option('where')}: no", "--where: no", "where: no"),
        (f"leave {option('returns')} out", "leave --returns out", "leave returns= out"),
        (f"{option('returns', 'none')} sees", "--returns none sees", 'returns="none" sees'),
        (f"narrow {option('func')}", "narrow --func", "narrow functions="),
        (f"give {option('func', '/f o/')}", "give --func /f o/", 'give functions=["/f o/"]'),
        (f"add {option('force')}", "add --force", "add force=True"),
        (
            f"{option('line')} and {option('at')} see",
            "--line and --at see",
            "lines= and places= see",
        ),
        (f"{option('line')} a.c: is no line", "--line a.c: is no line", "lines= a.c: is no line"),
        (f"give {option('pid', 7)}", "give --pid 7", "give pid=7"),
        (f"without {option('mode')}", "without --mode", "without Options(mode)"),
        ("x -- y", "x -- y", "x -- y"),
    ],
)
def test_an_option_has_two_spellings(message: str, command_line: str, python: str) -> None:
    error = UsageError(message, message)
    assert error.command_line == (command_line, command_line)
    assert (error.message, error.hint, str(error)) == (python, python, python)


def texts(tree: ast.Module) -> Iterator[str]:
    """The strings of a module that are no docstrings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_only_commands_spell_options_themselves() -> None:
    spelled = [
        (path, text)
        for path in sorted(ROOT.rglob("*.py"))
        if path.parent.name != "commands"
        for module in [path.read_text()]
        if OPTION.search(module)
        for text in texts(ast.parse(module))
        if OPTION.search(COMMANDS.sub("", text))
    ]
    assert spelled == []

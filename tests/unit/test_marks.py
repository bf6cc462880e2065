"""Every mark that stands for a value which is not there is in the table of docs/values.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs/values.md").read_text().split("| shown | because |")[1].split("\n\n")[0]

MAKES = re.compile(r"\b(Unreadable|Location|Value)\(|\blost=")


def constants(trees: list[ast.Module]) -> dict[str, str]:
    return {
        target.id: node.value.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def texts(node: ast.expr | None, known: dict[str, str]) -> Iterator[str]:
    """The texts that an expression may be; of those with numbers in them what precedes these."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        first = node.values[0]
        assert isinstance(first, ast.Constant), "begin the mark with words"
        yield str(first.value)
    elif isinstance(node, ast.Name):
        yield from filter(None, [known.get(node.id)])
    elif isinstance(node, ast.IfExp):
        yield from (*texts(node.body, known), *texts(node.orelse, known))
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from texts(value, known)


def marks() -> Iterator[str]:
    modules = [path.read_text() for path in sorted((ROOT / "lbtrace").rglob("*.py"))]
    trees = {module: ast.parse(module) for module in modules}
    known = constants([*trees.values()])
    for tree in (trees[module] for module in modules if MAKES.search(module)):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            if called == "Unreadable":
                yield from texts(node.args[0], known) if node.args else [""]
            if called in ("Location", "Value"):
                yield from texts(keywords.get("reason"), known)
            if called == "Value" and len(node.args) > 3:
                yield from texts(node.args[3], known)
            if called != "Sigaction":
                yield from texts(keywords.get("lost"), known)


def test_all_are_in_the_table() -> None:
    found = {mark.strip() for mark in marks()}
    assert {"fault", "optimised out", "no variant:", "cannot be decoded", ""} <= found
    for mark in sorted(found):
        words = any(char.isalpha() for char in mark)
        shown = f"`<{mark}" if words else f"`{mark or '?'}`"
        assert shown in TABLE, f"{shown} is missing in docs/values.md"

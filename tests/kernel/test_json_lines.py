"""docs/json-lines.md: what is written has the fields of its tables, and no others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lbtrace.model import Fork, Loss
from lbtrace.tables import AGGREGATING, Count

PAGE = Path(__file__).resolve().parents[2] / "docs/json-lines.md"

PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
struct item { char name[100]; struct item *next; int many[20]; };
static struct item last, first = {"one", &last};
static char text[300];
__attribute__((noinline)) int look(struct item item, const char *long_text, double real)
{
	return item.name[0] + long_text[0] + (int)real;
}
__attribute__((noinline)) int divide(int n)
{
	pid_t child = fork();

	if (child)
		waitpid(child, 0, 0);
	return child ? n : n + look(first, text, 2.5);
}
int main(void)
{
	memset(text, 'x', 299);
	memset(first.name, 'y', 99);
	return divide(look(first, text, 1.5)) < 0;
}
"""

Fields = tuple[set[str], set[str]]


def read_tables() -> dict[str, Fields]:
    """The fields of each type, those that all its objects have and the others."""
    found: dict[str, Fields] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        title = section.partition("\n")[0].strip("`")
        always, sometimes = found[title] = set(), set()
        for names, condition in re.findall(r"(?m)^\| (`[^|]*) \| [^|]* \| ([^|]*)\|$", section):
            (sometimes if condition else always).update(re.findall(r"`(\w+)`", names))
    return found


TABLES = read_tables()


def check_value(row: dict[str, Any], member: str) -> None:
    lacks = TABLES["Values"][1]
    beside = {*row} & lacks
    if "unreadable" in beside:
        assert row[member] is None
    for pointer, lack in row.get("parts", {}).items():
        assert pointer.startswith("/")
        assert {*lack} <= lacks
        value = row[member]
        for step in pointer[1:].split("/"):
            value = value[int(step) if isinstance(value, list) else step]


def check(row: dict[str, Any]) -> str:
    kind = row.pop("type")
    always, sometimes = TABLES[kind]
    assert always <= {*row}, (kind, always - {*row})
    assert {*row} <= always | sometimes, (kind, {*row} - always - sometimes)
    for argument in row.get("args", ()):
        assert {"name", "value"} <= {*argument} <= {"name", "value"} | TABLES["Values"][1]
        check_value(argument, "value")
    if "result" in row:
        check_value(row, "result")
    if kind == "call":
        assert row["end"] in ("returned", "unwound", "tail", "open")
        assert (row["duration"] is None) == (row["end"] != "returned")
    return str(kind)


def attach(where: Path, *words: str) -> list[dict[str, Any]]:
    output = where / "run.jsonl"
    command = [sys.executable, "-m", "lbtrace", "attach", "-o", str(output), "--force", *words]
    subprocess.run(command, check=True, capture_output=True)
    return [json.loads(line) for line in output.read_text().splitlines()]


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "items.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-g", "items.c", "-o", "items"], cwd=tmp_path, check=True)
    return str(tmp_path / "items")


def test_real_output(program: str, tmp_path: Path) -> None:
    functions = ("--func", "look", "--func", "divide", "--depth", "1", "--cpu")
    rows = attach(tmp_path, *functions, "--line", "items.c:17", "--locals", "--", program)
    lacks = {name for row in rows for a in row.get("args", ()) for name in {*a} - {"name", "value"}}
    assert {"unreadable", "parts"} <= lacks
    kinds = {check(row) for row in rows}
    assert {"call", "point", "thread", "fork", "inherited", "summary"} <= kinds


@pytest.mark.parametrize(
    ("kind", "struct", "hidden"),
    [("loss", Loss, ()), ("fork", Fork, ("calls",)), ("count", Count, ())],
)
def test_fields_of_what_is_rare(kind: str, struct: type, hidden: tuple[str, ...]) -> None:
    names = {field.name for field in msgspec.structs.fields(struct)} - {*hidden}
    assert names <= TABLES[kind][0] | TABLES[kind][1]


def test_each_action_that_aggregates_has_a_table() -> None:
    assert {*AGGREGATING} <= {*TABLES}

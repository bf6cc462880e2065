"""Casts to types of the program: the program says what lies there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Lbtrace = Callable[..., subprocess.CompletedProcess[str]]

C = """\
#include <stdio.h>
typedef unsigned char Level;
enum Kind { A = 1, B, C };
typedef enum { RED, GREEN, BLUE } Color;
struct node { int id; enum Kind kind; struct node *next; char name[8]; };
typedef struct { long total; Color color; } Sum;
struct twice { int of_one; };
__attribute__((noinline)) int callback(void *ctx, int n, long number, unsigned long handle)
{
    struct node *node = ctx, *other = (struct node *)handle;
    printf("said %d %c %d %s %d %d\\n", node->id, "?ABC"[node->kind], (Level)number, node->name,
           other->id, n);
    return n;
}
__attribute__((noinline)) int summed(void *ctx)
{
    printf("said %ld %d\\n", ((Sum *)ctx)->total, ((Sum *)ctx)->color);
    return 0;
}
int main()
{
    struct node one = {1, B, 0, "one"}, two = {2, C, &one, "two"};
    Sum sum = {300, BLUE};
    struct twice twice = {1};
    callback(&one, 1, 257, (unsigned long)&two);
    callback(&two, 3, 300, (unsigned long)&one);
    return summed(&sum) + twice.of_one - 1;
}
"""


@pytest.fixture
def program(compiled: Callable[..., Path]) -> Path:
    return compiled("named_types", ["gcc", "-O1", "-g", "-x", "c"], C)


def test_casts_to_types_of_the_program(lbtrace: Lbtrace, program: Path) -> None:
    asked = (
        "id=((struct node *)ctx)->id",
        "kind=((struct node *)ctx)->kind",
        "level=(Level)number",
        "name=((struct node *)ctx)->name",
        "other=((struct node *)handle)->id",
        "n=(int)(enum Kind)n",
    )
    words = [word for each in asked for word in ("--arg", each)]
    done = lbtrace("attach", "--func", "callback", *words, "--quiet", "--", program)
    said = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("said")]
    shown = re.findall(
        r'id=(\d), kind=(\w), level=(\d+), name="(\w+)", other=(\d), n=(\d)', done.stdout
    )
    assert [[*each] for each in shown] == said[:2]
    labelled = ("--arg", "(Color)n", "--arg", "(enum Kind)n")
    done = lbtrace("attach", "--func", "callback", *labelled, "--quiet", "--", program)
    assert "callback((Color)n=GREEN, (enum Kind)n=A)" in done.stdout
    done = lbtrace("attach", "--func", "summed", "--arg", "*(Sum *)ctx", "--quiet", "--", program)
    assert "*(Sum *)ctx={total=300, color=BLUE}" in done.stdout


@pytest.mark.parametrize(
    ("where", "calls"),
    [
        ("((struct node *)ctx)->kind == C", 1),
        ("(Color)n == GREEN", 1),
        ("(Level)number > 1", 1),
        ("((struct node *)ctx)->next->id == 1", 1),
        ("(n) > 0 and (number > 1)", 2),
    ],
)
def test_conditions_on_them(lbtrace: Lbtrace, program: Path, where: str, calls: int) -> None:
    done = lbtrace("attach", "--func", "callback", "--where", where, "--quiet", "--", program)
    assert len(re.findall(r"callback\(", done.stdout)) == calls, done.stderr


@pytest.mark.parametrize(
    ("asked", "wrong", "hint"),
    [
        ("(struct node)n", "struct node is no number", "cast a pointer: *(struct node *)p"),
        ("(missing *)ctx", "missing is no type that is known here", "debug information"),
    ],
)
def test_what_is_refused(
    lbtrace: Lbtrace, program: Path, asked: str, wrong: str, hint: str
) -> None:
    done = lbtrace("attach", "--func", "callback", "--arg", asked, "--", program)
    assert wrong in done.stderr
    assert hint in done.stderr

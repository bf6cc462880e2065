"""Pointers that lead nowhere, with ``--depth``: an address, without members that nothing has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Compile = Callable[[str, list[str], str], Path]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

SOURCE = r"""
#include <memory>
#include <stdlib.h>
struct empty {};
struct with_empty { empty e; int a; };
struct flexible { int n; char d[]; };
typedef int four __attribute__((vector_size(16)));
struct vector { int a; four v; };
struct owner { std::unique_ptr<int> u; int a; };
struct plain { int a; long b; };
struct list { four v; int a; list *next; };
#define SHOW(T) __attribute__((noinline)) int show_##T(T *p) \
    { __asm__ volatile("" ::"r"(p) : "memory"); return p == nullptr; }
SHOW(with_empty) SHOW(flexible) SHOW(vector) SHOW(owner) SHOW(plain) SHOW(list)
int main()
{
    with_empty e{{}, 5};
    list last{{}, 7, nullptr}, first{{}, 8, &last};
    int nulls = 0;
    for (int i = 0; i < 100; i++) {
        nulls += show_with_empty(nullptr) + show_with_empty(&e) + show_flexible(nullptr);
        nulls += show_vector(nullptr) + show_owner(nullptr) + show_plain(nullptr);
        nulls += show_list(nullptr) + show_list(&last) + show_list(&first);
        nulls += show_with_empty((with_empty *)24);
    }
    return nulls != 600;
}
"""

SHOWN = [
    "show_with_empty(p=0x0)",
    "show_with_empty(p=&{e={}, a=5})",
    "show_flexible(p=0x0)",
    "show_vector(p=0x0)",
    "show_owner(p=0x0)",
    "show_plain(p=0x0)",
    "show_list(p=0x0)",
    "show_list(p=&{v=?, a=7, next=0x0})",
    "show_list(p=&{v=?, a=8, next=&{v=?, a=7, next=0x0}})",
    "show_with_empty(p=0x18)",
]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_pointers_that_lead_nowhere(compiled: Compile, lbtrace: Run, compiler: str) -> None:
    program = compiled(f"nulls-{compiler}", [compiler, "-g", "-O1"], SOURCE)
    words = ("attach", "--func", "show_*", "--depth", 2, "--quiet", "--strict")
    done = lbtrace(*words, "--", program)
    assert done.returncode == 0, done.stderr
    heads = [line[20:] for line in done.stdout.splitlines() if line[20:].startswith("show_")]
    assert [head.partition(" = ")[0] if ") = " in head else head for head in heads] == SHOWN * 100
    done = lbtrace(*words, "--format", "jsonl", "--", program)
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    values = [call["args"][0]["value"] for call in calls if call["type"] == "call"]
    assert values[0] == "0x0"
    assert values[-1] == "0x18"

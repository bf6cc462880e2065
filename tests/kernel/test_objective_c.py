"""Objective-C: values of its functions and methods, and the names of these."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]
Traced = Callable[[Path, str], list[dict[str, Any]]]
Tool = Callable[[str], str]

STRUCTS = r"""
typedef struct { short a; long b; } Pair;
typedef struct { long v[3]; } Large;
__attribute__((noinline)) int traced_pair(Pair p, int k) { return p.a + k; }
__attribute__((noinline)) int traced_large(Large l, int k) { return l.v[0] + k; }
__attribute__((noinline)) Large traced_make(int k) { Large l = {{k, 2, 3}}; return l; }
int main(void) {
    Pair p = {1, 2};
    Large l = {{3, 4, 5}};
    return traced_pair(p, 6) + traced_large(l, 7) + traced_make(8).v[1] == 19 ? 0 : 1;
}
"""

METHODS = r"""
typedef struct { short a; long b; } Pair;
typedef struct { long v[3]; } Large;
@interface Acc { int base; }
- (long) add: (int)x to: (long)y;
+ (Large) make: (Pair)p count: (int)n;
@end
@implementation Acc
- (long) add: (int)x to: (long)y { return x + y; }
+ (Large) make: (Pair)p count: (int)n { return (Large){{p.a, p.b, n}}; }
@end
@interface Acc (Extra)
- (int) sq: (int)x;
@end
@implementation Acc (Extra)
- (int) sq: (int)x { return x * x; }
@end
long add(id self, SEL selector, int x, long y) __asm__("_i_Acc__add_to_");
Large make(id self, SEL selector, Pair p, int n) __asm__("_c_Acc__make_count_");
int square(id self, SEL selector, int x) __asm__("_i_Acc_Extra_sq_");
void __objc_exec_class(void *module) {}
int main(void) {
    Pair p = {1, 2};
    add(0, 0, 3, 4);
    make(0, 0, p, 5);
    return square(0, 0, 3) != 9;
}
"""
"""Methods, which are called as the runtime does, and nothing that needs it: it may be absent."""

WEAK = r"""
typedef struct { __weak id a; long b; } Weak;
typedef struct { const char *a; long b; } Plain;
__attribute__((noinline)) long traced_weak(Weak w, int k) { return w.b + k; }
__attribute__((noinline)) long traced_plain(Plain p, int k) { return p.b + k; }
int main(void) {
    Weak w;
    w.b = 4;
    Plain p = {"abc", 5};
    return traced_weak(w, 5) + traced_plain(p, 6) == 20 ? 0 : 1;
}
"""

RUNTIME = r"""
void *objc_initWeak(void **at, void *value) { return *at = value; }
void objc_destroyWeak(void **at) {}
void objc_copyWeak(void **to, void **from) { *to = *from; }
void __objc_load(void *x) {}
"""


def made(folder: Path, text: str, *words: object) -> Path:
    """The program that clang makes of a text."""
    source, program = folder / "source.m", folder / "program"
    source.write_text(text)
    subprocess.run(["clang", "-w", "-g", "-O0", *words, source, "-o", program], check=True)
    subprocess.run([program], check=True)
    return program


def shown(calls: list[dict[str, Any]]) -> dict[str, tuple[list[Any], Any]]:
    """The values of arguments and results, by the function's name."""
    return {c["name"]: ([a["value"] for a in c["args"]], c["result"]) for c in calls}


VALUES = {
    "traced_pair": ([{"a": 1, "b": 2}, 6], 7),
    "traced_large": ([{"v": [3, 4, 5]}, 7], 10),
    "traced_make": ([8], {"v": [8, 2, 3]}),
}


def test_functions_of_clang(tool: Tool, traced: Traced, tmp_path: Path) -> None:
    tool("clang")
    assert shown(traced(made(tmp_path, STRUCTS), "traced_*")) == VALUES


@pytest.mark.parametrize(
    ("compiler", "language"),
    [("gcc", 0x10), ("gcc", 0x3E), *(("g++", code) for code in (0x11, 0x19, 0x2A, 0x3A))],
)
def test_functions_of_gcc(
    tool: Tool, traced: Traced, tmp_path: Path, compiler: str, language: int
) -> None:
    """C and C++ under the codes of Objective-C, Objective-C++ and newer standards: not every
    compiler that writes them is at hand."""
    tool(compiler)
    source, assembly = tmp_path / "source.c", tmp_path / "source.s"
    source.write_text(STRUCTS)
    words = [compiler, "-O0", "-gdwarf-5", "-dA", "-S", source, "-o", assembly]
    subprocess.run(words, check=True)
    known = r"(\.byte\s+)\S+(\s+# DW_AT_language)"
    text, count = re.subn(known, rf"\g<1>{language:#x}\2", assembly.read_text())
    assert count == 1
    assembly.write_text(text)
    program = tmp_path / "program"
    subprocess.run([compiler, assembly, "-o", program], check=True)
    assert shown(traced(program, "*traced_*")) == VALUES


@pytest.mark.parametrize(
    ("pattern", "calls"),
    [
        ("-[Acc add:to:]", {"_i_Acc__add_to_": (["0x0", "0x0", 3, 4], 7)}),
        (
            "+[* make:count:]",
            {"_c_Acc__make_count_": (["0x0", "0x0", {"a": 1, "b": 2}, 5], {"v": [1, 2, 5]})},
        ),
        ("-[Acc(Extra) sq:]", {"_i_Acc_Extra_sq_": (["0x0", "0x0", 3], 9)}),
        ("-[Acc *]", {"_i_Acc__add_to_": (["0x0", "0x0", 3, 4], 7)}),
    ],
)
def test_methods(
    tool: Tool, traced: Traced, tmp_path: Path, pattern: str, calls: dict[str, Any]
) -> None:
    tool("clang")
    program = made(tmp_path, METHODS, "-fobjc-runtime=gcc")
    assert shown(traced(program, pattern)) == calls


def test_selectors_are_explained(tool: Tool, lbtrace: Run, tmp_path: Path) -> None:
    tool("clang")
    program = made(tmp_path, METHODS, "-fobjc-runtime=gcc")
    for pattern, symbol in {
        "add:to:": "_i_Acc__add_to_",
        "-[Acc sq:]": "_i_Acc_Extra_sq_",
        "+[Acc make:cuont:]": "_c_Acc__make_count_",
    }.items():
        done = lbtrace("attach", "--func", pattern, "--", program)
        assert done.returncode == 2
        assert symbol in done.stderr


def test_weak_pointers_hide_how_a_struct_is_passed(
    tool: Tool, traced: Traced, tmp_path: Path
) -> None:
    """clang passes such a struct as a pointer to it, and does not say so."""
    tool("clang")
    runtime = tmp_path / "runtime.c"
    runtime.write_text(RUNTIME)
    arc = ("-fobjc-arc", "-fobjc-runtime=gnustep-2.0", "-fuse-ld=lld")
    values = shown(traced(made(tmp_path, WEAK, *arc, "-x", "c", runtime, "-x", "objective-c"), "*"))
    assert values["traced_weak"] == ([None, None], 9)
    assert values["traced_plain"] == ([{"a": "abc", "b": 5}, 6], 11)

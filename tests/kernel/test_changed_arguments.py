"""Functions of C for which clang changed what is passed: what lies on the stack has moved."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

PROGRAM = """\
#include <stdio.h>
struct S { const char *p; long n; };
#define BODY \\
    long r = a + b * 3 + c * 5 + s.n * 7 + d * 9 + one * 11 + tag * 13; \\
    if (r > 1000000) printf("%ld\\n", r); \\
    return r;
__attribute__((noinline))
static long changed(long a, long b, long c, struct S s, long d, long one, long tag) { BODY }
__attribute__((noinline))
long kept(long a, long b, long c, struct S s, long d, long one, long tag) { BODY }
int main(int n, char **v) {
    volatile long z = n;
    long t = 0;
    for (int i = 0; i < 3; i++) {
        struct S s = {v[0], 70 + i};
        t += changed(z, 20, 30 + z, s, 40 + z, 50 + z, 60 + i);
        t += kept(z, 20, 30 + z, s, 40 + z, 50 + z, 60 + i);
    }
    return t == 77;
}
"""


@pytest.mark.parametrize("option", ["-O1", "-O2", "-O3", "-fno-omit-frame-pointer"])
def test_stack_arguments(
    traced: Callable[[Path, str], list[dict[str, Any]]],
    tool: Callable[[str], str],
    tmp_path: Path,
    option: str,
) -> None:
    source, made = tmp_path / "changed.c", tmp_path / "changed"
    source.write_text(PROGRAM)
    subprocess.run([tool("clang"), "-g", "-O2", option, source, "-o", made], check=True)
    calls = traced(made, "/^(changed|kept)$/")
    assert len(calls) == 6
    for number, call in enumerate(calls):
        shown = {each["name"]: each["value"] for each in call["args"]}
        passed = {"a": 1, "b": 20, "c": 31, "d": 41, "one": 51, "tag": 60 + number // 2}
        members = shown.pop("s") or {"p": None, "n": None}
        assert members["p"] is None, call
        assert members["n"] in (None, 70 + number // 2), call
        assert all(value in (None, passed[name]) for name, value in shown.items()), call
        assert shown["tag"] is not None, call

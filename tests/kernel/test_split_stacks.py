"""Calls that wait while others run on a further segment of a split stack are not shown as left."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SPLIT = """\
#include <stdio.h>
#define TRACED __attribute__((noipa))
TRACED long f_leaf(long x) { volatile char b[30]; b[x % 30] = x; return x * 3 + b[x % 30]; }
TRACED long f_deep(int d, long x)
{
    volatile char b[5000];
    b[d] = d;
    return d ? f_deep(d - 1, x + b[d]) ^ f_leaf(x & 15) : f_leaf(x);
}
int main(void) { printf("%ld\\n", f_deep(300, 1)); return 0; }
"""


def test_no_call_that_waits_is_left(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path
) -> None:
    tool("gcc")
    source, made, out = (tmp_path / name for name in ("program.c", "program", "out.jsonl"))
    source.write_text(SPLIT)
    subprocess.run(
        ["gcc", "-O2", "-g", "-w", "-fsplit-stack", "-fuse-ld=gold", source, "-o", made],
        check=True,
    )
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace(
        *("attach", "--binary", made, "--func", "f_*"), *("-o", out, "--force", "--", made)
    )
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    ends = {record["end"] for record in records if record["type"] == "call"}
    assert "returned" in ends
    assert ends <= {"returned", "open", "tail"}

"""Lets a C compiler say what constant expressions are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def compiler(machine: str) -> list[str]:
    """Return the command of zig's C compiler with its headers of Linux and glibc."""
    cc = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu", "-w"]
    return [*cc, "-D_GNU_SOURCE"]


def preprocess(machine: str, source: Path, *options: str) -> str:
    """Return what the preprocessor makes of a source."""
    command = [*compiler(machine), "-E", *options, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def evaluate(
    machine: str, source: Path, before: Sequence[str], expressions: Mapping[str, str]
) -> dict[str, int]:
    """Return the values of expressions, by their names, after the lines ``before``; what does not
    compile is missing."""
    made = source.with_suffix(".s")
    left = dict(expressions)
    start = "\n".join(before).count("\n") + 2
    for _ in range(20):
        body = [f"const long long lbt_{n} = (long long)({e});" for n, e in left.items()]
        source.write_text("\n".join([*before, *body]))
        command = [*compiler(machine), "-S", "-ferror-limit=0", "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.returncode:
            return _read_assembly(made.read_text())
        failed = {int(n) - start for n in re.findall(r"\.c:(\d+):\d+: error", done.stderr)}
        left = {n: e for at, (n, e) in enumerate(left.items()) if at not in failed}
    raise SystemExit(f"{source}: {done.stderr}")


def _read_assembly(text: str) -> dict[str, int]:
    found = {}
    for name, value in re.findall(r"^lbt_(\w+):\n\s*\.(?:quad|xword)\s+(-?\w+)", text, re.M):
        number = int(value, 0)
        found[name] = number - (1 << 64) if number >= 1 << 63 else number
    return found

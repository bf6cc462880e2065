"""Makes a program of ten thousand functions, which calls every third of them."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

FUNCTIONS = 10_000


def build(into: Path, compiler: str = "gcc") -> None:
    """Compile it, if it is not there yet."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with into.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes run tests at once
        if not into.exists():
            _compile(into, compiler)


def _compile(into: Path, compiler: str) -> None:
    names = [f"many_{n}" for n in range(FUNCTIONS)]
    functions = (f"__attribute__((noipa)) int {n}(int a) {{ return a + 1; }}\n" for n in names)
    calls = "".join(f"n = {name}(n);\n" for name in names[::3])
    source = "".join(functions) + f"int main(void) {{ int n = 0;\n{calls}return 0; }}\n"
    part = into.with_suffix(".part")
    command = [compiler, "-O1", "-g", "-x", "c", "-", "-o", str(part)]
    subprocess.run(command, input=source, text=True, check=True)
    part.rename(into)


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:3])

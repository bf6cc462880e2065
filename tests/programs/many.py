"""Makes a program of ten thousand functions, which calls every third of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUNCTIONS = 10_000


def build(into: Path, compiler: str = "gcc") -> None:
    """Compile it, if it is not there yet."""
    if into.exists():
        return
    names = [f"many_{n}" for n in range(FUNCTIONS)]
    functions = (f"__attribute__((noipa)) int {n}(int a) {{ return a + 1; }}\n" for n in names)
    calls = "".join(f"n = {name}(n);\n" for name in names[::3])
    source = "".join(functions) + f"int main(void) {{ int n = 0;\n{calls}return 0; }}\n"
    command = [compiler, "-O1", "-g", "-x", "c", "-", "-o", str(into)]
    subprocess.run(command, input=source, text=True, check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:3])

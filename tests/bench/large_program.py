"""A program with 1 GB of debug information, made once: a unit of C with many types, compiled, and
linked as often as it takes with other names."""

from __future__ import annotations

import subprocess
from pathlib import Path

TYPES, COPIES = 12_000, 115
FUNCTION = "c9_work_776"
"""One of its functions."""


def make(folder: Path) -> Path:
    """Return the program; the first time it takes a minute, and 2 GB of disk meanwhile."""
    program = folder / "large"
    if program.is_file():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "unit.c").write_text("".join(map(_type, range(TYPES))))
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    _run(folder, "gcc", "-g", "-O1", "-c", "unit.c")
    parts = [f"c{copy}.o" for copy in range(COPIES)]
    for part in parts:
        prefix = part.removesuffix(".o") + "_"
        _run(folder, "objcopy", f"--prefix-symbols={prefix}", "unit.o", part)
    _run(folder, "gcc", "main.c", *parts, "-o", "making")
    (folder / "making").rename(program)
    for part in parts:
        (folder / part).unlink()
    return program


def _type(number: int) -> str:
    """A struct that points to others, and with each eighth a function."""
    members = (f"struct s{(number * 7 + m * 13) % TYPES} *p{m}; long v{m}; " for m in range(24))
    made = f"struct s{number} {{ {''.join(members)} }};\n"
    if number % 8:
        return made
    return (
        f"{made}__attribute__((noipa)) long work_{number}"
        f"(struct s{number} *one, long n, struct s{number // 3} *other)\n"
        "{ for (long i = 0, sum = 0; i < n; i++) n += sum += one->v1 * other->v2; return n; }\n"
    )


def _run(folder: Path, *words: str) -> None:
    subprocess.run(words, cwd=folder, check=True)

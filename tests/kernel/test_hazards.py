"""What reads, leaves or switches stacks runs traced as it does untraced, with default options.

A module throws, ends threads, switches stacks or looks at return addresses through functions
that are traced; it is built into the program, a library, or a plugin.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCES = Path(__file__).resolve().parents[1] / "programs/hazards"

CASES = [
    ("throws.cc", "library"),
    ("exits.c", "library"),
    ("contexts.c", "plugin"),
    ("jumps.c", "own"),
    ("looks.c", "library"),
    ("altstack.c", "library"),
]


def build(into: Path, module: str, arrangement: str) -> list[str]:
    """The command that runs main.c with a module."""
    made, library = into / "program", into / "libmodule.so"
    compiler = "g++" if module.endswith(".cc") else "gcc"
    flags = ["-O2", "-fno-omit-frame-pointer", "-fexceptions", "-pthread", "-w"]
    main: list[object] = [*flags, "-c", SOURCES / "main.c", "-o", into / "main.o"]
    run(["gcc", *main, *(["-DPLUGIN"] if arrangement == "plugin" else [])])
    if arrangement == "own":
        run([compiler, *flags, into / "main.o", SOURCES / module, "-o", made])
        return [str(made)]
    run([compiler, *flags, "-shared", "-fPIC", SOURCES / module, "-o", library])
    if arrangement == "plugin":
        run(["gcc", *flags, into / "main.o", "-o", made])
        return [str(made), str(library)]
    linked = [f"-L{into}", "-lmodule", "-Wl,-rpath,$ORIGIN"]
    run(["gcc", *flags, into / "main.o", "-o", made, *linked])
    return [str(made)]


def run(words: list[object]) -> None:
    subprocess.run(list(map(str, words)), check=True)


@pytest.mark.parametrize(("module", "arrangement"), CASES)
def test_hazards(lbtrace: Run, tmp_path: Path, module: str, arrangement: str) -> None:
    """A program does the same traced as untraced, and its library as well."""
    command = build(tmp_path, module, arrangement)
    plain = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert plain.returncode == 0, plain
    for traced in (tmp_path / "program", *tmp_path.glob("libmodule.so")):
        options = ("attach", "--binary", traced, "--func", "*", "--quiet", "--format", "lbt")
        done = lbtrace(*options, "-o", tmp_path / "out.lbt", "--force", "--", *command)
        assert (done.returncode, done.stdout) == (0, plain.stdout), (traced, done.stderr)
        assert not done.stderr


@pytest.mark.parametrize(("module", "arrangement"), CASES[:5])
def test_uretprobes_are_refused(
    lbtrace: Run, tmp_path: Path, module: str, arrangement: str
) -> None:
    """By names; a session guards signal stacks, and no name tells of assembly."""
    command = build(tmp_path, module, arrangement)
    done = lbtrace("attach", "--returns", "uretprobe", "--func", "f_*", "--dry-run", "--", *command)
    assert done.returncode == 2
    assert done.stderr.startswith("lbtrace: --returns uretprobe may crash what is traced: ")

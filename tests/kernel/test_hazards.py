"""What reads, leaves or switches stacks runs traced as it does untraced, with default options.

A module throws, ends threads, switches stacks or looks at return addresses through
functions that are traced; it is built into the program, a library, or a plugin, and calls
by PLT, by the GOT, or directly. The slow tier runs some of all combinations.
"""

from __future__ import annotations

import os
import platform
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCES = Path(__file__).resolve().parents[1] / "programs/hazards"
MODULES = (
    *("throws.cc", "exits.c", "contexts.c", "jumps.c", "looks.c", "altstack.c", "asks.c"),
    *("walks.c", "callers.c", "registers.c", "far_frames.c"),
    *(("assembly.c", "assembly_moves_on.c") if platform.machine() == "x86_64" else ()),
)
ARRANGEMENTS = ("own", "library", "plugin")
BUILDS = {
    "plt": "gcc -O1",
    "no-plt": "gcc -O2 -fno-plt",
    "O0": "gcc -O0",
    "frame": "gcc -O2 -fno-omit-frame-pointer -fcf-protection",
    "lto": "gcc -O2 -flto",
    "stripped": "gcc -O2 -s -rdynamic",
    "clang": "clang -O2 -fno-plt",
    "static": "gcc -O1 -static",
    "static-pie": "gcc -O1 -static-pie",
}
ALL = [
    (module, arrangement, build)
    for module in MODULES
    for arrangement in ARRANGEMENTS
    for build in BUILDS
    if arrangement == "own" or not build.startswith("static")
    if not (module == "asks.c" and build.startswith("static"))
    if module not in ("callers.c", "registers.c", "far_frames.c")
    or build in ("O0", "frame")  # follow pointers
]
"""A static program has nothing loaded, and no next library."""

EVERYDAY = [
    ("throws.cc", "own", "no-plt"),
    ("throws.cc", "library", "plt"),
    ("throws.cc", "plugin", "no-plt"),
    ("exits.c", "library", "no-plt"),
    ("contexts.c", "own", "no-plt"),
    ("contexts.c", "plugin", "plt"),
    ("looks.c", "library", "frame"),
    ("walks.c", "library", "frame"),
    ("walks.c", "own", "frame"),
    ("walks.c", "own", "O0"),
    ("callers.c", "own", "O0"),
    ("callers.c", "own", "frame"),
    ("registers.c", "own", "O0"),
    ("far_frames.c", "library", "O0"),
    ("far_frames.c", "library", "frame"),
    ("registers.c", "library", "frame"),
    *(case for case in ALL if case == ("assembly_moves_on.c", "own", "no-plt")),
    ("altstack.c", "library", "plt"),
    ("asks.c", "own", "no-plt"),
]
SAMPLE = len(ALL) if os.environ.get("LBTRACE_WHOLE") else 40
"""Cases of the slow tier, others with each commit; `make check-all` runs all."""


def build(into: Path, module: str, arrangement: str, how: str) -> list[object]:
    """The command that runs main.c with a module."""
    compiler, *flags = BUILDS[how].split()
    plus = {"gcc": "g++", "clang": "clang++"}[compiler]
    flags += ["-fexceptions", "-pthread", "-w"]
    other = plus if module.endswith(".cc") else compiler
    made = into / "program"
    libraries: list[object] = []
    if arrangement == "own":
        main = into / "main.o"
        run([compiler, *flags, "-c", SOURCES / "main.c", "-o", main])
        run([other, *flags, main, SOURCES / module, "-o", made, "-ldl"])
        return [made]
    library = into / "libmodule.so"
    run([other, *flags, "-shared", "-fPIC", SOURCES / module, "-o", library, "-ldl"])
    if arrangement == "plugin":
        run([compiler, *flags, "-DPLUGIN", SOURCES / "main.c", "-o", made, "-ldl"])
        return [made, library]
    libraries += [f"-L{into}", "-lmodule", "-Wl,-rpath,$ORIGIN"]
    run([compiler, *flags, SOURCES / "main.c", "-o", made, *libraries])
    return [made]


def run(words: list[object]) -> None:
    subprocess.run(list(map(str, words)), check=True)


def check(lbtrace: Run, into: Path, module: str, arrangement: str, how: str) -> None:
    """A program does the same traced as untraced, and its library as well."""
    command = build(into, module, arrangement, how)
    words = list(map(str, command))
    plain = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert plain.returncode == 0, plain
    files = [into / "program", *into.glob("libmodule.so")]
    for traced in files:
        done = lbtrace(
            *("attach", "--binary", traced, "--func", "*", "--quiet", "--format", "lbt"),
            *("-o", into / "out.lbt", "--force", "--", *command),
        )
        assert (done.returncode, done.stdout) == (0, plain.stdout), (traced, done.stderr)
        assert not done.stderr


@pytest.mark.parametrize(("module", "arrangement", "how"), EVERYDAY)
def test_hazards(
    lbtrace: Run,
    tool: Callable[[str], str],
    tmp_path: Path,
    module: str,
    arrangement: str,
    how: str,
) -> None:
    tool("g++")
    check(lbtrace, tmp_path, module, arrangement, how)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", random.Random(os.environ["LBTRACE_SEED"]).sample(ALL, SAMPLE), ids="-".join
)
def test_hazards_in_every_combination(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, case: tuple[str, str, str]
) -> None:
    tool("clang++")
    check(lbtrace, tmp_path, *case)

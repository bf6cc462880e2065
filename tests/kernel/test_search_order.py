"""Of several libraries that have a function, that is traced which the program calls: the first in
the order of the loader."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

LIBRARY = r"""
#include <stdio.h>
__attribute__((noipa)) int grab(int n) { if (n == 1) puts("lib" NAME); return n; }
"""

PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
int grab(int n);
int main(void) {
	setlinebuf(stdout);
	for (int n = 0; n < 7; n++) grab(n);
	puts("ready");
	if (read(0, (char[1]){0}, 1) == 1)
		for (int n = 0; n < 5; n++) grab(n);
}
"""
"""It says which library it calls: 7 times, and 5 times after a byte has come."""


@pytest.fixture
def linked(compiled: Callable[[str, list[str], str], Path]) -> Callable[[str], Path]:
    """The program, linked with libraries of these letters in this order."""

    def link(order: str) -> Path:
        where = Path()
        for name in "xyz":
            flags = [f'-DNAME="{name}"', "-shared", "-fPIC", "-Wl,-soname,"]
            flags[-1] += f"lib{name}.so"
            where = compiled("library.c", ["gcc", "-O1", *flags], LIBRARY)
            where.rename(where.parent / f"lib{name}.so")
        here = where.parent
        libraries = [f"-L{here}", f"-Wl,-rpath,{here}", *(f"-l{each}" for each in order)]
        source = here / "program.c"
        source.write_text(PROGRAM)
        made = here / f"program_{order}"
        needed = ["-Wl,--no-as-needed", *libraries]
        subprocess.run(["gcc", "-O1", source, "-o", made, *needed], check=True)
        return made

    return link


@pytest.mark.parametrize(
    ("order", "preloaded"), [("xyz", ""), ("yzx", ""), ("zxy", "x"), ("xyz", "z")]
)
def test_the_function_that_is_called_is_counted(
    linked: Callable[[str], Path],
    lbtrace: Run,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    preloaded: str,
) -> None:
    program = linked(order)
    if preloaded:
        monkeypatch.setenv("LD_PRELOAD", str(program.parent / f"lib{preloaded}.so"))
    running = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert running.stdin is not None
    assert running.stdout is not None
    called = running.stdout.readline().strip()
    assert called == f"lib{preloaded or order[0]}"
    assert running.stdout.readline() == "ready\n"
    done = lbtrace("count", "--func", "grab", "--pid", running.pid, "--duration", "0.1s")
    assert f"grab: found in {called}.so (" in done.stderr
    running.stdin.close()
    running.wait()
    if preloaded:
        monkeypatch.setenv("LD_PRELOAD", str(program.parent / f"lib{preloaded}.so"))
    done = lbtrace("count", "--func", "grab", "--format", "csv", "--", program)
    assert done.stdout.splitlines()[0] == called
    assert f"grab: found in {called}.so (" in done.stderr
    assert ",7" in done.stdout

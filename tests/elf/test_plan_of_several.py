"""Plans of several real binaries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lbtrace.elf.image import Image
from lbtrace.plan import Selection, make_plan

LIBRARY = """
int up(int n);
__attribute__((noinline)) int down(int n) { return n ? up(n - 1) + 1 : 0; }
__attribute__((noinline)) int straight(int n) { __asm__ volatile(""); return n + 1; }
"""

PROGRAM = """
int down(int n), straight(int n);
int up(int n) { return n ? down(n - 1) + 1 : 0; }
int once(int n) { return straight(n) + 1; }
int main(int argc, char **argv) { return down(argc) + once(argc); }
"""


def compiled(into: Path) -> tuple[str, str]:
    """A program and its library, which call each other."""
    (into / "library.c").write_text(LIBRARY)
    (into / "program.c").write_text(PROGRAM)
    library, program = into / "libdown.so", into / "program"
    shared = ["gcc", "-O1", "-fno-optimize-sibling-calls"]
    subprocess.run([*shared, "-shared", "-fPIC", into / "library.c", "-o", library], check=True)
    subprocess.run([*shared, "-rdynamic", into / "program.c", library, "-o", program], check=True)
    return str(program), str(library)


@pytest.fixture(scope="module")
def program_and_library(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return compiled(tmp_path_factory.mktemp("several"))


def test_programs_are_distinguished_from_libraries(
    program_and_library: tuple[str, str], tmp_path: Path
) -> None:
    program, library = program_and_library
    assert Image.open(program).is_program
    assert not Image.open(library).is_program
    assert not Image.open("libc.so.6").is_program
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }")
    for n, flags in enumerate((["-no-pie"], ["-static"], ["-static-pie"])):
        made = tmp_path / f"made{n}"
        subprocess.run(["gcc", *flags, source, "-o", made], check=True)
        assert Image.open(str(made)).is_program


def test_a_binary_without_matches_is_reported(program_and_library: tuple[str, str]) -> None:
    plan = make_plan(program_and_library, Selection(("straight",)))
    assert plan.notes == (f"{program_and_library[0]}: no function of it is traced",)
    assert [f.binary for f in plan.functions] == [1]
    assert all(probe.binary == 1 for probe in plan.probes if probe.role != "stack")


def test_names_for_one_file_are_one(program_and_library: tuple[str, str], tmp_path: Path) -> None:
    program, _ = program_and_library
    (tmp_path / "link").symlink_to(program)
    plan = make_plan((program, str(tmp_path / "link"), program), Selection(("main",)))
    assert [binary.path for binary in plan.binaries] == [program]

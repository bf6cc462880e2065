"""Markers in files that carry those of others, and strings on pages that nobody has read yet."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

import lbtrace

pytestmark = pytest.mark.host

THROWS = r"""
#include <cstdio>
int main() {
    for (int n = 0; n < 7; n++)
        try { if (n % 2) throw n; } catch (int) { std::puts("caught"); }
}
"""


@pytest.mark.parametrize("debug", ["inside", "apart"])
def test_programs_carry_the_markers_of_static_libraries(
    debug: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file of debug information repeats the notes of its program."""
    program, apart = str(tmp_path / "program"), str(tmp_path / "program.debug")
    command = ["g++", "-g", "-static-libstdc++", "-static-libgcc", "-x", "c++", "-", "-o", program]
    subprocess.run(command, input=THROWS, text=True, check=True)
    if debug == "apart":
        subprocess.run(["objcopy", "--only-keep-debug", program, apart], check=True)
        subprocess.run(["objcopy", "-g", f"--add-gnu-debuglink={apart}", program], check=True)
        notes = subprocess.run(["readelf", "-n", apart], capture_output=True, text=True, check=True)
        assert "stapsdt" in notes.stdout
    with lbtrace.trace(command=[program], usdt="libstdcxx:*", binary=program) as session:
        seen = Counter(point.name for point in session.calls())
    caught = capfd.readouterr().out.count("caught")
    assert caught == 3
    assert seen["libstdcxx:throw"] == seen["libstdcxx:catch"] == caught


def test_a_library_of_which_markers_are_traced_is_not_said_to_be_left_out(tmp_path: Path) -> None:
    program, library = str(tmp_path / "program"), "libstdc++.so.6"
    command = ["g++", "-g", "-x", "c++", "-", "-o", program]
    subprocess.run(command, input=THROWS, text=True, check=True)
    files = [program, library]
    wanted = {"functions": "main", "binary": files, "usdt": "libstdcxx:throw"}
    with lbtrace.trace(command=[program], **wanted) as session:  # type: ignore[arg-type]
        names = Counter(call.name for call in session.calls())
    assert names == {"main": 1, "libstdcxx:throw": 3}
    assert not any("no function" in note for note in session.notes)


COLD = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sdt.h>
__attribute__((noinline)) void take(const char *text) { DTRACE_PROBE2(shop, take, text, 3); }
int main(int argc, char **argv)
{
    /* nobody has read these pages yet: the file begins with \177ELF */
    for (int n = 0; n < 3; n++)
        take((char *)mmap(0, 4096, PROT_READ, MAP_PRIVATE, open(argv[0], O_RDONLY), 0) + 1);
    take((char *)8);
    return 0;
}
"""


def test_texts_on_pages_that_are_not_there_are_read_or_unknown(
    tmp_path: Path, mode: lbtrace.Mode
) -> None:
    program = str(tmp_path / "cold")
    subprocess.run(["gcc", "-w", "-x", "c", "-", "-o", program], input=COLD, text=True, check=True)
    definitions = tmp_path / "shop.d"
    for arguments in ("char *text, int count", "char *text, int text_length"):
        definitions.write_text(f"provider shop {{ probe take({arguments}); }};")
        options = lbtrace.Options(mode=mode)
        wanted = {"command": [program], "usdt": "shop:take", "providers": definitions}
        with lbtrace.trace(**wanted, options=options) as session:  # type: ignore[arg-type]
            *cold, none = [str(point) for point in session.calls()]
        assert len(cold) == 3
        for text in cold:
            assert 'text="ELF' in text or "text=<fault>" in text
        assert "text=<fault>" in none

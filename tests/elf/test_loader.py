"""What the loader brings with a program, as ldd(1) and the loader itself say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import closure, interpreter

PROGRAMS = ("/bin/bash", "/usr/bin/python3.11", "/usr/bin/gcc", "/usr/bin/perl", "/usr/bin/git")


def loaded(path: object, **environment: str) -> set[str]:
    """The files that the loader maps for a program, but for the program."""
    traced = os.environ | environment | {"LD_TRACE_LOADED_OBJECTS": "1"}
    reported = subprocess.run([path], env=traced, capture_output=True, text=True, check=True).stdout
    return {os.path.realpath(file) for file in re.findall(r"(/\S+) \(0x", reported)}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_loader_says_the_same(program: str) -> None:
    found = closure(program, os.environ)
    assert set(found.paths) - {os.path.realpath(program)} == loaded(program)
    assert not found.missing


@pytest.mark.parametrize("program", PROGRAMS)
def test_names_as_nm_has_them(program: str) -> None:
    names = Dynamic(Image.open(program)).imports
    words = ["nm", "-D", "--undefined-only", program]
    reported = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for line in reported.splitlines():
        assert line.split()[-1].partition("@")[0] in names, line


def library(directory: Path, name: str, *options: object) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    made, function = directory / f"lib{name}.so", f"int {name}(void) {{ return 0; }}"
    words = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", made, *options]
    subprocess.run(list(map(str, words)), input=function, text=True, check=True)
    return made


@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
def test_search_paths(tmp_path: Path, tags: str) -> None:
    """DT_RPATH counts for what libraries need, too, DT_RUNPATH for the file itself."""
    inner = library(tmp_path / "inner", "inner", "-Wl,-soname,libinner.so")
    library(tmp_path / "lib", "outer", "-Wl,-soname,libouter.so,--no-as-needed", inner)
    other = library(tmp_path / "other", "preloaded")
    program, here = tmp_path / "program", tmp_path / "lib"
    words = [
        *("gcc", "-x", "c", "-", "-x", "none", "-o", program, "-Wl,--no-as-needed", f"-L{here}"),
        *("-louter", f"-L{tmp_path}/inner", f"-Wl,{tags},-rpath,$ORIGIN/lib:${{ORIGIN}}/inner"),
    ]
    source = "int main(void) { return 0; }"
    subprocess.run(list(map(str, words)), input=source, text=True, check=True)
    new = tags == "--enable-new-dtags"
    found = closure(str(program), {})
    assert found.missing == (("libinner.so",) if new else ())
    environment = {"LD_LIBRARY_PATH": str(tmp_path / "inner"), "LD_PRELOAD": str(other)}
    found = closure(str(program), environment)
    assert not found.missing
    assert set(found.paths) - {str(program)} == loaded(program, **environment)
    assert str(other) in found.paths


def test_scripts_are_their_interpreters(tmp_path: Path) -> None:
    script, other = tmp_path / "script", tmp_path / "other"
    script.write_text("#! /bin/bash -e\necho")
    other.write_text(f"#!{script}\n")
    assert interpreter(str(other)) == "/bin/bash"
    assert closure(str(other), {}).paths[0] == os.path.realpath("/bin/bash")


def test_a_file_without_section_headers(tmp_path: Path) -> None:
    """The loader needs none."""
    data = bytearray(Path("/bin/bash").read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    bare = tmp_path / "bare"
    bare.write_bytes(data)
    one, other = Dynamic(Image.open("/bin/bash")), Dynamic(Image.open(str(bare)))
    for dynamic in one, other:
        assert "read" in dynamic.imports
        assert "malloc_nobody_has" not in dynamic.imports
    assert one.needed == other.needed

"""Functions against nm and readelf, on built programs and the system's own libraries."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError

ROW = re.compile(
    r"^\s*\d+:\s+([0-9a-f]+)\s+(\S+)\s+(\w+)\s+(\w+)\s+\w+\s+(?:\[.*?\]\s+)?(\w+)\s+(\S+)"
)

BUILDS = [
    ("-O0",),
    ("-O1", "-static"),
    ("-O2", "-fcf-protection"),
    ("-O2", "-static-pie"),
    ("-O2", "-no-pie"),
    ("-O2", "-s", "-rdynamic"),
    ("-O2", "-shared", "-fPIC"),
    ("-O2", "-Wl,-z,noseparate-code"),
]
SYSTEM = [
    "/usr/bin/python3.11",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/lib64/ld-linux-x86-64.so.2",
]


def shown_by_readelf(tool, path):
    """Names and sizes by address, and the indirect functions."""
    names, sizes, indirect = defaultdict(set), defaultdict(int), set()
    sections = re.findall(
        r"\]\s+(\.plt\S*)\s+\w+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)",
        tool("readelf", "-SW", path),
    )
    stubs = [(int(a, 16), int(a, 16) + int(n, 16)) for _, a, n in sections]
    rows = tool("readelf", "-sW", path)
    build_id = re.search(r"Build ID: ([0-9a-f]+)", tool("readelf", "-nW", path))
    apart = build_id and f"/usr/lib/debug/.build-id/{build_id[1][:2]}/{build_id[1][2:]}.debug"
    if apart and ".symtab" not in tool("readelf", "-SW", path) and Path(apart).exists():
        rows += tool("readelf", "-sW", apart)  # as where libc6-dbg is installed
    for line in rows.splitlines():
        row = ROW.match(line)
        if not row or row[5] in ("UND", "ABS") or row[3] not in ("FUNC", "IFUNC"):
            continue
        address, name = int(row[1], 16), row[6]
        if re.search(r"\.cold(\.\d+)?$", name) or any(a <= address < b for a, b in stubs):
            continue
        plain = name.partition("@@")[0]
        if row[3] == "IFUNC":
            indirect.add(plain)
            continue
        names[address].add(plain)
        sizes[address] = max(sizes[address], int(row[2], 0))
    return names, sizes, indirect


def compare(tool, path):
    table = symbols.read(Image.open(path))
    names, sizes, indirect = shown_by_readelf(tool, path)
    found = {f.address: f for f in table.functions}
    assert found.keys() == names.keys()
    for address, function in found.items():
        assert {function.name, *function.aliases} == names[address]
        assert len(function.aliases) + 1 == len(names[address])
        assert function.size == sizes[address] or sizes[address] == 0
        assert function.offset >= 0
    assert set(table.ifuncs) == indirect
    assert [f.address for f in table.functions] == sorted(found)
    assert set(found) <= set(table.starts)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", BUILDS, ids=" ".join)
def test_functions_of_built_programs(build, tool, flags, compiler):
    compare(tool, build(*flags, compiler=compiler))


@pytest.mark.parametrize("path", SYSTEM)
def test_functions_of_the_system(tool, path):
    compare(tool, path)


def test_a_cxx_program(build, tool):
    source = "#include <map>\n#include <string>\nint main() { std::map<std::string,int> m; m[{}]; }"
    compare(tool, build("-O1", source=source, compiler="g++"))


def test_aliases_fold_under_the_plainest_global_name(build):
    source = """
    int plain(int x) { return x; }
    int __plain(int) __attribute__((alias("plain")));
    static int local(int) __attribute__((alias("plain"), used));
    int main() { return plain(1); }
    """
    table = symbols.read(Image.open(build(source=source)))
    function = next(f for f in table.functions if "local" in f.aliases)
    assert function.name == "plain"
    assert function.aliases == ("__plain", "local")


def test_sizes_that_are_missing_reach_to_the_next_function(build):
    source = r"""
    __asm__(".globl first\n.type first,@function\nfirst: nop\n nop\n ret\n"
            ".globl second\n.type second,@function\nsecond: ret\n.size second,1\n");
    int main() { return 0; }
    """
    sizes = {f.name: f.size for f in symbols.read(Image.open(build(source=source))).functions}
    assert sizes["first"] == 3
    assert sizes["second"] == 1


def test_indirect_functions_are_not_functions(build):
    source = """
    static int fast(int x) { return x; }
    static void *choose(void) { return fast; }
    int chosen(int) __attribute__((ifunc("choose")));
    int main() { return chosen(1); }
    """
    table = symbols.read(Image.open(build(source=source)))
    assert table.ifuncs == ("chosen",)
    assert {"fast", "choose"} <= {f.name for f in table.functions}


def test_versions_are_shown_where_they_are_not_the_default(libc):
    table = symbols.read(Image.open(libc))
    names = {n for f in table.functions for n in (f.name, *f.aliases)}
    assert "pthread_create" in names
    assert table.default_version("pthread_create") == "GLIBC_2.34"
    assert "pthread_create@GLIBC_2.2.5" in names


def test_a_file_without_symbols_says_so(build):
    with pytest.raises(BinaryError, match="is stripped"):
        symbols.read(Image.open(build("-s")))


IN_A_CYCLE = """
import gc, sys
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
image = Image.open(sys.argv[1])
cycle = [symbols.read(image)]
cycle.append(cycle)
del cycle, image
gc.collect()
"""


def test_symbols_in_a_cycle_of_references_are_freed() -> None:
    run = [sys.executable, "-c", IN_A_CYCLE, sys.executable]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

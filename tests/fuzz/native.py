"""Compiles the fuzzers of lbtrace's C, with the sanitizers of clang.

python tests/fuzz/native.py DIRECTORY
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SANITIZED = ["-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"]
INCLUDED = [f"-I{ROOT / 'lbtrace/native'}", f"-I{ROOT / 'bpf_src'}"]


def reader(into: Path) -> Path:
    """The reader of the ring buffer. The rest of libbpf is left out by the linker."""
    libbpf = next((ROOT / "build/out/src").glob("pylibbpf-*/libbpf"))
    made = into / "reader"
    subprocess.run(
        ["clang", *SANITIZED, "-ffunction-sections", "-Wl,--gc-sections", "-w", *INCLUDED]
        + [f"-I{libbpf / 'include/uapi'}", f"-I{libbpf / 'include'}"]
        + [f"-I{ROOT / 'build/out/x86_64/include'}", HERE / "reader_fuzz.c", "-o", made],
        check=True,
    )
    return made


def demangler(into: Path) -> Path:
    """LLVM's demangler of C++ names with its bounds, as build/native.py compiles it."""
    spec = importlib.util.find_spec("ziglang")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    abi = Path(spec.submodule_search_locations[0]) / "lib/libcxxabi"
    made, compiled = into / "demangler", into / "demangler.o"
    bounded = [f"-D{f}=lbt_{f}" for f in ("malloc", "calloc", "realloc", "free")]
    subprocess.run(
        [
            "clang++",
            *SANITIZED,
            "-std=c++20",
            "-DNDEBUG",
            "-fno-exceptions",
            "-fno-rtti",
            "-w",
            *bounded,
        ]
        + ["-D_LIBCXXABI_BUILDING_LIBRARY", "-finstrument-functions-after-inlining"]
        + [f"-I{abi / 'include'}", "-fno-sanitize=vptr", "-stdlib=libc++"]
        + ["-c", abi / "src/cxa_demangle.cpp", "-o", compiled],
        check=True,
    )
    subprocess.run(
        ["clang", *SANITIZED, *INCLUDED, HERE / "demangle_fuzz.c", compiled, "-o", made],
        check=True,
    )
    return made


SCANS = ("symbol_table", "symbol_search", "function_names", "code_scan")


def symbol_table(into: Path) -> Path:
    """The columns of symbol tables, and the scans of code."""
    made = into / "symbol_table"
    own = [ROOT / f"lbtrace/native/{name}.c" for name in SCANS]
    command = ["clang", *SANITIZED, *INCLUDED, HERE / "symbol_table_fuzz.c", *own, "-o", made]
    subprocess.run(command, check=True)
    return made


def flow(into: Path) -> Path:
    """The following of x86-64 code."""
    made = into / "flow"
    names = ("x86_64_code", "answers", "flow", "flow_view", "flow_ends", "epilogues")
    own = [ROOT / f"lbtrace/native/{name}.c" for name in names]
    command = ["clang", *SANITIZED, *INCLUDED, HERE / "flow_fuzz.c", *own, "-o", made]
    subprocess.run(command, check=True)
    return made


FUZZERS = {
    "reader": reader,
    "demangler": demangler,
    "symbol_table": symbol_table,
    "flow": flow,
}

if __name__ == "__main__":
    for compile in FUZZERS.values():
        compile(Path(sys.argv[1]))

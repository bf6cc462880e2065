"""Compiles what the tests trace, for the machines of the matrix: guests have no compiler.

    python tests/vm/programs.py build/out/programs-vm x86_64 aarch64
    python tests/vm/programs.py build/out/programs-smoke x86_64 --only fib loop signatures-gcc-O2

Go's take most of the time: --only has none.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).resolve().parents[1]

COMPILERS = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}
SEED, FUNCTIONS = 1, 200
"""Of the program of random signatures, as test_go_values.py asks for it every day."""

GENERATED = {
    "signatures-gcc-O0": (None, "-O0"),
    "signatures-gcc-O2": (None, "-O2"),
    "kinds-g++-O0": ("kinds.cc", "-O0"),
    "kinds-g++-O2": ("kinds.cc", "-O2"),
    "floats-g++-O0": ("floats.cc", "-O0"),
}
"""A source of tests/programs, or None for random signatures, and the level of optimisation."""

GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def build(into: Path, machine: str) -> None:
    """Compile the programs of tests/programs for ``machine`` into ``into``, Go's below ``go``."""
    compiler = COMPILERS[machine]
    load(TESTS / "programs/build.py").build(into, compiler)
    load(TESTS / "programs/many.py").build(into / "many", compiler)
    _generated(into, compiler, GENERATED)
    _go(into, machine)


def build_named(into: Path, machine: str, names: Collection[str]) -> None:
    """Compile those programs alone, none of which is Go's. Raises `ValueError` for a name that
    no program has."""
    compiler = COMPILERS[machine]
    ordinary = load(TESTS / "programs/build.py")
    if unknown := set(names) - {*ordinary.PROGRAMS, *GENERATED, "many"}:
        raise ValueError(f"no such program: {' '.join(sorted(unknown))}")
    ordinary.build(into, compiler, names)
    if "many" in names:
        load(TESTS / "programs/many.py").build(into / "many", compiler)
    _generated(into, compiler, [name for name in GENERATED if name in names])


def _go(into: Path, machine: str) -> None:
    compiler = COMPILERS[machine]
    go, conftest = load(TESTS / "go_toolchains.py"), load(TESTS / "conftest.py")
    variables = {"GOARCH": GO_MACHINES[machine], "CC": compiler}
    kinds = {"fib": conftest.EVERYDAY_KINDS, "types": ("plain", "pie")}
    kinds |= dict.fromkeys(("callbacks", "ccalls"), ("cgo",))
    wanted = [
        (source, version, kind)
        for source in sorted((TESTS / "programs/go").glob("*.go"))
        for version in conftest.EVERYDAY
        for kind in kinds.get(source.stem, ("plain",))
    ]
    for version in conftest.EVERYDAY:
        go.goroot(version)  # fetched once, not by each of the threads

    def compile_go(wish: tuple[Path, str, str]) -> None:
        source, version, kind = wish
        flags, more = conftest.KINDS[kind]
        # Older versions link such programs with the C compiler.
        needs_c = {"CGO_ENABLED": "1"} if "-buildmode=pie" in flags else {}
        made = into / "go" / f"{source.stem}-{version}-{kind}"
        try:
            go.build(version, source, made, flags, **(variables | needs_c | more))
        except AssertionError as error:
            # Not every version compiles every program; a test that wants it misses it.
            print(f"left out: {made.name}: {str(error).splitlines()[-1]}", file=sys.stderr)

    generator = load(TESTS / "kernel/test_go_values.py").Generator(SEED)
    generator.write(FUNCTIONS)
    source = into / "signatures.go"
    source.write_text(generator.source)
    for version in conftest.EVERYDAY:
        go.build(version, source, into / "go" / f"signatures-{version}-{SEED}", **variables)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_go, wanted))


def _generated(into: Path, compiler: str, names: Iterable[str]) -> None:
    """What the tests would compile themselves, with gcc and g++."""
    for name in names:
        source, level = GENERATED[name]
        if source is None:
            signatures = load(TESTS / "kernel/test_signatures.py")
            text = signatures.source(sum(map(ord, f"gcc{level}")), 100)
            command = [compiler, "-g", level, "-w", "-x", "c", "-", "-o", into / name]
            subprocess.run(command, input=text, text=True, check=True)
        else:
            command = [compiler.replace("gcc", "g++"), "-std=c++17", "-g", level, "-o", into / name]
            subprocess.run([*command, TESTS / "programs" / source], check=True)


def load(path: Path) -> ModuleType:
    """The module in a file of the tests, which are no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("into", type=Path, help="a directory, which gets one for each machine")
    parser.add_argument("machines", nargs="+", choices=COMPILERS, metavar="machine")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="build these, none of Go's")
    options = parser.parse_args()
    start = time.monotonic()
    for machine in options.machines:
        into = options.into / machine
        if options.only is None:
            build(into, machine)
            continue
        try:
            build_named(into, machine, options.only)
        except ValueError as error:
            parser.error(str(error))
    print(f"programs: compiled in {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

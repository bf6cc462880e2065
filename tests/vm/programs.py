"""Compiles what the tests trace, for the machines of the matrix: guests have no compiler.

python tests/vm/programs.py build/out/programs-vm x86_64 aarch64
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).resolve().parents[1]

COMPILERS = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}
SEED, FUNCTIONS = 1, 200
"""Of the program of random signatures, as test_go_values.py asks for it every day."""

GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def build(into: Path, machine: str) -> None:
    """Compile the programs of tests/programs for ``machine`` into ``into``, Go's below ``go``."""
    compiler = COMPILERS[machine]
    load(TESTS / "programs/build.py").build(into, compiler)
    load(TESTS / "programs/many.py").build(into / "many", compiler)
    _generated(into, compiler)
    go, conftest = load(TESTS / "go_toolchains.py"), load(TESTS / "conftest.py")
    variables = {"GOARCH": GO_MACHINES[machine], "CC": compiler}
    kinds = {"fib": conftest.EVERYDAY_KINDS, "ccalls": ("cgo",), "types": ("plain", "pie")}
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


def _generated(into: Path, compiler: str) -> None:
    """What the tests would compile from texts of their own, with gcc."""
    signatures = load(TESTS / "kernel/test_signatures.py")
    for level in ("-O0", "-O2"):
        text = signatures.source(sum(map(ord, f"gcc{level}")), 100)
        command = [compiler, "-g", level, "-w", "-x", "c", "-", "-o"]
        made = into / f"signatures-gcc{level}"
        subprocess.run([*command, made], input=text, text=True, check=True)
    for source, level, made in (
        ("languages.cc", "-O0", "languages-g++"),
        ("kinds.cc", "-O0", "kinds-g++-O0"),
        ("kinds.cc", "-O2", "kinds-g++-O2"),
        ("floats.cc", "-O0", "floats-g++-O0"),
    ):
        command = [compiler.replace("gcc", "g++"), "-std=c++17", "-g", level, "-o", into / made]
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
    if len(sys.argv) < 3 or not set(sys.argv[2:]) <= set(COMPILERS):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    for machine in sys.argv[2:]:
        build(Path(sys.argv[1], machine), machine)
    return 0


if __name__ == "__main__":
    sys.exit(main())

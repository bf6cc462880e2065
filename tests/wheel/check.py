"""Installs a wheel into clean virtual environments, and traces with it.

    python tests/wheel/check.py WHEEL

One environment for each Python from 3.10 on that the machine has; with
LBTRACE_REQUIRE holding ``pythons``, fewer than two are a failure.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEEL_LIMIT = 9 << 18
INSTALLED_LIMIT = 25 << 20
"""Bytes: what the wheel, and it with all it depends on, may take."""

NEEDED = (
    *("_libbpf.abi3.so", "_demangle.abi3.so", "_faults.abi3.so", "py.typed"),
    *("commands/shells/lbtrace.bash", "share/man/man1/lbtrace.1", "lbtrace/docs/values.md"),
    *("_symbol_table.abi3.so", "_unwind_rows.abi3.so", "_code_scan.abi3.so", "_fast_path.abi3.so"),
    *(f"{name}.{platform.machine()}.bpf.o" for name in ("trace", "early", "atomic")),
)
"""Files that a wheel without them would miss only when it runs."""

LICENCES = {
    "LICENSE": "Apache License",
    "NOTICE": "libbpf-BSD-2-Clause.txt",
    "licenses/libbpf-BSD-2-Clause.txt": "Redistribution and use",
    "licenses/elfutils-LGPL-3.0.txt": "GNU LESSER GENERAL PUBLIC LICENSE",
    "licenses/elfutils-GPL-3.0.txt": "GNU GENERAL PUBLIC LICENSE",
    "licenses/zlib.txt": "Jean-loup Gailly",
    "licenses/libcxxabi-Apache-2.0-LLVM.txt": "LLVM Exceptions",
    "licenses/GPL-2.0.txt": "GNU GENERAL PUBLIC LICENSE",
}
"""The texts of the licences of all that is linked into the wheel, and words of them."""

RACKET = (ROOT / "tests/kernel/racket/fib-4.txt").read_text()


def main(wheel: Path) -> int:
    assert wheel.stat().st_size < WHEEL_LIMIT, f"{wheel} is too large"
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    for needed in NEEDED:
        assert any(name.endswith(needed) for name in names), f"{needed} is not in {wheel}"
    for licence, words in LICENCES.items():
        (path,) = [n for n in names if n.endswith(f".dist-info/licenses/{licence}")]
        assert words in archive.read(path).decode(), f"{licence} is another text"
    found = pythons()
    if len(found) < 2 and "pythons" in os.environ.get("LBTRACE_REQUIRE", "").split(","):
        print(f"only {len(found)} Python from 3.10 on was found", file=sys.stderr)
        return 1
    for version, interpreter in found.items():
        with tempfile.TemporaryDirectory() as directory:
            size = check(wheel, interpreter, Path(directory))
        print(f"Python {version}: installs, imports, traces; {size / 1e6:.1f} MB installed")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e3:.0f} kB")
    print(f"{len(found)} passed, 0 failed")
    return 0


def pythons() -> dict[str, str]:
    """The interpreters in PATH and below pyenv, by version; one of each."""
    candidates = [shutil.which(f"python3.{minor}") for minor in range(10, 20)]
    candidates += ["/usr/bin/python3", sys.executable]
    candidates += map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    found: dict[str, str] = {}
    for candidate in filter(None, candidates):
        reported = subprocess.run(
            [candidate, "-c", "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        version = reported.stdout.strip()
        if reported.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 10):
            found.setdefault(version, candidate)
    return dict(sorted(found.items(), key=lambda item: tuple(map(int, item[0].split(".")))))


def check(wheel: Path, interpreter: str, directory: Path) -> int:
    """Install, trace fib; bytes that the installation takes."""
    run(interpreter, "-m", "venv", directory)
    before = occupied(directory)
    # Byte code is made when it is first used; it is no part of what is installed.
    run(directory / "bin/pip", "install", "--quiet", "--no-compile", wheel)
    size = occupied(directory) - before
    assert size < INSTALLED_LIMIT, f"{size} bytes installed"
    program = directory / "fib"
    run("gcc", "-O1", "-g", ROOT / "tests/programs/fib.c", "-o", program)
    lbtrace = directory / "bin/lbtrace"
    assert "0.1.0" in run(lbtrace, "--version")
    assert not imported_before(directory / "bin/python", lbtrace)
    if subprocess.run([lbtrace, "doctor"], capture_output=True, check=False).returncode == 0:
        printed = run(
            *(lbtrace, "attach", "--func", "fib", "--format", "racket", "--quiet"),
            *("-o", directory / "out", "--", program, "4"),
        )
        assert printed == "fib(4) = 3\n", printed
        assert (directory / "out").read_text() == RACKET
        run(directory / "bin/python", "-W", "error", ROOT / "tests/wheel/api.py", program)
    elif "kernel" in os.environ.get("LBTRACE_REQUIRE", "").split(","):
        raise SystemExit("this machine cannot trace")
    return size


def imported_before(python: Path, lbtrace: Path) -> list[str]:
    """The modules that the command imports after Python's own start and before lbtrace: meanwhile
    Ctrl-C would end it with a traceback."""
    done = subprocess.run(
        [python, "-X", "importtime", lbtrace, "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.split("|")[-1].strip() for line in done.stderr.splitlines()]
    return [n for n in names[names.index("site") + 1 : names.index("lbtrace")] if n != "_signal"]


def occupied(directory: Path) -> int:
    return sum(
        p.stat().st_size
        for p in directory.rglob("*")
        if p.is_file() and not p.is_symlink() and "__pycache__" not in p.parts
    )


def run(*words: object) -> str:
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, cwd="/"
    )
    if done.returncode:
        raise SystemExit(f"{words} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))

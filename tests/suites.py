"""Runs the test suites of real programs while their functions are traced.

    python tests/suites.py [NAME ...]

Evidence that tracing changes nothing: each suite must pass, with nothing
lost. Takes minutes, so it is no part of the everyday tests. The suites are
those that lie beside this Python (``test_json``, ``test_sqlite3`` for
SQLite), and redis's own, whose source package apt-get fetches.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
ACCOUNT = re.compile(r"lbtrace: ([\d,]+ calls .*)")

Case = tuple[str, list[str], list[str], Path]
"""The binary, the functions, the command, and where it runs."""


def python_json(scratch: Path) -> Iterator[Case]:
    library = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("LDLIBRARY")
    binary = str(library if library.suffix != ".a" else PYTHON)
    command = [str(PYTHON), "-m", "test", "test_json"]
    yield binary, ["Py*_*Dict*", "PyList_*", "PyLong_*"], command, scratch


def sqlite(scratch: Path) -> Iterator[Case]:
    command = [str(PYTHON), "-m", "test", "test_sqlite3"]
    yield "libsqlite3.so.0", ["sqlite3_*"], command, scratch


def redis(scratch: Path) -> Iterator[Case]:
    subprocess.run(
        ["apt-get", "source", "-qq", "redis"], cwd=scratch, check=True, env=_apt(scratch)
    )
    (source,) = (path for path in scratch.glob("redis-*") if path.is_dir())
    for tool in ("redis-server", "redis-cli", "redis-benchmark"):
        (source / "src" / tool).symlink_to(f"/usr/bin/{tool}")
    for unit in ("unit/type/string", "unit/type/hash", "unit/expire"):
        command = ["./runtest", "--clients", "1", "--single", unit]
        yield "/usr/bin/redis-server", ["*"], command, source


SUITES: dict[str, Callable[[Path], Iterator[Case]]] = {
    "json": python_json,
    "sqlite": sqlite,
    "redis": redis,
}


def source_package(name: str, into: Path, *, patched: bool = True) -> Path:
    """Return the directory of a source package of Debian, fetched if need be, with the patches of
    Debian or as its authors published it."""
    kept = into / f"{name}{'' if patched else '.orig'}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=_made(into)) as directory:
            scratch = Path(directory)
            words = ["apt-get", "source", "-qq", name]
            words += [] if patched else ["--download-only"]
            subprocess.run(words, cwd=scratch, check=True, env=_apt(scratch), capture_output=True)
            if not patched:
                (archive,) = scratch.glob("*.orig.tar.*")
                subprocess.run(["tar", "-xf", archive], cwd=scratch, check=True)
            (found,) = (path for path in scratch.glob(f"{name}-*") if path.is_dir())
            found.rename(kept)
    return kept


def binary_package(name: str, into: Path) -> Path:
    """Return the directory with the files of a package of Debian, fetched if need be."""
    kept = into / name
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=_made(into)) as directory:
            words = ["apt-get", "download", "-qq", name]
            subprocess.run(words, cwd=directory, check=True, capture_output=True)
            (archive,) = Path(directory).glob("*.deb")
            unpacked = Path(directory) / "unpacked"
            subprocess.run(["dpkg-deb", "-x", archive, unpacked], check=True)
            unpacked.rename(kept)
    return kept


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _apt(scratch: Path) -> dict[str, str]:
    """The machine's own package sources, with sources of packages as well."""
    parts = scratch / "apt"
    (parts / "lists").mkdir(parents=True)
    (parts / "cache").mkdir()
    here = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for file in here:
        if file.suffix in (".list", ".sources") and file.is_file():
            text = re.sub(r"^(Types: )?deb(?=\s)", r"\1deb-src", file.read_text(), flags=re.M)
            (parts / file.name).write_text(text)
    conf = parts / "apt.conf"
    conf.write_text(
        f'Dir::State::Lists "{parts}/lists";\nDir::Cache "{parts}/cache";\n'
        f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "{parts}";\n'
    )
    environment = os.environ | {"APT_CONFIG": str(conf)}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    return environment


def run(name: str) -> bool:
    """Run one suite, print its result, and return whether all is well."""
    well = True
    with tempfile.TemporaryDirectory(prefix="lbtrace-suite-") as directory:
        for binary, functions, command, where in SUITES[name](Path(directory)):
            options = [word for function in functions for word in ("--func", function)]
            trace = [sys.executable, "-m", "lbtrace", "attach", "--binary", binary, *options]
            done = subprocess.run(
                [*trace, "--args", "1", "--strict", "--force", "-o", "/dev/null", "--format"]
                + ["lbt", "--", *command],
                cwd=where,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=False,
            )
            account = ACCOUNT.findall(done.stderr) or ["no account"]
            print(
                f"{name}: {' '.join(command)}: status {done.returncode}; {account[-1]}", flush=True
            )
            if done.returncode:
                print(done.stdout[-2000:], done.stderr[-2000:], sep="\n")
                well = False
    return well


if __name__ == "__main__":
    outcomes = [run(name) for name in sys.argv[1:] or SUITES]
    sys.exit(not all(outcomes))

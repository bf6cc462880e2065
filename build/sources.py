"""Fetches the C libraries that are linked into the extension module.

libbpf travels in a source distribution on the Python package index, libelf
(elfutils) and zlib in Debian's source packages. Each archive is pinned by its
SHA-256, whoever serves it. Where neither pip nor apt can fetch them, put the
archives into a directory and name it in LBTRACE_SOURCES.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

DEBIAN_SUITE = "bookworm"
"""The suite whose source packages hold the pinned versions."""


@dataclass(frozen=True)
class Source:
    """An archive, the checksum it must have, and the directory inside it to build."""

    archive: str
    sha256: str
    directory: str
    package: str


LIBBPF = Source(
    "pylibbpf-0.0.6.tar.gz",
    "9c69251fda34f38fe183a666936d54ab32e511cfd24ce70cdc8e0f085e8e3abb",
    "pylibbpf-0.0.6/libbpf",
    "pylibbpf==0.0.6",
)
ELFUTILS = Source(
    "elfutils_0.188.orig.tar.bz2",
    "fb8b0e8d0802005b9a309c60c1d8de32dd2951b56f0c3a3cb56d21ce01595dff",
    "elfutils-0.188",
    "elfutils",
)
ZLIB = Source(
    "zlib_1.2.13.dfsg.orig.tar.bz2",
    "71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1",
    "zlib-1.2.13.dfsg",
    "zlib",
)


def fetch(into: Path) -> None:
    """Unpack all sources below ``into``, downloading what is not there."""
    into.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:  # pip and apt wait for servers of their own
        list(pool.map(partial(_fetch, into), ((LIBBPF,), (ELFUTILS, ZLIB))))


def _fetch(into: Path, sources: tuple[Source, ...]) -> None:
    for source in sources:
        if (into / source.directory).is_dir():
            continue
        archive = into / source.archive
        given = os.environ.get("LBTRACE_SOURCES")
        if given and (Path(given) / source.archive).is_file():
            shutil.copy(Path(given) / source.archive, archive)
        elif not archive.is_file():
            _download(source, into)
        _check(archive, source.sha256)
        with tarfile.open(archive) as tar:
            tar.extractall(into)


def _check(archive: Path, sha256: str) -> None:
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        archive.unlink()
        raise SystemExit(f"{archive.name}: SHA-256 is {found}, not {sha256}: refused")


def _download(source: Source, into: Path) -> None:
    if "==" in source.package:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        _run([*pip, "--no-binary", source.package.partition("==")[0], source.package], into)
    elif shutil.which("apt-get"):
        config = _private_apt(into / "apt")
        environment = os.environ | {"APT_CONFIG": str(config)}
        if not any((into / "apt/lists").glob("*Sources")):
            _run(["apt-get", "-qq", "update"], into, environment)
        _run(["apt-get", "-qq", "source", "--download-only", source.package], into, environment)
    if not (into / source.archive).is_file():
        raise SystemExit(
            f"cannot fetch {source.archive}\n"
            f"put it into a directory and set LBTRACE_SOURCES to that directory"
        )


def _run(command: list[str], cwd: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=environment, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def _private_apt(home: Path) -> Path:
    """A configuration that sees the machine's own mirror, but source packages."""
    (home / "lists/partial").mkdir(parents=True, exist_ok=True)
    uri, keyring = _debian_mirror()
    signed = f"[signed-by={keyring}] " if keyring else ""
    (home / "sources.list").write_text(f"deb-src {signed}{uri} {DEBIAN_SUITE} main\n")
    config = home / "apt.conf"
    config.write_text(
        f'Dir::Etc::sourcelist "{home}/sources.list";\n'
        'Dir::Etc::sourceparts "-";\n'
        f'Dir::State::lists "{home}/lists";\n'
        'APT::Sandbox::User "root";\n'
    )
    return config


def _debian_mirror() -> tuple[str, str]:
    """URI and keyring of the machine's main Debian archive."""
    release = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    codename = release.get("VERSION_CODENAME", "").strip('"')
    etc = Path("/etc/apt")
    for path in sorted(etc.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", stanza, re.M))
            if codename in fields.get("Suites", "").split():
                return fields["URIs"].split()[0], fields.get("Signed-By", "")
    for path in [etc / "sources.list", *sorted(etc.glob("sources.list.d/*.list"))]:
        text = path.read_text() if path.is_file() else ""
        for options, uri in re.findall(
            rf"^deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+{re.escape(codename)}\s", text, re.M
        ):
            keyring = re.search(r"signed-by=(\S+)", options)
            return uri, keyring[1] if keyring else ""
    raise SystemExit(
        "no Debian archive in the apt configuration\n"
        "put the archives of build/sources.py into a directory and name it in LBTRACE_SOURCES"
    )

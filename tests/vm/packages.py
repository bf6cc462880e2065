"""Packages of any Debian suite and architecture, without touching the machine's own apt.

Each (suite, architecture) has its own lists, cache and empty status file under
the cache directory. The archive is the one the machine's apt already uses for
Debian, or the one named by ``LBTRACE_MIRROR``.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from cache import OUT

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LISTS_KEPT_SECONDS = 24 * 3600


class PackageError(Exception):
    """apt could not deliver; the message is its own."""


@dataclass(frozen=True)
class Package:
    """A package file in the archive. ``file`` names its version and architecture."""

    name: str
    file: str


def mirror() -> str:
    """The address of the Debian archive."""
    if address := os.environ.get("LBTRACE_MIRROR"):
        return address
    targets = _run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(SITE)"])
    for line in targets.splitlines():
        origin, label, site = line.split(" ", 2)
        if (origin, label) == ("Debian", "Debian"):
            return site
    raise PackageError(
        "this machine's apt knows no Debian archive: run `apt-get update`, or name one in"
        " LBTRACE_MIRROR"
    )


class Suite:
    """One suite of the archive for one architecture."""

    def __init__(self, suite: str, architecture: str) -> None:
        self._directory = OUT / "apt" / f"{suite}-{architecture}"
        self._environment = {**os.environ, "APT_CONFIG": str(self._directory / "apt.conf")}
        self._configure(suite, architecture)
        self._update()

    def closure(self, names: list[str]) -> list[Package]:
        """``names`` and all they depend on, in the order of their file names."""
        uris = self._apt_get("install", "--print-uris", "--no-install-recommends", *names)
        files = [line.split()[1] for line in uris.splitlines() if line.startswith("'")]
        return [Package(file.split("_")[0], file) for file in sorted(files)]

    def download(self, packages: list[Package]) -> list[Path]:
        """Fetch ``packages``, those not there yet, and return their files."""
        pool = self._directory / "pool"
        pool.mkdir(exist_ok=True)
        if missing := [p.name for p in packages if not (pool / p.file).exists()]:
            self._apt_get("download", *missing, cwd=pool)
        return [pool / package.file for package in packages]

    def _configure(self, suite: str, architecture: str) -> None:
        directory = self._directory
        for part in ("lists/partial", "archives/partial", "none"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        (directory / "status").touch()
        # The index of an unreleased suite expires within a week wherever a mirror lags.
        expiry = " check-valid-until=no" if suite == "sid" else ""
        options = f"[signed-by={KEYRING}{expiry}]"
        (directory / "sources.list").write_text(f"deb {options} {mirror()} {suite} main\n")
        settings = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "root",
            "Dir::State": directory,
            "Dir::State::lists": directory / "lists",
            "Dir::State::status": directory / "status",
            "Dir::Cache": directory,
            "Dir::Cache::archives": directory / "archives",
            "Dir::Etc::sourcelist": directory / "sources.list",
            "Dir::Etc::sourceparts": directory / "none",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": directory / "none",
            "Acquire::Languages": "none",
        }
        lines = [f'{name} "{value}";\n' for name, value in settings.items()]
        (directory / "apt.conf").write_text("".join(lines))

    def _update(self) -> None:
        stamp = self._directory / "updated"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_KEPT_SECONDS:
            return
        self._apt_get("update", "-o", "APT::Update::Error-Mode=any")
        stamp.touch()

    def _apt_get(self, *arguments: str, cwd: Path | None = None) -> str:
        return _run(["apt-get", "-qq", *arguments], environment=self._environment, cwd=cwd)


def unpack(files: list[Path], root: Path) -> None:
    """Unpack package ``files`` into the directory ``root``, without their scripts."""
    root.mkdir(parents=True, exist_ok=True)
    for file in files:
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", str(file)], stdout=subprocess.PIPE
        ) as archive:
            subprocess.run(
                ["tar", "-x", "--keep-directory-symlink", "-C", str(root)],
                stdin=archive.stdout,
                check=True,
            )
        if archive.returncode != 0:
            raise PackageError(f"{file.name} cannot be unpacked")


def _run(
    command: list[str], environment: dict[str, str] | None = None, cwd: Path | None = None
) -> str:
    result = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise PackageError(f"{' '.join(command[:4])} …: {result.stderr.strip()}")
    return result.stdout

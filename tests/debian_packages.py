"""Source and binary packages of Debian, fetched once."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path


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

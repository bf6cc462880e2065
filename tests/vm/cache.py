"""What is made once and used again: directories and files named by what they were made from."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
OUT = Path(os.environ.get("LBTRACE_VM_OUT", REPOSITORY / "build" / "out" / "vm"))
"""Everything the virtual machines are made of, and their results. Ignored by git."""


def digest(*parts: str | bytes) -> str:
    """A short name for whatever ``parts`` say an artefact was made from."""
    content = hashlib.sha256()
    for part in parts:
        content.update(part.encode() if isinstance(part, str) else part)
        content.update(b"\0")
    return content.hexdigest()[:16]


def recipe(*modules: str) -> bytes:
    """The source of ``modules`` of this directory: when it changes, so does what it makes."""
    directory = Path(__file__).parent
    return b"\0".join((directory / name).read_bytes() for name in modules)


def made(path: Path, make: Callable[[Path], None]) -> Path:
    """Return ``path``; if it is not there, let ``make`` fill it.

    ``make`` gets a path beside it that is renamed when all is done, so what is
    found under ``path`` is whole.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=".making-", dir=path.parent))
        try:
            make(workshop / path.name)
            (workshop / path.name).rename(path)
        finally:
            shutil.rmtree(workshop)
    return path

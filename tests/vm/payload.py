"""What one run brings into the guest: the installed wheel, the tests, the programs they trace."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import wheels
from cache import REPOSITORY
from image import make_image
from interpreter import Interpreter
from kernels import Kernel

GUEST = Path(__file__).parent / "guest"


def build(
    image: Path,
    kernel: Kernel,
    interpreter: Interpreter,
    *,
    wheel: Path,
    tests: Path,
    programs: Path | None,
    environment: dict[str, str],
) -> None:
    """Write the payload's ``image``: the guest mounts it at /payload."""
    with TemporaryDirectory(dir=image.parent) as scratch:
        directory = Path(scratch, "payload")  # whose mode lets everyone in
        directory.mkdir()
        shutil.copytree(
            wheels.install(wheel, kernel.machine, interpreter), directory / "site", symlinks=True
        )
        source = directory / "source"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(tests, source / "tests", ignore=ignored, symlinks=True)
        shutil.copytree(GUEST, source / "guest", ignore=ignored)
        shutil.copy(REPOSITORY / "pyproject.toml", source)
        shutil.copy(GUEST / "run", directory)
        if programs:
            shutil.copytree(programs, directory / "programs", symlinks=True)
        settings = {"LBTRACE_VM_KERNEL": kernel.name, **environment}
        (directory / "environment").write_text(
            "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items())
        )
        make_image(directory, image, "payload")

"""What one run brings into the guest: the installed wheel, the tests, the programs they trace."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

from cache import OUT, REPOSITORY, digest, made, recipe
from image import make_image
from interpreter import Interpreter
from kernels import Kernel
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

GUEST = Path(__file__).parent / "guest"


class WheelError(Exception):
    """No wheel given fits the guest."""


def choose_wheel(wheels: Iterable[Path], machine: str) -> Path:
    """The one of ``wheels`` whose platform is ``machine`` (or any)."""
    for wheel in wheels:
        platforms = {tag.platform for tag in parse_wheel_filename(wheel.name)[3]}
        if any(platform == "any" or platform.endswith(machine) for platform in platforms):
            return wheel
    raise WheelError(f"none of the wheels given is for {machine}: give one with --wheel")


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
    directory = image.with_suffix(".tree")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    shutil.copytree(_site(kernel, wheel, interpreter), directory / "site", symlinks=True)
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
    shutil.rmtree(directory)


def _site(kernel: Kernel, wheel: Path, interpreter: Interpreter) -> Path:
    """``wheel``, what it requires and pytest, installed into a directory for the guest."""
    requirements = ["pytest", *_requirements(wheel, kernel.machine)]
    key = digest(recipe("payload.py", "interpreter.py"), wheel.read_bytes(), kernel.machine)
    index = digest("\n".join(sorted(requirements)), kernel.machine, interpreter.version)
    target = _target_options(kernel.machine, interpreter.version)
    wheels = made(
        OUT / "wheels" / index,
        lambda path: _pip("download", "--dest", str(path), *target, *requirements),
    )

    def make(path: Path) -> None:
        files = [str(file) for file in (*wheels.iterdir(), wheel)]
        _pip("install", "--no-deps", "--no-compile", "--target", str(path), *target, *files)
        for script in (path / "bin").glob("*"):
            # pip names the interpreter it runs in itself.
            text = script.read_text()
            script.write_text(re.sub(r"\A#!.*", "#!/usr/bin/python3", text))
        interpreter.compile(path, "/payload/site")

    return made(OUT / "sites" / f"{kernel.machine}-{key}", make)


def _requirements(wheel: Path, machine: str) -> list[str]:
    """What ``wheel`` requires on ``machine``; pip alone would answer for the host."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    guest = {"platform_machine": machine, "extra": ""}
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    return [
        f"{requirement.name}{requirement.specifier}"
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate(guest)
    ]


def _target_options(machine: str, python: str) -> list[str]:
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(41, 16, -1)]
    platforms += [f"manylinux2014_{machine}", f"linux_{machine}"]
    return [
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={python}"),
        *(f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")),
        *(f"--platform={platform}" for platform in platforms),
    ]


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-qq", *arguments], check=True)

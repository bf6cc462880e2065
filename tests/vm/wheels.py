"""Wheels for the guest, fetched and installed by the host's pip on its behalf.

The guest may be of another architecture and Python than the host, and has no network.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

from cache import OUT, digest, made, recipe
from interpreter import Interpreter
from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename


class WheelError(Exception):
    """No wheel given fits the guest."""


def choose(wheels: Iterable[Path], machine: str) -> Path:
    """The one of ``wheels`` whose platform is ``machine`` (or any)."""
    for wheel in wheels:
        try:
            platforms = {tag.platform for tag in parse_wheel_filename(wheel.name)[3]}
        except InvalidWheelFilename as error:
            raise WheelError(str(error)) from None
        if any(platform == "any" or platform.endswith(machine) for platform in platforms):
            return wheel
    raise WheelError(f"none of the wheels given is for {machine}: give one with --wheel")


def download(wheel: Path, machine: str, python: str) -> Path:
    """A directory of wheels: pytest, and what ``wheel`` requires on that machine and Python."""
    requirements = ["pytest", "pytest-timeout", *_requirements(wheel, machine)]
    key = digest("\n".join(sorted(requirements)), machine, python)
    target = _target_options(machine, python)
    return made(
        OUT / "wheels" / key,
        lambda path: _pip("download", "--dest", str(path), *target, *requirements),
    )


def install(wheel: Path, machine: str, interpreter: Interpreter) -> Path:
    """A directory in which ``wheel``, what it requires and pytest are installed and compiled."""
    wheels = download(wheel, machine, interpreter.version)
    key = digest(recipe("wheels.py", "interpreter.py"), wheel.read_bytes(), wheels.name)

    def make(path: Path) -> None:
        files = [str(file) for file in (*sorted(wheels.iterdir()), wheel)]
        target = _target_options(machine, interpreter.version)
        _pip("install", "--no-deps", "--no-compile", "--target", str(path), *target, *files)
        for script in (path / "bin").glob("*"):
            # pip names the interpreter it runs in itself.
            script.write_text(re.sub(r"\A#!.*", "#!/usr/bin/python3", script.read_text()))
        interpreter.compile(path, "/payload/site")

    return made(OUT / "sites" / f"{machine}-{key}", make)


def _requirements(wheel: Path, machine: str) -> list[str]:
    """What ``wheel`` requires on ``machine``; pip alone would answer for the host."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            metadata = Parser().parsestr(archive.read(name).decode())
    except (zipfile.BadZipFile, ValueError):
        raise WheelError(f"{wheel} is no wheel: build it anew (make wheels)") from None
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

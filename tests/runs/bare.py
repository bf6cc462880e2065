"""A machine that has what build/bootstrap names, and nothing else, as far as commands tell.

The commands of those packages, of what they depend on and of what every Debian has are
linked into one directory, which is all of PATH; HOME is empty. A tool that happened to be there,
or a setting of somebody's shell, then shows at once, and not on the next machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

COMMANDS = (Path("/usr/sbin"), Path("/usr/bin"))

GIVEN = ("make", "apt")
"""What a person needs to begin: README says `make`, and packages come through apt."""

REPLACEMENTS = {"rustc": "rustc-web"}
"""Packages that build/bootstrap takes in place of others where they exist."""

KEPT = re.compile(
    r"(?i)(https?|no|all)_proxy|pip_.*|ssl_cert_.*|.*_ca_bundle|term|ci"
    r"|lbtrace_(require|seed|go_out|vm_out)"
)
"""Variables that stay: how this machine reaches package indexes, and what the tests are
reported."""


def environment(directory: Path, kinds: Iterable[str]) -> dict[str, str]:
    """The variables of a bare machine: PATH and HOME lie in ``directory``.

    ``kinds`` are arguments of build/bootstrap; of its packages those count that are installed, so
    this is called again when more are.
    """
    commands, home = directory / "commands", directory / "home"
    home.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(commands, ignore_errors=True)
    commands.mkdir()
    for name, file in sorted(_commands(_closure(_declared(kinds))).items()):
        (commands / name).symlink_to(file)
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    settings = Path.home() / ".config/pip/pip.conf"
    if settings.exists():
        kept.setdefault("PIP_CONFIG_FILE", str(settings))
    return kept | {"PATH": str(commands), "HOME": str(home), "LANG": "C.UTF-8"}


def _declared(kinds: Iterable[str]) -> set[str]:
    """The packages that build/bootstrap makes sure of."""
    lines = [_lines("sh", str(ROOT / "build/bootstrap"), kind, "names") for kind in kinds]
    return {*GIVEN, *(name for names in lines for name in names)}


def _closure(names: Collection[str]) -> set[str]:
    """``names``, what every Debian has, and what of their dependencies is installed."""
    fields = "${Package}\t${Priority}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
    needs: dict[str, list[str]] = {}
    providers: dict[str, list[str]] = {}
    todo = [*names, *(REPLACEMENTS[name] for name in names if name in REPLACEMENTS)]
    for line in _lines("dpkg-query", "-W", "-f", fields):
        package, priority, provided, depends = line.split("\t")
        needs[package] = _names(depends)
        for virtual in _names(provided):
            providers.setdefault(virtual, []).append(package)
        if priority == "required":
            todo.append(package)
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in found:
            continue
        todo += providers.get(name, [])
        if name in needs:
            found.add(name)
            todo += needs[name]
    return found


def _names(relations: str) -> list[str]:
    """The packages of a field like ``a (>= 1), b | c:any``."""
    return re.findall(r"(?:^|[,|])\s*([^\s,|:(]+)", relations)


def _commands(packages: Collection[str]) -> dict[str, Path]:
    """The commands of ``packages``, also those that Debian's alternatives link to."""
    # /bin is /usr/bin, and packages name the one or the other.
    lines = [re.sub("^/(s?bin/)", r"/usr/\1", s) for s in _lines("dpkg", "-L", *sorted(packages))]
    installed = set(map(Path, lines))
    files = (file for directory in COMMANDS for file in directory.iterdir())
    return {file.name: file for file in files if {file, file.resolve()} & installed}


def _lines(*command: str) -> list[str]:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()

"""The guest's own Python, run on the host, to compile what the guest will import.

In an emulated machine compiling the standard library would take minutes.
Bytecode does not depend on the architecture, so one interpreter that runs
here serves all guests.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from cache import OUT, digest, made, recipe
from packages import Suite, unpack

USERLAND = "trixie"
"""The Debian release of the guests' user space: as new as any that builds lbtrace or its tests'
programs, so that these find the C library they were linked with."""

COMPILE = """
import compileall, py_compile, sys
compileall.compile_dir(
    sys.argv[1], quiet=1, stripdir=sys.argv[1], prependdir=sys.argv[2],
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
"""


class Interpreter:
    """The guests' Python, unpacked for this machine's architecture."""

    def __init__(self) -> None:
        result = subprocess.run(
            ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
        )
        suite = Suite(USERLAND, result.stdout.strip())
        packages = suite.closure(["python3"])
        key = digest(recipe("interpreter.py"), *(package.file for package in packages))
        self._tree = made(
            OUT / "interpreters" / key, lambda path: unpack(suite.download(packages), path)
        )
        name = os.readlink(self._tree / "usr/bin/python3")
        version = re.fullmatch(r"python(\d+\.\d+)", name)
        assert version, name
        self.version: str = version[1]
        """Such as ``3.13``."""

    def compile(self, directory: Path, shown_as: str) -> None:
        """Compile all modules below ``directory``, which the guest sees as ``shown_as``.

        Modules that are not valid Python (test data of others) are left as they are.
        """
        (loader,) = self._tree.glob("usr/lib*/ld-linux-*.so.*")
        (libraries,) = self._tree.glob("usr/lib/*-linux-gnu")
        subprocess.run(
            [
                *(str(loader), "--library-path", str(libraries)),
                *(str(self._tree / f"usr/bin/python{self.version}"), "-s", "-S", "-c"),
                *(COMPILE, str(directory), shown_as),
            ],
            env={**os.environ, "PYTHONHOME": str(self._tree / "usr")},
            check=True,
            stdout=subprocess.DEVNULL,
        )

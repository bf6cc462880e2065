"""Extension modules that a CPython program may import while it runs, as far as they are installed
where its ``site`` module looks (Lib/site.py)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from lbtrace.system.lookups import note

PACKAGES = ("lib/python3*/site-packages", "lib/python3*/dist-packages")
"""Where packages lie below a prefix; the latter is Debian's."""


def find_modules(programs: Iterable[str], name: str) -> list[str]:
    """Return the files of the extension module ``name`` (``package/module``) that ``programs``, or
    what has CPython's library beside it, may import."""
    from glob import escape, glob  # imported here because few programs are CPython

    found: dict[str, None] = {}
    for directory in dict.fromkeys(_directories(programs)):
        note(directory)
        found |= dict.fromkeys(glob(f"{escape(os.path.join(directory, name))}.*.so"))
    return list(found)


def _directories(programs: Iterable[str]) -> Iterator[str]:
    yield from filter(None, os.environ.get("PYTHONPATH", "").split(":"))
    from glob import escape, glob  # imported here, as above

    for prefix in dict.fromkeys(_prefixes(programs)):
        for packages in PACKAGES:
            yield from sorted(glob(os.path.join(escape(prefix), packages)))


def _prefixes(programs: Iterable[str]) -> Iterator[str]:
    yield from filter(None, (os.environ.get("VIRTUAL_ENV"), os.path.expanduser("~/.local")))
    for program in filter(None, programs):
        for path in (program, os.path.realpath(program)):
            prefix = os.path.dirname(os.path.dirname(path))
            yield prefix
            yield os.path.join(prefix, "local")

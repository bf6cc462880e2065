"""What the processes of a command have mapped when it was traced before: what is to be expected of
libraries that it loads by dlopen(3), of which nothing in its file tells."""

from __future__ import annotations

import os
from collections.abc import Set
from contextlib import suppress

from lbtrace.errors import CommandError
from lbtrace.files import cache
from lbtrace.targets.command import find_command

MOST = 1000
"""Files that are kept."""


class MappedBefore:
    """Keeps paths between runs (`lbtrace.files.cache`), by the file that ``command`` executes."""

    def __init__(self, command: str) -> None:
        status = None
        with suppress(CommandError, OSError):
            status = os.stat(find_command(command))
        self._cache = cache.of(status)
        self._paths: list[bytes] = []

    def load(self) -> list[str]:
        """Return the paths of files; some may have gone."""
        if found := self._cache.load(".mapped"):
            self._paths = [path for path in found.data[found.start :].split(b"\0") if path]
        return [*map(os.fsdecode, self._paths)]

    def store(self, paths: Set[str]) -> None:
        """Keep ``paths`` with those of former runs, as far as there is room."""
        new = {os.fsencode(path) for path in paths}
        if not new <= {*self._paths}:
            kept = [*sorted(new), *(path for path in self._paths if path not in new)]
            self._cache.store(".mapped", (b"\0".join(kept[:MOST]),))

"""Files that appear only when they are whole.

Until then they have no name, where the file system can do that (``O_TMPFILE``, open(2)): nothing is
left of one when Ctrl-C or SIGKILL ends this process.
"""

from __future__ import annotations

import os
from contextlib import suppress

PART = ".part"
"""What the names of half-written files end in, where they need one."""


class NewFile:
    """A file of this user's alone, to write through ``descriptor``, which closes on leaving."""

    def __init__(self, directory: int) -> None:
        """``directory`` is a descriptor of where it is to be. Raises `OSError`."""
        self._directory = directory
        self._part = ""
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            self.descriptor = os.open(".", flags | os.O_TMPFILE, 0o600, dir_fd=directory)
        except OSError:  # NFS, FUSE, an overlay before 6.3; or what is said again below
            self._part = _part()
            flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self.descriptor = os.open(self._part, flags, 0o600, dir_fd=directory)

    @property
    def opened(self) -> str:
        """A path that leads to it, in this process."""
        return f"/proc/self/fd/{self.descriptor}"

    def keep(self, name: str) -> None:
        """Let it appear as ``name``, in the place of what lies there. Raises `OSError`."""
        if not self._part:
            part = _part()
            os.link(self.opened, part, dst_dir_fd=self._directory, follow_symlinks=True)
            self._part = part
        os.replace(self._part, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._part = ""

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        if self._part:
            with suppress(OSError):
                os.unlink(self._part, dir_fd=self._directory)


def _part() -> str:
    return f"{os.urandom(8).hex()}{PART}"

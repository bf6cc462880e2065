"""File system images made from directories, without mounting anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

MARGIN = 16 << 20
"""Bytes left for the file system's own structures, beside a share of the content."""


def make_image(directory: Path, image: Path, label: str, free: int = 0) -> None:
    """Write an ext4 ``image`` with the content of ``directory``, and ``free`` bytes to spare."""
    entries = list(directory.rglob("*"))
    # A file takes whole blocks, a directory at least one.
    content = sum(-(-entry.lstat().st_size // 4096) * 4096 + 4096 for entry in entries)
    size = (content * 11 // 10 + MARGIN + free) >> 10
    inodes = len(entries) + 64 + free // 16384  # mke2fs's own ratio
    subprocess.run(
        [
            *("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum", "-m", "0"),
            *("-b", "4096", "-N", str(inodes), "-L", label),
            *("-E", "root_owner=0:0", "-d", str(directory), str(image), f"{size}k"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )

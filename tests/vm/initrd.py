"""The initial RAM disk: busybox, the modules that reach the disks, and one script."""

from __future__ import annotations

import gzip
import stat
from collections.abc import Sequence
from pathlib import Path

from cache import OUT, digest, made, recipe
from interpreter import USERLAND
from kernel_package import Files, load_order, module_content
from kernels import Kernel
from packages import Suite, unpack

DISKS = ["virtio_pci", "virtio_blk", "ext4", "overlay"]
OPTIONAL = ["crc32c_generic", "crc32c_cryptoapi"]
"""ext4 asks the crypto layer for crc32c by name; where that is a module, nothing depends on it."""


INIT = Path(__file__).parent / "guest" / "init"


def build(kernel: Kernel, files: Files, init: Path = INIT, modules: Sequence[str] = ()) -> Path:
    """The initrd that boots ``kernel`` with the script ``init``, loading ``modules`` as well."""
    suite = Suite(USERLAND, kernel.architecture)
    (busybox,) = (p for p in suite.closure(["busybox-static"]) if p.name == "busybox-static")
    key = digest(
        recipe("initrd.py"),
        init.read_bytes(),
        *modules,
        files.modules.parent.parent.name,
        busybox.file,
    )

    def make(path: Path) -> None:
        tree = path.parent / "busybox"
        unpack(suite.download([busybox]), tree)
        archive = Archive()
        for name in ("bin", "dev", "modules", "proc", "sys", "mnt"):
            archive.add(name, stat.S_IFDIR | 0o755)
        (binary,) = (*tree.glob("bin/busybox"), *tree.glob("usr/bin/busybox"))
        archive.add("bin/busybox", stat.S_IFREG | 0o755, binary.read_bytes())
        archive.add("init", stat.S_IFREG | 0o755, init.read_bytes())
        # The numbers keep the order in which they must be loaded.
        for number, module in enumerate(load_order(files, [*DISKS, *modules], OPTIONAL)):
            name = f"modules/{number:02}-{module.name.split('.ko')[0]}.ko"
            archive.add(name, stat.S_IFREG | 0o644, module_content(module))
        path.write_bytes(gzip.compress(archive.content(), compresslevel=1))

    return made(OUT / "initrds" / f"{kernel.name}-{key}.gz", make)


class Archive:
    """A cpio archive in the form the kernel unpacks.

    Format "newc": Documentation/driver-api/early-userspace/buffer-format.rst.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._inode = 0

    def add(self, name: str, mode: int, data: bytes = b"") -> None:
        """Add an entry owned by root; ``mode`` includes the kind of file."""
        self._inode += 1
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._parts += [_padded(header + name.encode() + b"\0"), _padded(data)]

    def content(self) -> bytes:
        """The archive with its end marker."""
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)

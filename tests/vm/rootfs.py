"""The guest's root file system: a Debian user space unpacked into an image.

The same user space serves all kernels of an architecture. No package script
ever runs; what those would have made and a test needs is made here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from cache import OUT, digest, made, recipe
from image import make_image
from interpreter import USERLAND, Interpreter
from packages import Suite, unpack

PACKAGES = [
    *("base-files", "base-passwd", "bash", "binutils", "busybox-static", "coreutils", "dash"),
    *(
        "findutils",
        "grep",
        "libc-bin",
        "libstdc++6",
        "mount",
        "procps",
        "python3",
        "sed",
        "tar",
        "util-linux",
    ),
]

UNNEEDED = ["usr/share/doc", "usr/share/locale", "usr/share/man", "usr/share/info"]


def build(architecture: str, interpreter: Interpreter, more: Iterable[str] = ()) -> Path:
    """The image of the root file system for ``architecture``, with ``more`` packages."""
    suite = Suite(USERLAND, architecture)
    packages = suite.closure([*PACKAGES, *more])
    key = digest(
        recipe("rootfs.py", "image.py", "interpreter.py"), *(package.file for package in packages)
    )

    def make(path: Path) -> None:
        tree = path.parent / "tree"
        unpack(suite.download(packages), tree)
        _complete(tree)
        for library in ("usr/lib/python3", f"usr/lib/python{interpreter.version}"):
            interpreter.compile(tree / library, f"/{library}")
        make_image(tree, path, "root")

    return made(OUT / "roots" / f"{architecture}-{key}.ext4", make)


def _complete(tree: Path) -> None:
    for directory in UNNEEDED:
        shutil.rmtree(tree / directory, ignore_errors=True)
    for name in ("passwd", "group"):
        shutil.copy(tree / f"usr/share/base-passwd/{name}.master", tree / "etc" / name)
    (tree / "etc/hostname").write_text("guest\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost guest\n")
    # What a run brings along is installed beside Debian's own modules, as pip would.
    (tree / "usr/lib/python3/dist-packages/payload.pth").write_text("/payload/site\n")

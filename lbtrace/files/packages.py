"""Which package of the system a file is from.

Source: dpkg's ``/var/lib/dpkg/info/PACKAGE.list``, the paths of each package, a line each
(dpkg-query(1)).
"""

from __future__ import annotations

import os
from glob import glob

LISTS = "/var/lib/dpkg/info/*.list"
MERGED = ("/bin/", "/sbin/", "/lib")
"""What is below ``/usr`` now, though packages may say otherwise."""


def package_of(path: str) -> str:
    """Return the name of the Debian package that installed ``path``; empty where none is known."""
    real = os.path.realpath(path)
    short = real.removeprefix("/usr")
    names = {real, short} if short.startswith(MERGED) else {real}
    lines = [os.fsencode(f"\n{name}\n") for name in names]
    for each in sorted(glob(LISTS)):
        try:
            with open(each, "rb") as file:
                content = b"\n" + file.read()
        except OSError:
            continue
        if any(line in content for line in lines):
            return os.path.basename(each).removesuffix(".list").partition(":")[0]
    return ""

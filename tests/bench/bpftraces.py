"""The versions of bpftrace that there are: the distribution's, and those that ``BPFTRACE`` names.

BPFTRACE=/opt/bpftrace-0.27.1/bin/bpftrace make bench
"""

from __future__ import annotations

import os
import shutil
import subprocess


def find() -> dict[str, str]:
    """Return their paths, by what they say that they are."""
    paths = [shutil.which("bpftrace"), *os.environ.get("BPFTRACE", "").split(os.pathsep)]
    return {_version(path): path for path in paths if path and os.access(path, os.X_OK)}


def _version(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip().replace(" v", " ") or path

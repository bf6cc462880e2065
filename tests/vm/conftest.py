"""For the tests of the runner itself: its modules are scripts beside each other."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def qemu_installed() -> None:
    """Skips without QEMU, unless ``LBTRACE_REQUIRE`` says that it must be there."""
    if shutil.which("qemu-system-x86_64"):
        return
    if "vm" in os.environ.get("LBTRACE_REQUIRE", "").split(","):
        pytest.fail("qemu-system-x86_64 is not installed")
    pytest.skip("qemu-system-x86_64 is not installed")

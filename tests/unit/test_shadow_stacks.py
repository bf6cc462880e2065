"""Kernels whose uretprobes do not know of shadow stacks use none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbtrace.targets.seccomp import forgets_shadow_stacks


@pytest.mark.parametrize(
    ("machine", "release", "flags", "forgets"),
    [
        ("x86_64", "6.8.0-31-generic", "fpu user_shstk sse", True),
        ("x86_64", "6.8.0-31-generic", "fpu sse", False),
        ("x86_64", "6.1.0", "fpu user_shstk", False),
        ("x86_64", "6.12.4", "fpu user_shstk", False),
        ("aarch64", "6.14.0", "fp gcs", True),
        ("aarch64", "6.18.1", "fp gcs", False),
    ],
)
def test_shadow_stacks(
    tmp_path: Path, machine: str, release: str, flags: str, forgets: bool
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: {flags}\n")
    assert forgets_shadow_stacks(machine, release, str(tmp_path / "cpuinfo")) == forgets

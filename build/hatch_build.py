"""Builds the machine code before hatchling packs the wheel, and tags the wheel.

LBTRACE_MACHINE names the machine to build for (x86_64 or aarch64), this one's
by default.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

import native
import shell_files


class NativeBuild(BuildHookInterface):  # type: ignore[type-arg]
    """The hook that pyproject.toml names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say for which interpreters and systems the result is."""
        if self.target_name != "wheel":
            return
        machine = os.environ.get("LBTRACE_MACHINE", platform.machine())
        native.objects()
        build_data["artifacts"].append(f"lbtrace/bpf/objects/*.{machine}.bpf.o")
        for tables in native.TABLES:
            table = tables.relative_to(native.ROOT) / f"{machine}.json"
            build_data["artifacts"].append(str(table))
        build_data["artifacts"].append("lbtrace/commands/shells/lbtrace.*")
        build_data["shared_data"][str(shell_files.MADE / shell_files.MAN)] = (
            "share/man/man1/lbtrace.1"
        )
        for page in sorted((native.ROOT / "docs").glob("*.md")):
            build_data["force_include"][str(page)] = f"lbtrace/docs/{page.name}"
        for place, made in native.modules(machine).items():
            build_data["force_include"][str(made)] = place
        glibc = native.GLIBC.replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-manylinux_{glibc}_{machine}.manylinux2014_{machine}"

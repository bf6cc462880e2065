"""Libraries as libstapsdt makes them: a stub of code for each marker, at a symbol without type."""

from __future__ import annotations

import subprocess
from pathlib import Path

STUB = """
.text
.globl {name}
{name}: nop; nop; nop; nop; ret
.section .note.stapsdt, "", "note"
  .balign 4
  .4byte 8, 2f - 1f, 3
  .asciz "stapsdt"
1: .8byte {name}, 0, 0
  .asciz "{provider}", "{name}", "{operands}"
2:
"""


def make_library(path: Path, provider: str, **markers: str) -> str:
    """Make a shared object with a marker of each name, whose operands are given."""
    source = path.with_suffix(".s")
    source.write_text(
        "".join(
            STUB.format(name=name, provider=provider, operands=operands)
            for name, operands in markers.items()
        )
    )
    subprocess.run(["gcc", "-shared", "-nostdlib", "-s", "-o", path, source], check=True)
    return str(path)

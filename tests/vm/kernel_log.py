"""What a guest's kernel complained of itself while the tests ran."""

from __future__ import annotations

import re
from pathlib import Path

BEGIN = "lbtrace-vm: the tests begin"
"""What guest/run writes into the log: what was said before is not the tests' doing."""

COMPLAINT = re.compile(
    r"^\[ *[\d.]+\] ((?:WARNING: |BUG: (?!workqueue lockup)|kernel BUG at |Oops: |UBSAN: |KASAN: "
    r"|general protection fault, |refcount_t: ).*)",
    re.MULTILINE,
)
"""Headings of include/asm-generic/bug.h, lib/bug.c and others. Those of watchdogs are left out,
which bark in each emulated machine that waits for a processor of the host."""


def complaints(file: Path) -> list[str]:
    """Return the headings of complaints in what dmesg printed; none where there is no ``file``.

    A log that does not say where the tests began is a complaint as well.
    """
    if not file.exists():
        return []
    _, begin, said = file.read_text(errors="replace").partition(BEGIN)
    return COMPLAINT.findall(said) if begin else ["nothing of where the tests began"]

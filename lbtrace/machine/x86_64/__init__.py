"""x86-64 processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbtrace.machine.x86_64 import lazy_decoder

lazy_decoder.install()

if TYPE_CHECKING:
    from lbtrace.machine import interface
    from lbtrace.machine.x86_64 import (
        call_sites,
        exits,
        first_writes,
        go_probe_sites,
        jump_patterns,
        kernel,
        linking,
        probe_sites,
        registers,
    )

    PACKAGE = interface.Package(
        registers,
        kernel,
        linking,
        jump_patterns,
        probe_sites,
        exits,
        go_probe_sites,
        first_writes,
        call_sites,
    )

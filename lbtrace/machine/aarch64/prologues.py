"""How large the frame is that an arm64 function makes before it does anything else."""

from __future__ import annotations

from lbtrace.machine.code import Code


def frame_size(_code: Code) -> int | None:
    """See `lbtrace.machine.Machine.find_frame_size`. Not known of arm64."""
    return None

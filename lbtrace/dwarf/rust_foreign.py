"""Functions of Rust that take their parameters as those of C do: ``extern "C"``.

Debug information does not say so. What shows it is a large struct that lies in the caller's frame:
rustc passes a pointer to it, of which unoptimised code keeps a copy. Where the two conventions
differ, what a function takes from there on is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from lbtrace.model import Formal

WORD = 8


def count_known(parameters: Sequence[Formal]) -> int:
    """Return how many of the ``parameters`` of a function of Rust, the first ones, are certainly
    where its convention has them."""
    if not any(p.reference and p.frame_location is not None for p in parameters):
        return len(parameters)
    return next((n for n, p in enumerate(parameters) if differs(p)), len(parameters))


def differs(formal: Formal) -> bool:
    """Return whether C passes a value otherwise: in memory, or two numbers in one register."""
    words = [scalar.offset // WORD for scalar in formal.scalars or ()]
    return formal.reference or len(set(words)) < len(words)

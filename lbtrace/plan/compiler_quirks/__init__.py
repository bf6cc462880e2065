"""What compilers did to the parameters of a function that debug information does not say.

Each step of `STEPS` reads what debug information says of a function, and its code; where they
contradict each other, it mends the former, or says that a value is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lbtrace.model import Prototype
from lbtrace.plan.compiler_quirks import (
    frame_homes,
    late_registers,
    overwritten,
    stored_parameters,
)
from lbtrace.plan.compiler_quirks.function_body import BEGINNING, FunctionBody

__all__ = ["BEGINNING", "STEPS", "FunctionBody", "Step", "settle"]

Step: TypeAlias = Callable[[Prototype, FunctionBody], Prototype]


def _of_rust(prototype: Prototype, body: FunctionBody) -> Prototype:
    if prototype.otherwise is None:
        return prototype
    # Imported here because most functions are not Rust.
    from lbtrace.plan.compiler_quirks import rust_convention

    return rust_convention.settle(frame_homes.settle(prototype, body), body)


STEPS: tuple[Step, ...] = (
    _of_rust,
    stored_parameters.settle,
    overwritten.settle,
    frame_homes.settle,
    late_registers.settle,
)
"""In this order: each relies on those before it."""


def settle(prototype: Prototype, body: FunctionBody) -> Prototype:
    """Return what debug information says of a function, corrected by what its code shows."""
    for step in STEPS:
        prototype = step(prototype, body)
    return prototype

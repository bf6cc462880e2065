"""What Go says of indexes that are out of range (``boundsError`` in ``runtime/error.go``)."""

from __future__ import annotations

from lbtrace.values.datum import Datum
from lbtrace.values.record import Fields
from lbtrace.values.string import Text

BOUNDS_ERROR = "runtime.boundsError"

SLICE = "slice bounds out of range "
FORMS = (
    ("index out of range [{x}]", " with length {y}"),
    (SLICE + "[:{x}]", " with length {y}"),
    (SLICE + "[:{x}]", " with capacity {y}"),
    (SLICE + "[{x}:{y}]", ""),
    (SLICE + "[::{x}]", " with length {y}"),
    (SLICE + "[::{x}]", " with capacity {y}"),
    (SLICE + "[:{x}:{y}]", ""),
    (SLICE + "[{x}:{y}:]", ""),
    ("cannot convert slice with length {y} to array or pointer to array with length {x}", ""),
)
"""By the code of the error; what follows is left out of negative indexes."""


def message(error: Datum) -> Text | None:
    """Return what an error says; None where it was not read, or says something else."""
    if not isinstance(error, Fields):
        return None
    numbers = [int(f.value) for f in error.fields if isinstance(f.value, int)]
    if not len(numbers) == len(error.fields) == 4:
        return None
    x, y, signed, code = numbers
    if not 0 <= code < len(FORMS):
        return None
    first, rest = FORMS[code]
    negative = bool(signed) and x < 0
    y_shown = "" if negative else y
    said = (first if negative else first + rest).format(x=x if signed else x % (1 << 64), y=y_shown)
    data = said.encode()
    return Text(data, len(data))

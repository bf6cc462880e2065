"""What a function of C returns that leaves the number of its error in ``errno``."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import Argument, Datum
from lbtrace.values.enumeration import Constant
from lbtrace.values.notation import text
from lbtrace.values.outcome import ERRORS, Filled

ERROR = "errno"


class Failed(Filled, Struct, frozen=True):
    """The result of a call that failed, and the name of its error."""

    def text(self) -> str:
        return " ".join(text(field.value) for field in self.fields)


class Failing(Type, Struct, frozen=True, tag="failing"):
    """The result ``name`` of a function: the first member. The second is ``errno``, which counts
    where the function returned ``failure``, a number of ``size`` bytes."""

    name: str
    size: int
    failure: int = -1

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        number, errno = map(probe.reader, value.members)
        mask = (1 << 8 * self.size) - 1
        failure = self.failure & mask

        def read(fetched: Fetched) -> Datum:
            returned = number(fetched)
            if not isinstance(returned, int) or returned & mask != failure:
                return returned
            name = ERRORS.get(_int(errno(fetched)))
            if name is None:
                return returned
            return Failed((Argument("returned", returned), Argument(ERROR, Constant(name))))

        return read


def _int(datum: Any) -> int:
    return datum if isinstance(datum, int) else 0

"""Numbers of devices as the kernel has them (``MINORBITS`` in include/linux/kdev_t.h), written as
it prints them: ``8,1``, and as system calls are passed them."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType
from lbtrace.values.datum import WrittenNumber

MINOR_BITS = 20


class Numbers(WrittenNumber):
    """The numbers of driver and device, in one."""

    __slots__ = ()

    def text(self) -> str:
        return f"{self >> MINOR_BITS},{self & (1 << MINOR_BITS) - 1}"


class PassedNumbers(WrittenNumber):
    """The same with the driver amid the device (``new_decode_dev``)."""

    __slots__ = ()

    def text(self) -> str:
        return f"{self >> 8 & 0xFFF},{self & 0xFF | self >> 12 & 0xFFF00}"


class Device(NumberType, Struct, frozen=True, tag="device"):
    """A number of four bytes that is written as two; ``passed`` to a system call or not."""

    name: str
    size: int
    passed: bool = False

    computes = True

    def decoder(self) -> Decoder:
        mask = (1 << 8 * self.size) - 1
        written = PassedNumbers if self.passed else Numbers
        return lambda raw: written(raw & mask)

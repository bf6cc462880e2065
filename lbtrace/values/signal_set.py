"""Sets of signals: ``[SIGINT, SIGTERM]``, ``~[SIGKILL]`` of all others."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType
from lbtrace.values.datum import Token
from lbtrace.values.wait_status import signal_name

SIGNALS = range(1, 65)


class Signals(Token):
    """A set, by the names of its signals, or of those that are not in it where these are fewer."""

    __slots__ = ()

    syntax = "symbol"

    def text(self) -> str:
        return str(self)


class SignalSet(NumberType, Struct, frozen=True, tag="signal_set"):
    """A ``sigset_t`` of the kernel: bit n is the signal n + 1."""

    name: str = "sigset_t"
    size: int = 8

    def decoder(self) -> Decoder:
        return _read


def _read(raw: int) -> Signals:
    inside = [number for number in SIGNALS if raw >> number - 1 & 1]
    inverted = len(inside) > len(SIGNALS) // 2
    shown = [number for number in SIGNALS if number not in inside] if inverted else inside
    return Signals(f"{'~' * inverted}[{', '.join(map(signal_name, shown))}]")

"""Addresses of IPv4: ``127.0.0.1``."""

from __future__ import annotations

from socket import AF_INET, inet_ntop, inet_pton

from msgspec import Struct

from lbtrace.values.base import Decoder, NumberType
from lbtrace.values.socket_address import Endpoint


class InternetAddress(NumberType, Struct, frozen=True, tag="internet_address"):
    """Four bytes that are an address, in the order of the network."""

    name: str
    size: int = 4

    signed = False
    computes = True

    def decoder(self) -> Decoder:
        return lambda raw: Endpoint(inet_ntop(AF_INET, (raw & 0xFFFFFFFF).to_bytes(4, "little")))

    def number_called(self, text: bytes) -> int | None:
        try:
            return int.from_bytes(inet_pton(AF_INET, text.decode()), "little")
        except (OSError, UnicodeDecodeError):
            return None

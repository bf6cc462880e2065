"""Addresses in records of their own: of IPv6, ``fe80::1``, and of sockets, ``[fe80::1]:80``."""

from __future__ import annotations

from socket import AF_INET6, inet_ntop
from typing import ClassVar

from lbtrace.values.array import Array, Elements
from lbtrace.values.base import Fetched, Member, Probe, Reader, Value
from lbtrace.values.datum import Datum
from lbtrace.values.integer import fixed_width
from lbtrace.values.socket_address import Endpoint, read_address

BYTES, OF_SOCKET = 16, 28
"""Bytes of an address of IPv6, and of the longest one of a socket of the internet
(``struct sockaddr_in6``)."""
WORD = 4

LENGTHS = (BYTES, OF_SOCKET)


class LongAddress(Array, frozen=True, tag="long_address"):
    """An array of words of `WORD` bytes that are an address, in the order of the network:
    `LENGTHS`. Its elements are bytes."""

    is_written: ClassVar[bool] = True

    def element_at(self, index: int) -> Member:
        return Member("", fixed_width(1, signed=False), index)

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        words = super().composed_reader(value, probe)

        def read(fetched: Fetched) -> Datum:
            found = words(fetched)
            if not isinstance(found, Elements):
                return found
            whole = [word for word in found if isinstance(word, int)]
            if len(whole) * WORD != self.size:
                return found
            data = b"".join(n.to_bytes(WORD, "little") for n in whole)
            if self.size == OF_SOCKET:
                return read_address(data)
            return Endpoint(inet_ntop(AF_INET6, data))

        return read

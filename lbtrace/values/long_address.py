"""Addresses of IPv6: ``fe80::1``."""

from __future__ import annotations

from socket import AF_INET6, inet_ntop

from lbtrace.values.array import Array, Elements
from lbtrace.values.base import Fetched, Probe, Reader, Value
from lbtrace.values.datum import Datum
from lbtrace.values.socket_address import Endpoint

WORDS = 4
"""Words of an address."""


class LongAddress(Array, frozen=True, tag="long_address"):
    """An array of `WORDS` that are an address, in the order of the network."""

    def composed_reader(self, value: Value, probe: Probe) -> Reader:
        words = super().composed_reader(value, probe)

        def read(fetched: Fetched) -> Datum:
            found = words(fetched)
            if not isinstance(found, Elements):
                return found
            whole = [word for word in found if isinstance(word, int)]
            if len(whole) != WORDS:
                return found
            return Endpoint(inet_ntop(AF_INET6, b"".join(n.to_bytes(4, "little") for n in whole)))

        return read

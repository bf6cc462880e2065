"""Addresses of sockets (``struct sockaddr``): ``127.0.0.1:80``, ``[fe80::1%2]:80`` at the interface
of number 2."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop

from msgspec import Struct

from lbtrace.values.base import Fetched, Probe, Reader, Type, Value
from lbtrace.values.datum import FAULT, NOT_READ, UNUSED, Datum, Token
from lbtrace.values.notation import escaped
from lbtrace.values.pointer import Address

LONGEST = 110
"""Bytes of the longest address (``struct sockaddr_un``)."""

UNIX = 1
NETLINK, VSOCK = 16, 40
FAMILIES = {NETLINK: "AF_NETLINK", 17: "AF_PACKET", VSOCK: "AF_VSOCK", 38: "AF_ALG"}


class Endpoint(Token):
    """The address of a socket, as tools for networks write it."""

    __slots__ = ()

    syntax = "symbol"

    def text(self) -> str:
        return "".join([escaped(c, '"') for c in self])


class SocketAddress(Type, Struct, frozen=True, tag="socket_address"):
    """An address of a socket, of which so many bytes count as another argument says."""

    name: str = "struct sockaddr *"
    size: int = 8

    def is_flat(self) -> bool:
        return False

    def slot_reader(self, value: Value, probe: Probe) -> Reader:
        slot = value.slot

        def read(fetched: Fetched) -> Datum:
            word = fetched.words[slot]
            if fetched.faults >> slot & 1:
                return FAULT if word else Address(0)
            if not word >> 32:
                return UNUSED  # there is no address
            data = bytes(fetched.pieces.get(slot, b""))
            return read_address(data, cut=len(data) < min(word >> 32, LONGEST))

        return read


def read_address(data: bytes, *, cut: bool = False) -> Datum:
    """Return the address that has these bytes, or of which they are the beginning: ``cut``."""
    if len(data) < 2:
        return NOT_READ
    family, rest = int.from_bytes(data[:2], "little"), data[2:]
    port = int.from_bytes(rest[:2], "big")
    if family == AF_INET and len(rest) >= 6:
        return Endpoint(f"{inet_ntop(AF_INET, rest[2:6])}:{port}")
    if family == AF_INET6 and len(rest) >= 22:
        number = int.from_bytes(rest[22:26], "little")
        scope = f"%{number}" if number else ""
        return Endpoint(f"[{inet_ntop(AF_INET6, rest[6:22])}{scope}]:{port}")
    if family == UNIX:
        name = rest.split(b"\0", 1)[0] if rest[:1] != b"\0" else b"@" + rest[1:]
        more = "…" * (cut and len(name) >= len(rest))
        return Endpoint("unix:" + name.decode(errors="replace") + more)
    return Endpoint(_of_numbers(family, rest))


def _of_numbers(family: int, rest: bytes) -> str:
    """An address of another ``family``: two numbers behind two bytes, or bytes."""
    one, other = (int.from_bytes(rest[at : at + 4], "little") for at in (2, 6))
    if family == NETLINK and len(rest) >= 10:
        return f"netlink:{one}{f' groups {other:#x}' if other else ''}"
    if family == VSOCK and len(rest) >= 10:
        return f"vsock:{other}:{one}"
    return f"{FAMILIES.get(family, f'family {family}')}: {rest.hex()}"

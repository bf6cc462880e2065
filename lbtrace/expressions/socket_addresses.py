"""The comparison of addresses of sockets by their bytes, as the kernel has them."""

from __future__ import annotations

from collections.abc import Callable
from re import fullmatch
from socket import AF_INET, AF_INET6, inet_aton, inet_pton

from msgspec.structs import replace

from lbtrace.abi.locations import moved
from lbtrace.expressions.operands import Operand
from lbtrace.expressions.tree import ExpressionError, Operator
from lbtrace.model import Condition, Fetch
from lbtrace.model.wire_limits import TEXT_LIMIT
from lbtrace.values.socket_address import UNIX

PREFIX = b"unix:"

HINT = "record the calls, and choose of them: lbtrace export run.lbt --where …"

FLOW = 4
"""Bytes of an address of IPv6 behind family and port that do not count, as they are not shown."""


def compare(
    at: int,
    operator: Operator,
    text: bytes,
    start: Fetch,
    whole: int,
    take: Callable[[Fetch], int],
) -> list[list[Condition]]:
    """Return the conditions that an address compares with ``text``: whole ones, or how those of
    Unix domain begin. Its bytes begin at ``start`` and are in the slot ``whole``; ``take`` returns
    the slot of a fetch. Raises `ExpressionError` where they are not compared so."""

    def test(how: Operator, data: bytes, slot: int = whole) -> Condition:
        if len(data) > TEXT_LIMIT:
            what = f"an address of more than {TEXT_LIMIT} bytes cannot be compared"
            raise ExpressionError(at, what, "compare its beginning, with startswith")
        return Condition(slot, how, 0, False, subject="text", text=data)

    equal = operator in ("==", "startswith")
    begins: Operator = "startswith" if equal else "lacks"
    if text.startswith(PREFIX):
        path = text.removeprefix(PREFIX)
        path = b"\0" + path[1:] if path[:1] == b"@" else path
        data = UNIX.to_bytes(2, "little") + path
        if operator in ("startswith", "lacks"):
            return [[test(operator, data)]]
        if path[:1] == b"\0":
            return [[test(operator, data)]]
        ways = [test(operator, data), test(begins, data + b"\0")]  # a path may end with a NUL
        return [ways] if equal else [[way] for way in ways]
    found = _parse(text) if operator in ("==", "!=") else None
    if found is None:
        what = 'addresses are compared with "1.2.3.4:80", "[::1]:80", "unix:/path"'
        raise ExpressionError(at, f"{what}, or their beginning with that of a path", HINT)
    head, rest = found
    if not rest:
        return [[test(begins, head)]]
    other = replace(moved(start, len(head) + FLOW), read="bytes", limit=len(rest), optional=True)
    ways = [test(begins, head), test(begins, rest, take(other))]
    return [[way] for way in ways] if equal else [ways]


def compare_record(
    at: int, operator: Operator, text: bytes, left: Operand, take: Callable[[Fetch], int]
) -> Condition:
    """Return the condition that an address of IPv6, which is in memory itself, compares with
    ``text``. Raises `ExpressionError`, also for one with a port."""
    memory = left.place.memory
    try:
        data = inet_pton(AF_INET6, text.decode())
    except (OSError, UnicodeDecodeError):
        data = b""
    if len(data) != left.type.size or memory is None or operator not in ("==", "!="):
        what = 'of addresses here, only whole ones of IPv6 are compared: "::1"'
        raise ExpressionError(at, what, HINT)
    slot = take(replace(memory, read="bytes", limit=len(data)))
    begins: Operator = "startswith" if operator == "==" else "lacks"
    return Condition(slot, begins, 0, False, subject="text", text=data)


def _parse(text: bytes) -> tuple[bytes, bytes] | None:
    """The bytes with which an address begins, and those of one of IPv6 behind its flow."""
    found = fullmatch(rb"(?:\[([^]%]+)(?:%(\d+))?\]|([\d.]+)):(\d{1,5})", text)
    if not found:
        return None
    try:
        port = int(found[4]).to_bytes(2, "big")
        if found[3]:
            return AF_INET.to_bytes(2, "little") + port + inet_aton(found[3].decode()), b""
        scope = int(found[2] or 0).to_bytes(4, "little")
        return AF_INET6.to_bytes(2, "little") + port, inet_pton(AF_INET6, found[1].decode()) + scope
    except (OSError, OverflowError, UnicodeDecodeError):
        return None

"""The comparison of addresses of sockets by the bytes with which they begin."""

from __future__ import annotations

from re import fullmatch
from socket import AF_INET, inet_aton

from lbtrace.expressions.tree import ExpressionError, Operator
from lbtrace.values.socket_address import UNIX

PREFIX = b"unix:"

HINT = "record the calls, and choose of them: lbtrace export run.lbt --where …"


def beginning(at: int, operator: Operator, text: bytes) -> tuple[Operator, bytes]:
    """Return how an address is compared with ``text``, as the kernel has it: whole ones of IPv4,
    and beginnings of the paths of Unix domain. Raises `ExpressionError` for all others."""
    if operator == "startswith" and text.startswith(PREFIX):
        path = text.removeprefix(PREFIX)
        path = b"\0" + path[1:] if path[:1] == b"@" else path
        return operator, UNIX.to_bytes(2, "little") + path
    found = fullmatch(rb"(\d+(?:\.\d+){3}):(\d{1,5})", text)
    if operator == "startswith" or not found:
        what = 'the kernel compares addresses with "1.2.3.4:80", or their beginning with "unix:/"'
        raise ExpressionError(at, what, HINT)
    try:
        host, port = inet_aton(found[1].decode()), int(found[2]).to_bytes(2, "big")
    except (OSError, OverflowError):
        raise ExpressionError(at, "this is no address", 'write name == "1.2.3.4:80"') from None
    bytes_of_all = AF_INET.to_bytes(2, "little") + port + host
    return "startswith" if operator == "==" else "lacks", bytes_of_all

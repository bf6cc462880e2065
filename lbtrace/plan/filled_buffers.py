"""Buffers that known functions fill: what is in them at entry is no argument, what is in them at
the return is a part of the result.

Source: the Linux man-pages, sections 2 and 3; zlib.h; OpenSSL's manual, section 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lbtrace.abi import locate_values
from lbtrace.abi.locations import Detail, dereferenced
from lbtrace.fetch.call_values import CallValues
from lbtrace.model import Fetch, Function, Prototype, Value
from lbtrace.model.wire_limits import FETCHES, KEPT
from lbtrace.plan.known_names import SYSTEM
from lbtrace.recognize.fetcher import Fetcher
from lbtrace.values.array import Array
from lbtrace.values.filled import Filling, Success
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Pointer
from lbtrace.values.string import String


class Buffers(Struct, frozen=True):
    """Which parameters, by their numbers from 0, lead to what a function fills, and ``how`` it is
    shown what the first of them does. It ends with a NUL (``text``), has as many ``bytes`` as are
    returned, so many ``items`` of the size that the parameter ``size`` is, or as many as are
    ``counted`` where that leads; or is an ``address``, a ``pair`` of ints, or the address of a
    ``line`` as long as is returned. Where nothing is said, it is not shown: it is what the result
    leads to, or need not be filled. Of text and bytes ``size`` is for how many there is room, if
    the function may return more."""

    numbers: tuple[int, ...]
    how: Literal["", "text", "bytes", "items", "counted", "address", "pair", "line"] = ""
    size: int = -1
    success: Success = "not negative"


FILLED = {
    name: buffers
    for buffers, names in {
        Buffers(
            (0,)
        ): "ctermid fgets fgets_unlocked getcwd gets getwd stpcpy stpncpy strcpy strncpy"
        " strxfrm tmpnam wcstombs",
        Buffers((1,)): "asctime_r confstr ctime_r gzgets realpath strerror_r",
        Buffers((2,)): "inet_ntop",
        Buffers((2, 4)): "getnameinfo",
        Buffers((0,), "text", 1): "snprintf vsnprintf",
        Buffers((0,), "text", 1, "zero"): "getdomainname gethostname getlogin_r",
        Buffers((0,), "text", 1, "positive"): "strftime strftime_l",
        Buffers((0,), "text", 2): "strlcpy",
        Buffers((0,), "text"): "sprintf strfmon vsprintf",
        Buffers((1,), "text", success="zero"): "ptsname_r ttyname_r xpg_strerror_r",
        Buffers((0,), "bytes"): "getrandom",
        Buffers((1,), "bytes"): "gzread pread pread64 read readlink",
        Buffers((1,), "bytes", 2): "recv recvfrom",
        Buffers((2,), "bytes"): "fgetxattr getxattr lgetxattr readlinkat",
        Buffers((1,), "bytes", success="positive"): "BIO_read SSL_peek SSL_read",
        Buffers((1,), "counted", 3, "positive"): "SSL_peek_ex SSL_read_ex",
        Buffers((0,), "items", 1): "fread fread_unlocked gzfread",
        Buffers((0,), "items", 2): "__fread_chk __fread_unlocked_chk",
        Buffers((0,), "address", success="zero"): "posix_memalign",
        Buffers((0,), "pair", success="zero"): "pipe pipe2",
        Buffers((3,), "pair", success="zero"): "socketpair",
        Buffers((0,), "line"): "getdelim getline",
    }.items()
    for name in names.split()
}
"""By name."""

CORE = re.compile(r"_*(?:IO_|GI_+)?(\w+?)(?:_chk)?(?:@.*)?")
"""The name in that of a variant, as the C library has them: ``__snprintf_chk``."""

KNOWN = re.compile(rf"{SYSTEM.pattern}|lib(?:ssl|crypto|z)\.so\.")
"""What the libraries call themselves whose functions have these names for certain."""

INT = Integer("int", 4, True)
ROOM = Integer("unsigned long", 8, False)


def _found(function: Function) -> Iterator[Buffers]:
    for name in (function.name, *function.aliases):
        core = CORE.fullmatch(name)
        row = FILLED.get(name.partition("@")[0]) or (FILLED.get(core[1]) if core else None)
        if row is not None:
            yield row


def mark(function: Function, prototype: Prototype) -> Prototype:
    """``prototype`` of ``function`` with the buffers marked that it fills."""
    filled = {number for row in _found(function) for number in row.numbers}
    if not filled:
        return prototype
    parameters = (
        replace(each, filled=number in filled and "const" not in each.type.name)
        for number, each in enumerate(prototype.parameters)
    )
    return replace(prototype, parameters=tuple(parameters))


def with_filled(
    machine: str, function: Function, prototype: Prototype, values: CallValues, limit: int
) -> CallValues:
    """Return ``values`` of a ``function`` of a known library with what it fills as a part of the
    result, texts up to a ``limit`` of bytes; the same where it fills nothing, or there is no
    room."""
    row = next((row for row in _found(function) if row.how), None)
    result, formal = values.result, prototype.result
    numbers = () if row is None else (row.numbers[0], row.size)
    if row is None or result is None or formal is None or result.type.is_address:
        return values
    if result.slot < 0 or max(numbers) >= len(prototype.parameters):
        return values
    places = locate_values(machine, prototype)
    kept: list[Fetch] = []
    for number in numbers:
        word = places.parameters[max(number, 0)].word()[0]
        if isinstance(word, str) or word.base != "register" or word.plus >= 0:
            return values
        kept.append(replace(word, base="kept", optional=True))
    fetcher = Fetcher(FETCHES, Detail(limit=limit), kept=values.result_fetches)
    returned = values.result_fetches[result.slot]
    if result.type.size < ROOM.size:
        returned = replace(returned, signed=True, bit_size=8 * result.type.size)
    buffer = prototype.parameters[row.numbers[0]]
    members = [
        replace(result, name=""),
        _fetched(row, buffer.name, kept[0], kept[1], returned, fetcher),
    ]
    bounded = row.how in ("text", "bytes") and row.size >= 0
    if bounded:
        members.append(fetcher.take("", ROOM, kept[1]))
    type = Filling(result.type.name, result.type.size, result.type.signed, row.success, bounded)
    made = replace(
        values,
        result=replace(result, type=type, members=tuple(members)),
        result_fetches=fetcher.fetches,
    )
    kept_words = len(made.kept.split())
    by_process = any(c.subject in ("pid", "tid") for c in values.result_conditions)
    has_room = not fetcher.is_short and kept_words <= (1 if by_process else KEPT)
    return made if has_room else values


def _fetched(
    row: Buffers, name: str, start: Fetch, size: Fetch, returned: Fetch, fetcher: Fetcher
) -> Value:
    """What is filled from ``start`` on; ``size`` is the parameter that says how much, if one
    does."""
    text = String("char *")
    if row.how == "text":
        return fetcher.take(name, text, replace(start, read="string", limit=fetcher.text_limit))
    if row.how == "address":
        address = Pointer("void *", 8, None)
        return fetcher.take(f"{name}[0]", address, replace(start, read="integer"))
    if row.how == "pair":
        return fetcher.in_memory(name, Array("int[2]", 2 * INT.size, INT, 2), start, 0)
    length = returned
    if row.how == "items":
        length = replace(size, operation="multiply", plus=fetcher.slot(returned))
    elif row.how == "counted":
        length = replace(size, read="integer")
    elif row.how == "line":
        start, name = dereferenced(start), f"{name}[0]"
    counted = fetcher.slot(length)
    found = replace(start, read="bytes", limit=fetcher.text_limit, length_from=max(counted, 0))
    return fetcher.take(name, text, found)

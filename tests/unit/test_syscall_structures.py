"""What lies where arguments of system calls lead: how its bytes are read, and what is fetched."""

from __future__ import annotations

import struct

import pytest

from lbtrace.abi.system_calls import ARGUMENTS, RESULT, locate_arguments
from lbtrace.calls.decoders import Readers
from lbtrace.calls.payload import Context
from lbtrace.fetch.call_values import plan_values
from lbtrace.model import Fetch, Value
from lbtrace.model.wire_limits import CHUNKS, FETCHES
from lbtrace.syscalls import read_table
from lbtrace.syscalls.buffers import with_buffers
from lbtrace.syscalls.prototypes import prototype_of
from lbtrace.syscalls.structures import element_of
from lbtrace.values.base import Fetched, Type
from lbtrace.values.bit_numbers import BitNumbers
from lbtrace.values.directory_entries import DirectoryEntries
from lbtrace.values.notation import text
from lbtrace.values.packed import Packed

TABLE = read_table("x86_64")


def shown(type: Type, data: bytes, length: int | None = None, *, fault: bool = False) -> str:
    """What is shown of so many bytes, of which these are fetched."""
    word = (len(data) if length is None else length) << 32 | len(data)
    read = Readers((Fetch(read="bytes"),), Context()).reader(Value("", type, 0))
    return text(read(Fetched((4096,) if fault else (word,), {0: data}, int(fault), 1)))


def entry(name: bytes) -> bytes:
    size = -(-(20 + len(name)) // 8) * 8
    return (struct.pack("<QqHB", 1, 2, size, 8) + name).ljust(size, b"\0")


def packed(kind: str, several: int = 0) -> Type:
    return Packed("void *", element_of(TABLE, kind), several)


@pytest.mark.parametrize(
    ("type", "data", "length", "wanted"),
    [
        (packed("int"), b"\7\0\0\0", None, "7"),
        (packed("int"), b"\7\0", None, "<not read>"),
        (packed("int", 2), struct.pack("<3i", 3, 4, 5), 12, "[3, 4, … 1 more]"),
        (packed("int", 2), b"", None, "[]"),
        (packed("signals"), struct.pack("<Q", 1 << 8 | 1 << 31), None, "[SIGKILL, SIGRT_0]"),
        (packed("signals"), struct.pack("<Q", 2**64 - 2), None, "~[SIGHUP]"),
        (packed("struct linger"), struct.pack("<i", 1), None, "{l_onoff=1, l_linger=<not read>}"),
        (
            packed("polled", 1),
            struct.pack("<ihh", 3, 1, 17) * 2,
            None,
            "[{fd=3, revents=POLLIN|POLLHUP}, … 1 more]",
        ),
        (BitNumbers("fd_set *", 1), b"\x41", 7, "[0, 6]"),
        (BitNumbers("fd_set *", 1), b"\x41", 6, "[0]"),
        (BitNumbers("fd_set *", 1), b"\1", 9, "[0, …]"),
        (BitNumbers("unsigned long *"), b"\3\1", None, "[0, 1, 8]"),
        (DirectoryEntries(""), entry(b".") + entry(b"a file"), None, '[".", "a file"]'),
        (DirectoryEntries(""), entry(b".") + entry(b"cut")[:20], 48, '[".", …]'),
        (DirectoryEntries(""), entry(b"x") * 9, None, "[" + '"x", ' * 8 + "… 1 more]"),
        (DirectoryEntries(""), bytes(40), None, "[…]"),
    ],
)
def test_bytes(type: Type, data: bytes, length: int | None, wanted: str) -> None:
    assert shown(type, data, length) == wanted
    assert shown(type, data, fault=True) == "<fault>"


@pytest.mark.parametrize("machine", ARGUMENTS)
def test_what_is_fetched(machine: str) -> None:
    """It fits into an event, and no register is read that the result has taken."""
    table = read_table(machine)
    for name, call in table.calls.items():
        prototype = prototype_of(table, name)
        values = plan_values(prototype, locate_arguments(machine, prototype), FETCHES)
        numbers = {each.name: number for number, each in enumerate(call.parameters)}
        made, again = with_buffers(machine, name, table, values, 64, numbers)
        lost = {ARGUMENTS[machine][0]} & {RESULT[machine]}
        for fetches in (made.fetches, made.result_fetches, again):
            assert len(fetches) <= FETCHES
            assert sum(each.read in ("string", "bytes") for each in fetches) <= CHUNKS
        led = [each for each in made.result_fetches if each.read != "value"]
        assert not lost.intersection(each.register for each in led)

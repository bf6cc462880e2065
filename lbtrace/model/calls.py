"""What the events amount to."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from lbtrace.model.events import Losses

End: TypeAlias = Literal["returned", "unwound", "tail", "open"]
"""How a call ended: it returned; its frame was left by an exception, longjmp
or the like; it jumped into another traced function; no end was seen."""


class Address(int):
    """The value of a pointer."""

    __slots__ = ()


class Char(str):
    """The value of a character."""

    __slots__ = ()


class Constant(str):
    """The value of an enumeration, by name."""

    __slots__ = ()


class Symbol(str):
    """The value of a pointer to code: the name of the function."""

    __slots__ = ()


class Text(Struct, frozen=True):
    """The value of a string: its bytes, as far as they were read, and its true
    length in bytes; None where it goes on and nobody knows how far."""

    data: bytes
    length: int | None

    @property
    def cut(self) -> bool:
        """Whether there is more of it."""
        return self.length != len(self.data)


class Fields(Struct, frozen=True):
    """The value of a record."""

    type: str
    fields: tuple[Argument, ...]


class Elements(Struct, frozen=True):
    """The value of an array: its first elements, and how many follow."""

    elements: tuple[Datum, ...]
    more: int = 0


class Variant(Struct, frozen=True):
    """The value of an enumeration of Rust: the name of the variant, and what it carries."""

    name: str
    fields: tuple[Argument, ...] = ()


class Referent(Struct, frozen=True):
    """The value of a pointer that was followed: where it leads, and what is there."""

    address: Address
    value: Datum


class Unreadable(Struct, frozen=True):
    """Stands for a value that could not be read. ``reason`` may be empty."""

    reason: str = ""


Datum: TypeAlias = (
    bool | int | float | str | Text | Fields | Variant | Elements | Referent | Unreadable | None
)
"""A decoded value: ``int``, ``float``, ``bool``, `Address`, `Char`, `Constant`,
`Symbol`, `Text`, `Fields`, `Variant`, `Elements`, `Referent`, `Unreadable`; None is the result of a
function without one."""


class Argument(Struct, frozen=True):
    """An argument of a call, or a member of a record, by name."""

    name: str
    value: Datum


class Call(Struct):
    """One call of a traced function.

    ``depth`` is 0 at the outermost traced call of its thread. ``start`` is
    CLOCK_MONOTONIC in ns, ``duration`` in ns; it is None unless ``end`` is
    ``returned``. ``result`` is None until then. ``lost`` counts the events
    its thread lost just before the call began. ``binary`` is the path of the
    file that the function is in.
    """

    name: str
    pid: int
    tid: int
    depth: int
    start: int
    frame: int
    probe: int
    args: tuple[Argument, ...] = ()
    result: Datum = None
    duration: int | None = None
    end: End = "open"
    lost: int = 0
    goroutine: int = 0
    binary: str = ""


class Loss(Struct, frozen=True):
    """``count`` events of a thread or goroutine are missing at this place in its calls,
    ``entries`` of them beginnings of calls, the others returns."""

    pid: int
    tid: int
    depth: int
    time: int
    count: int
    entries: int = 0
    goroutine: int = 0


class Summary(Struct):
    """What a finished trace amounts to. ``interrupted`` says that the capture
    it was made from breaks off."""

    calls: int = 0
    losses: Losses = field(default_factory=Losses)
    processes: int = 0
    threads: int = 0
    interrupted: bool = False

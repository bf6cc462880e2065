"""Follows code natively to all that it calls: what `lbtrace.plan.harmless_functions` judges.

Native code knows no names, and not all instructions: it asks, and continues with the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from lbtrace.elf.functions import NativeFunctions
from lbtrace.elf.image import Segment
from lbtrace.elf.span import Buffer
from lbtrace.machine._code_scan import ffi, lib
from lbtrace.machine.code import Reach
from lbtrace.machine.code_scan import DOUBTS

Meaning: TypeAlias = Literal["harmless", "leads", "doubt", "keeps", "away", "offered"]
"""What a name means where it is called: nothing, code to follow, anything, something that keeps the
return address of the function that jumps to it, anything that may also do that, or nothing but
perhaps that."""

_MEANINGS: dict[Meaning, int] = {
    "harmless": lib.LBT_NAME_HARMLESS,
    "leads": lib.LBT_NAME_LEADS,
    "doubt": lib.LBT_NAME_DOUBT,
    "keeps": lib.LBT_NAME_KEEPS,
    "away": lib.LBT_NAME_AWAY,
    "offered": lib.LBT_NAME_OFFERED,
}

Kind: TypeAlias = Literal[
    "",
    "name",
    "keeper",
    "decoded",
    "read",
    "passed",
    "unread",
    "away",
    "elsewhere",
    "shared",
    "text",
]
"""How a cause is told."""

Asked: TypeAlias = Literal["name", "extent", "end", "reach"]

_ASKED: dict[int, Asked] = {
    lib.LBT_FOLLOW_NAME: "name",
    lib.LBT_FOLLOW_EXTENT: "extent",
    lib.LBT_FOLLOW_END: "end",
    lib.LBT_FOLLOW_REACH: "reach",
}

_OUTSIDE = {
    lib.LBT_WHY_OUTSIDE: "goes to {:#x}, outside of the code",
    lib.LBT_WHY_POINTER: "goes through a pointer at {:#x}",
    lib.LBT_WHY_LARGE: "the code at {:#x} is large",
    lib.LBT_WHY_LIMIT: "calls more than is followed",
}

_BY_NAME: dict[int, Kind] = {
    lib.LBT_WHY_NAME: "name",
    lib.LBT_WHY_KEEPER: "keeper",
    lib.LBT_WHY_DECODED: "decoded",
    lib.LBT_WHY_READ: "read",
    lib.LBT_WHY_PASSED: "passed",
    lib.LBT_WHY_UNREAD: "unread",
    lib.LBT_WHY_AWAY: "away",
    lib.LBT_WHY_ELSEWHERE: "elsewhere",
    lib.LBT_WHY_SHARED: "shared",
}

_DEEPEST = 1 << 30


class Question(NamedTuple):
    """What must be known to continue: what the name of a ``number`` means; the extent of the
    function that holds ``address``; the end of code of no function; or what code does up to
    ``end`` at whose beginning the stack has sunk by ``depth``, None where that is unknown."""

    kind: Asked
    number: int
    address: int
    end: int
    depth: int | None


class Cause(NamedTuple):
    """Why code is in doubt, or keeps its return address: in words, or by the name or the answer of
    the number ``at``, or by the function or code there."""

    kind: Kind = ""
    at: int = 0
    text: str = ""


class WalkVerdict(NamedTuple):
    """What is known of a function, itself and by way of what it calls."""

    doubt: Cause
    keeps: Cause
    walks: bool


class WalkedFile(NamedTuple):
    """A file whose code is followed: its ``data`` and executable ``segments``, its functions,
    where these can be searched natively, where it has names, and which functions keep their return
    addresses, both in order; so many stretches of code are followed besides the roots, each up to
    the ``largest``. Without ``reads`` native code cannot read the machine's code, and asks."""

    data: Buffer
    segments: Sequence[Segment]
    functions: NativeFunctions | None
    named: Sequence[int]
    keepers: Sequence[int]
    nodes: int
    largest: int
    reads: bool


class Walk:
    """Follows the code of a file from ``roots``, the addresses of functions."""

    def __init__(self, file: WalkedFile, roots: Sequence[int]) -> None:
        """Raises `MemoryError`."""
        self._roots = len(roots)
        self._question = ffi.new("struct lbt_question *")
        native = ffi.new("struct lbt_followed_file *")
        # Both live as long as they are read.
        self._kept = [file, *_fill(native, file)]
        made = lib.lbt_follow_new(native, ffi.new("uint64_t[]", list(roots)), len(roots))
        if made == ffi.NULL:
            raise MemoryError
        self._native = ffi.gc(made, lib.lbt_follow_free)
        self._answer: list[object] = []

    def proceed(self) -> Question | None:
        """Return the next question, which is to be answered; None at the end. Raises
        `MemoryError`."""
        asked = self._question
        need = lib.lbt_follow(self._native, asked)
        if need == lib.LBT_FOLLOW_DONE:
            return None
        if need == lib.LBT_FOLLOW_FAILED:
            raise MemoryError
        depth = None if asked.depth == lib.LBT_NO_DEPTH else asked.depth
        return Question(_ASKED[need], asked.number, asked.address, asked.end, depth)

    def add(self, address: int) -> None:
        """Follow a function that is no root, too. Raises `MemoryError`."""
        if not lib.lbt_follow_more(self._native, address):
            raise MemoryError

    def answer_name(self, number: int, meaning: Meaning, address: int) -> None:
        """Say what the name of a number means; ``address`` is where its code is followed."""
        lib.lbt_answer_name(self._native, number, _MEANINGS[meaning], address)

    def answer_extent(self, address: int, extent: range, *, cold: bool) -> None:
        """Say which function holds an address, or which part that was split off one, ``cold``;
        an empty range is none."""
        stop = max(extent.stop, 1) if cold or extent.stop else 0
        if not lib.lbt_answer_extent(self._native, address, extent.start, stop, cold):
            raise MemoryError

    def answer_end(self, end: int, *, alone: bool) -> None:
        """Say where code ends at the latest that no function claims; ``alone`` where no frame
        description is for it either: it has no landing pads."""
        lib.lbt_answer_end(self._native, end, alone)

    def answer_reach(self, reach: Reach) -> None:
        """Say what code does."""
        calls, call_slots = _numbers(reach.calls), _numbers(reach.call_slots)
        jumps, jump_slots = _numbers([to for to, _ in reach.jumps]), _numbers(reach.jump_slots)
        depths = ffi.new("int32_t[]", [_depth(depth) for _, depth in reach.jumps])
        labels, handed = _numbers(reach.labels), [*_handed(reach)]
        told = ffi.new("struct lbt_handed[]", handed)
        accesses = ffi.new("struct lbt_access[]", [*_accesses(reach)])
        self._answer = [*calls, *call_slots, *jumps, depths, *jump_slots, *labels, told, accesses]
        flags = (bool(reach.doubt), reach.keeps, reach.walks, reach.unread, reach.jumps_away)
        lib.lbt_answer_reach(
            self._native, *calls, *call_slots, jumps[0], depths, jumps[1], *jump_slots, *flags
        )
        lib.lbt_answer_labels(self._native, *labels, _depth(reach.computes_at))
        lib.lbt_answer_handed(self._native, told, len(told), accesses, len(accesses))

    def verdicts(self) -> Iterator[WalkVerdict]:
        """Yield the verdict on each root, where nothing is asked any more. Raises `MemoryError`."""
        found = ffi.new("struct lbt_verdict[]", self._roots)
        if not lib.lbt_judge(self._native, found):
            raise MemoryError
        for verdict in found:
            yield WalkVerdict(_cause(verdict.doubt), _cause(verdict.keeps), bool(verdict.walks))


def _fill(native: Any, file: WalkedFile) -> Iterator[object]:
    """Fill in the file for native code; yields what must live as long."""
    data = ffi.from_buffer(file.data)
    parts = ffi.new("struct lbt_code_part[]", len(file.segments))
    for part, segment in zip(parts, file.segments, strict=True):
        part.code, part.address = data + segment.offset, segment.address
        part.size = min(segment.size, max(len(file.data) - segment.offset, 0))
    named, keepers = _numbers(file.named), _numbers(file.keepers)
    native.named, native.named_count = named
    native.keepers, native.keeper_count = keepers
    native.parts, native.part_count = parts, len(file.segments)
    native.most_nodes, native.largest, native.reads = file.nodes, file.largest, file.reads
    if file.functions is not None:
        ends = _numbers(file.functions.ends)
        native.symbols = ffi.cast("void *", file.functions.address)
        native.ends, native.end_count = ends
        yield ends
    yield from (data, parts, named, keepers)


def _numbers(numbers: Sequence[int]) -> tuple[Any, int]:
    return ffi.new("uint64_t[]", [number & (1 << 64) - 1 for number in numbers]), len(numbers)


def _handed(reach: Reach) -> Iterator[tuple[int, int, int]]:
    for target, parameter, origin, distance in reach.handed:
        if abs(distance) < lib.PARAMETER // 2:
            value = origin * lib.PARAMETER - distance if origin else distance
            yield target & (1 << 64) - 1, parameter, value


def _accesses(reach: Reach) -> Iterator[tuple[int, int, int]]:
    for parameter, offset, size in reach.accesses:
        if abs(offset) < lib.PARAMETER // 2:
            yield offset, min(size, 1 << 14), parameter


def _depth(depth: int | None) -> int:
    return lib.LBT_NO_DEPTH if depth is None or abs(depth) > _DEEPEST else depth


def _cause(cause: Any) -> Cause:
    kind, at = cause.kind, cause.at
    if not kind:
        return Cause()
    if kind in _BY_NAME:
        return Cause(_BY_NAME[kind], at)
    return Cause("text", at, {**DOUBTS, **_OUTSIDE}[kind].format(at))

"""What is written of fast batches is what is written call by call, whatever the events are."""

from __future__ import annotations

import io
import os
import random
import struct
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from lbtrace.calls import fast_path
from lbtrace.calls.fast_path import FastMatcher
from lbtrace.calls.matcher import CallMatcher
from lbtrace.calls.probe_decoding import ProbeDecoders
from lbtrace.calls.visitor import Visitor
from lbtrace.model import (
    CLOSE,
    EXEC,
    FORK,
    INTERRUPT,
    LOSS,
    OPEN,
    POINT,
    UNHOOKED,
    UNPROBED,
    Array,
    Batch,
    Binary,
    Boolean,
    Call,
    Character,
    Clock,
    Enumeration,
    Fetch,
    Float,
    Function,
    Integer,
    Losses,
    Plan,
    Pointer,
    Probe,
    Record,
    Site,
    String,
    Summary,
    Thread,
    Type,
    Value,
    Word,
)
from lbtrace.model.wire import EVENT
from lbtrace.sinks import FORMATS
from lbtrace.sinks.layout import PLAIN, Layout

ONCE_WRONG = (417111341, 3997318043)
"""Seeds of streams that were not written the same."""

SEEDS = 12
PIDS = (100, 200, 300)
CHAR = Integer("char", 1, True)
CHARACTER = Character("char", 1, True)

TYPES: tuple[Type, ...] = (
    *(Integer(f"int{size}", size, signed) for size in (1, 2, 4, 8) for signed in (True, False)),
    Pointer("char *"),
    Pointer("*T", null="nil"),
    Boolean("bool", 1),
    Word("long", 8, True),
    Word("unsigned int", 4, False),
    Enumeration("color", 4, False, ((0, "RED"), (1, "GREEN"))),
    Enumeration("mode", 2, True, ((-1, "NONE"), (1, "ONE"), (1, "FIRST"), (128, "größe"))),
    Enumeration("mode", 1, True, ((-1, "NONE"), (1, "ONE"), (1, "FIRST"))),
    Float("float", 4),
    Float("double", 8),
    Float("_Float16", 2),
    CHARACTER,
)

WORDS = (0, 1, 127, 128, 255, 1 << 53, (1 << 64) - 1, 1 << 63, 0x5555_0000_1234, 0xFFFF_FFF0, 65536)

REALS = (0.5, -0.0, 0.1 + 0.2, 1e15, 1e15 + 0.5, 9007199254740994.0, 1e16, 1e-4, 1e-5, 123.456)

TEXTS = (b"", b"text", "größe".encode(), b"\x00\x1b\xff", b"long" * 20, b'a "b"', b"plain words")


class Stream:
    """Random events of a random plan: mostly calls that begin and return, with all else between."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.time = 10**12
        self.open: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        self.jumped: dict[tuple[int, int, int], int] = {}
        self.oddity = self.random.choice((0.0, 0.002, 0.05))
        self.stacks = self.random.random() < 0.5
        self.plan = self.make_plan()

    def make_plan(self) -> Plan:
        functions, probes = list[Function](), list[Probe]()
        # All results are alike, as those are of functions that jump to each other.
        brought = list[Fetch]()
        result = self.value(brought if self.random.random() < 0.3 else None, 0)
        for number in range(self.random.randrange(1, 6)):
            returns = self.random.choice(("uretprobe", "uretprobe", "sites", "none"))
            fetches = list[Fetch]()
            parameters = tuple(self.value(fetches, n) for n in range(self.random.randrange(9)))
            function = Function(
                self.random.choice(("f", "operator()", "größe", "a\x1bb")) + str(number),
                *(64 * number, 64, 64 * number),
                parameters=parameters,
                result=result if self.random.random() < 0.7 else None,
                typed=self.random.random() < 0.7,
                returns=returns,
                language=self.random.choice(("", "go")),
                may_jump=self.random.random() < 0.3,
                loops_to_entry=self.random.random() < 0.3,
            )
            binary = self.random.randrange(2)
            functions.append(function)
            site = Site(64 * number, 64 * number)
            probes.append(Probe(site, "opens", number, fetches=tuple(fetches), binary=binary))
            if returns != "none":
                source = "uretprobe" if returns == "uretprobe" else "uprobe"
                fetched = tuple(brought)
                closing = Probe(site, "closes", number, source, fetched, binary=binary)
                probes.append(closing)
            if returns == "sites":
                probes.append(self.jump(number, probes[-1]))
        relays = [Probe(Site(7, 7), "tail return", relay=number) for number in (1, 2)]
        probes += [replace(each, fetches=tuple(brought)) for each in relays]
        probes += [Probe(Site(8, 8), "landing"), Probe(Site(9, 9), "lane end")]
        if self.stacks:
            kinds = self.random.choice((("stack",), ("signal stack",), ("stack", "switch")))
            probes += [Probe(Site(10, 10), kind) for kind in kinds]
        return Plan((Binary("./one"), Binary("./two")), tuple(functions), tuple(probes))

    def jump(self, number: int, closing: Probe) -> Probe:
        """One that ends calls, as in former captures and where no return is seen, or not."""
        leads_to = self.random.choice(("", "f", "größe", "?", 'operator"" _x'))
        jump = Probe(closing.site, "tail", number, binary=closing.binary, leads_to=leads_to)
        if not leads_to or self.random.random() < 0.3:
            return jump
        known, relay = self.random.random() < 0.8, self.random.choice((0, 0, 1, 2))
        return replace(jump, goes_on=True, relay=relay, fetches=closing.fetches if known else ())

    def value(self, fetches: list[Fetch] | None, number: int) -> Value:
        name = self.random.choice(("n", "", "max size", f"k{number}"))
        slot = len(fetches) if fetches is not None else self.random.randrange(6)
        if self.random.random() < 0.05:
            return Value(name, CHAR, -1, "float in xmm0")
        if fetches is not None and self.random.random() < 0.1:
            fetches.append(Fetch(register="di", read="string", size=64))
            return Value(name, String("char *"), slot)
        if fetches is not None and self.random.random() < 0.2:
            return self.composed(name, fetches)
        if fetches is not None:
            fetches.append(Fetch(register="di"))
        return Value(name, self.random.choice(TYPES), slot)

    def composed(self, name: str, fetches: list[Fetch]) -> Value:
        """A record, an array, or what a pointer leads to, of bytes in memory."""
        slot = len(fetches)
        fetches.append(Fetch(register="di", read="bytes", size=64))
        members, offset = list[Value](), 0
        alike = self.random.choice((None, *TYPES))
        for number in range(self.random.randrange(1, 5)):
            kind = alike or self.random.choice(TYPES)
            called = self.random.choice((f"m{number}", "", "of it", "__0"))
            bits = (0, 0)
            if isinstance(kind, Integer) and self.random.random() < 0.3:
                bits = self.random.randrange(8), self.random.randrange(1, 8 * kind.size)
                bits = bits if sum(bits) <= 64 else (0, 3)
            members.append(Value(called, kind, slot, "", offset, *bits))
            offset += kind.size
        if self.random.random() < 0.5:
            text = Array("char[5]", 5, CHARACTER, 5)
            members.append(Value("text", text, slot, "", offset))
            if len(fetches) < 14:
                members.append(Value("name", String("char *"), len(fetches)))
                fetches.append(Fetch(register="di", read="string", size=64))
        made: Type = Record(
            self.random.choice(("item", "")), offset, more=self.random.choice((0, 2))
        )
        if self.random.random() < 0.3:
            made = Array("int[4]", offset, TYPES[0], len(members) + self.random.randrange(3))
        whole = Value(name, made, members=tuple(members))
        if self.random.random() < 0.5 and len(fetches) < 15:
            fetches.append(Fetch(register="di"))
            pointer = Pointer("item *", target=made, reference=self.random.random() < 0.3)
            return Value(name, pointer, len(fetches) - 1, members=(whole,))
        return whole

    def batches(self) -> Iterator[Batch]:
        for _ in range(self.random.randrange(1, 5)):
            size = self.random.choice((3, 100, 1000))
            records, blobs = list[bytes](), list[bytes]()
            threads = tuple(self.thread() for _ in range(self.random.randrange(3)))
            for _ in range(size):
                record, blob = self.event()
                records.append(record)
                blobs.append(blob)
            gap = self.random.random() < 0.05
            yield Batch(b"".join(records), b"".join(blobs), threads, gap=gap)

    def thread(self) -> Thread:
        pid = self.random.choice(PIDS)
        time = self.time + self.random.randrange(100_000)
        life = self.random.choice((0, 0, 0, 1, 2))
        return Thread(pid, pid + self.random.randrange(3), "name", time, life)

    def event(self) -> tuple[bytes, bytes]:
        self.time += self.random.choice((5, 300, 998, 1005, 99_949, 10**6, 10**9))
        pid = self.random.choice(PIDS)
        tid = pid + self.random.randrange(3)
        goroutine = self.random.choice((0, 0, 0, 7, 1 << 40))
        key = pid, goroutine or tid, goroutine
        lane = self.open.setdefault(key, [])
        if self.random.random() < self.oddity:
            return self.odd(pid, tid, goroutine, lane)
        if lane and self.random.random() < 0.5 and self.closing(lane[-1][1]):
            frame, probe = lane.pop()
            jump = self.plan.probes[probe + 2]
            if self.random.random() < 0.4 and jump.role == "tail":
                if jump.goes_on:
                    self.jumped[key] = frame
                    lane.append((frame, probe))
                return self.record(frame, goroutine, probe + 2, pid, tid, CLOSE)
            if lane and lane[-1][0] == frame and self.random.random() < 0.9:
                while lane and lane[-1][0] == frame:
                    lane.pop()
            if self.random.random() < 0.2 and jump.relay:
                probe = next(n for n, p in enumerate(self.plan.probes) if p.role == "tail return")
                return self.record(frame, goroutine, probe + jump.relay - 1, pid, tid, CLOSE)
            return self.record(frame, goroutine, probe + 1, pid, tid, CLOSE)
        probe = self.random.choice([n for n, p in enumerate(self.plan.probes) if p.role == "opens"])
        frame = lane[-1][0] - 16 * self.random.randrange(1, 9) if lane else 1 << 40
        frame = self.jumped.pop(key, frame)
        if not self.closing(probe):
            return self.record(frame, goroutine, probe, pid, tid, OPEN)
        lane.append((frame, probe))
        return self.record(frame, goroutine, probe, pid, tid, OPEN)

    def closing(self, probe: int) -> bool:
        return self.plan.probes[probe + 1].role == "closes"

    def odd(
        self, pid: int, tid: int, goroutine: int, lane: list[tuple[int, int]]
    ) -> tuple[bytes, bytes]:
        """Calls that are left, tail calls, losses, missed returns, returns of nothing."""
        frame = lane[self.random.randrange(len(lane))][0] if lane else 1 << 39
        frame += self.random.choice((0, 0, 8, -8))
        while lane and self.random.random() < 0.5:
            lane.pop()
        kinds = (
            OPEN,
            OPEN | UNHOOKED,
            CLOSE,
            POINT,
            LOSS,
            UNPROBED,
            FORK,
            FORK,
            EXEC,
            INTERRUPT,
            15,
        )
        kind = self.random.choice(kinds)
        probe = self.random.randrange(len(self.plan.probes))
        if self.random.random() < 0.3:
            probe, kind = len(self.plan.probes) - 1, POINT
        return self.record(frame, goroutine, probe, pid, tid, kind)

    def record(
        self, frame: int, goroutine: int, probe: int, pid: int, tid: int, kind: int
    ) -> tuple[bytes, bytes]:
        choose = self.random.choice
        fetches = self.plan.probes[probe].fetches
        values = [choose((*WORDS, *map(bits_of, REALS))) for _ in range(max(6, len(fetches)))]
        faults = choose((0,) * 20 + (1, 2, 63, 0x100))
        blob = b""
        for slot, fetch in enumerate(fetches):
            if fetch.read in ("string", "bytes") and not faults >> slot & 1:
                piece = choose(TEXTS) if fetch.read == "string" else self.bytes()
                values[slot] = len(piece) | choose((len(piece), len(piece), 0xFFFF_FFFF)) << 32
                blob += piece
        blob = b"".join(value.to_bytes(8, "little") for value in values[6:]) + blob
        values = values[:6]
        if kind not in (OPEN, CLOSE):
            values = [choose((0, 1, 1 << 32)) for _ in range(6)]
            if kind == POINT:  # a stack somewhere below, which may end where calls are
                values[:2] = (1 << 40) - choose((64, 256, 4096)), choose((32, 512, 1 << 16))
            if kind == FORK:
                child, continues = choose(PIDS), choose((0, 1, 1))
                values[:2] = child, continues << 32 | choose((0, 0, 0, 1)) << 22
                own = self.open.get((pid, tid, 0), [])
                self.open[child, child, 0] = own.copy() if continues else []
            if kind == EXEC:
                values[0] = choose((0, 1 << 22))
        if self.stacks and not goroutine:
            goroutine = choose((0, 0, 1 << 20, 1 << 40))
        head = (self.time, frame % (1 << 64), goroutine, probe, pid, tid, kind, faults, 0)
        return EVENT.pack(*head, len(blob), *values), blob

    def bytes(self) -> bytes:
        """Numbers and text that lie in memory, now and then too few."""
        choose = self.random.choice
        data = b"".join(
            choose((struct.pack("<d", choose(REALS)), struct.pack("<f", 0.3), b"plain\0..", b"\1"))
            for _ in range(8)
        )
        return data[: choose((64, 64, 64, 9))]


def bits_of(number: float) -> int:
    return int.from_bytes(struct.pack("<d", number), "little")


@pytest.mark.parametrize("one_by_one", [1, fast_path.AFTER_FAST_BATCH])
@pytest.mark.parametrize("max_depth", [None, 2])
@pytest.mark.parametrize("name", ["tree", "jsonl", "racket", "chrome", "speedscope", "report"])
def test_both_ways_write_the_same(
    name: str, max_depth: int | None, one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "FEWEST", 1)
    monkeypatch.setattr(fast_path, "WORTHWHILE", one_by_one)
    monkeypatch.setattr(fast_path, "AFTER_FAST_BATCH", one_by_one)
    first = int.from_bytes(os.urandom(4), "little")
    for seed in (*ONCE_WRONG, *range(first, first + SEEDS)):
        stream = Stream(seed)
        batches = [*stream.batches()]
        layout = Layout(time=(None, "clock", "relative", "delta")[seed % 4])
        plan = replace(stream.plan, clock=Clock(seed, 1_700_000_000 * 10**9 + seed, 3600))
        ways = [
            write(matcher, name, plan, batches, max_depth, layout)
            for matcher in (CallMatcher, FastMatcher)
        ]
        assert ways[0] == ways[1], f"seed {seed}"


def test_what_ends_has_begun() -> None:
    for seed in (1045, *range(SEEDS)):
        stream, begun = Stream(seed), Begun()
        matcher = CallMatcher(stream.plan, begun)
        for batch in stream.batches():
            matcher.feed(batch)
        matcher.finish()
        assert not begun.calls, f"seed {seed}"


class Begun(Visitor):
    """The calls that have begun and not ended."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def entry(self, call: Call) -> None:
        self.calls.append(call)

    def exit(self, call: Call) -> None:
        del self.calls[next(n for n, each in enumerate(self.calls) if each is call)]


def test_only_probes_that_are_hit_are_decoded() -> None:
    """A trace of ten thousand functions would start a second later else."""
    functions = tuple(Function(f"f{n}", n, 1, n) for n in range(50))
    plan = Plan(
        (Binary("./one"),), functions, tuple(Probe(Site(n, n), "opens", n) for n in range(50))
    )
    decoders = ProbeDecoders(plan)
    assert decoders[7].name == "f7"
    assert len(decoders) == 1
    with pytest.raises(KeyError):
        decoders[50]


def write(
    kind: type[CallMatcher],
    name: str,
    plan: Plan,
    batches: list[Batch],
    max_depth: int | None,
    layout: Layout = PLAIN,
) -> tuple[str, int, int, int, int]:
    stream = io.StringIO()
    sink = FORMATS[name].load()(stream, plan, layout)
    matcher = kind(plan, sink, max_depth=max_depth)  # type: ignore[arg-type]
    for batch in batches:
        if batch.gap:
            matcher.finish()
        matcher.feed(batch)
        if len(batch.events) < 500:
            sink.flush()
    matcher.finish()
    sink.end(Summary(calls=matcher.calls, losses=Losses()))
    counts = (matcher.calls, matcher.threads, matcher.return_depth, matcher.returns_without_entry)
    return stream.getvalue(), *counts

"""Reads what is left of damaged captures.

Chunks whose checksum is wrong are left out; where their length is wrong too, the next
chunk is searched for. What the file holds besides is said: chunks of another capture, and
those that are there once more. The parts of the plan are decoded separately: a function whose
values cannot be trusted is shown without them, events of a probe that cannot be read are left out.
`Batch.gap` marks where batches are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from lbtrace.capture.check import find_faults
from lbtrace.capture.chunk_search import ChunkSearch
from lbtrace.capture.growing import Growing
from lbtrace.capture.heads import HEAD_SIZE, head_at
from lbtrace.capture.known_events import KnownEvents
from lbtrace.capture.layout import (
    ADDITION,
    DECODING_ERRORS,
    END,
    HEADER,
    PLAN,
    Buffer,
    decode_addition,
    decode_plan,
)
from lbtrace.capture.long_texts import shorten
from lbtrace.capture.reading import RECORD, Capture
from lbtrace.errors import CaptureError
from lbtrace.model import (
    NO_BINARY,
    Aggregates,
    Batch,
    Binary,
    Clock,
    Function,
    KernelEvent,
    Plan,
    Probe,
    Site,
    Symbols,
    UnseenSwitches,
)
from lbtrace.probes import ROLES, STACK_ROLES
from lbtrace.values import convert

LISTED = 8
"""At most this many functions and probes are named; the others are counted."""

NOWHERE = KernelEvent("unreadable", 0)
UNREADABLE = Probe(Site(0, 0), "unreadable", binary=NO_BINARY, event=NOWHERE)
"""Stands for a probe that cannot be read."""

T = TypeVar("T")


class SalvagedCapture(Capture):
    """A capture that is read as far as possible. ``left_out`` is complete when `batches` has come
    to its end."""

    def batches(self) -> Iterator[Batch | Aggregates]:
        """Yield the undamaged batches, in order, without the events that cannot be read."""
        missing, known = 0, KnownEvents(self.plan, self._unknown, uncertain=self._uncertain)
        for whole in super().batches():
            if isinstance(whole, Aggregates):
                yield whole
                continue
            batch = known.of(whole)
            batch.gap, missing = self._chunks_lost > missing, self._chunks_lost
            yield batch
        self.left_out += [*self._account_for_chunks()]
        if known.lost:
            events = _count(known.lost, "event")
            self.left_out.append(f"{events} whose probe or kind cannot be read")

    def _account_for_chunks(self) -> Iterator[str]:
        """What of the file is not exactly one capture, a line each."""
        search, order = self._search, self._search.order
        damaged = search.damaged + self._bytes_lost
        if self._chunks_lost:
            what = f" of {damaged:,} bytes in all: damaged" if damaged else ": missing"
            yield _count(self._chunks_lost, "chunk") + what
        elif damaged:
            belong = "belongs" if damaged == 1 else "belong"
            yield f"{_count(damaged, 'byte')} that {belong} to no chunk"
        if order.doubles:
            are = "is" if order.doubles == 1 else "are"
            yield f"{_count(order.doubles, 'chunk')} that {are} there once more"
        if order.rivals:
            yield f"{_count(order.rivals, 'chunk')} with the number of another one"
        if self.complete and search.following:
            yield f"{_count(search.following, 'chunk')} after its end"
        if order.foreign:
            yield f"{_count(order.foreign, 'chunk')} of another capture"
        elif search.found is not None and any(search.found.headers):
            yield "the beginning of another capture"

    @property
    def _chunks_lost(self) -> int:
        """Chunks that are damaged or missing, up to the present one."""
        return self._search.lost + self._undecoded

    def _account_for_rest(self) -> None:
        """Nothing: what follows the end is among the chunks that were found."""

    def _rewind(self) -> None:
        super()._rewind()
        self._restart()

    def _restart(self) -> None:
        """Begin again after the plan."""
        self._search.restart()
        self._chunks = self._search.chunks()
        self._undecoded = self._bytes_lost = 0

    def _read_plan(self) -> Plan:
        self._uncertain = False
        try:
            self._search = ChunkSearch(self._file)
        except ValueError:  # it is empty
            raise CaptureError(f"{self.path} is not a capture", RECORD) from None
        self.size = self._search.size
        self._unknown: set[int] = set()
        self._check_header()
        chunk = self._plan_chunk()
        if chunk is None:
            raise CaptureError(
                f"{self.path} has no plan, without which its events mean nothing", RECORD
            )
        self._start = self.position
        self._restart()
        return self._without_faults(self._with_additions(self._salvage_plan(chunk)))

    def _check_header(self) -> None:
        """Note that the header is damaged. One with a former version is, where a plan of this one
        follows it."""
        self._file.seek(0)
        try:
            self._read_header()
        except CaptureError as error:
            former = "wrote" in (error.hint or "") and self._search.whole_chunk(HEADER.size)
            if "version" in error.message and not former:
                raise
            self.left_out.append("the header of the file: damaged")

    def _plan_chunk(self) -> memoryview | None:
        """The content of the plan's chunk, even if its checksum is wrong. Finds the others."""
        search, start = self._search, HEADER.size
        if bytes(search.data[start : start + 4]) == PLAN and start + HEAD_SIZE <= self.size:
            chunk = search.whole_chunk(start)
            end = search.after(start) if chunk is None else start + HEAD_SIZE + len(chunk[1])
            if chunk is None and (chunk := search.with_identity_of(start, end)):
                self.left_out.append("the head of the plan: damaged")
            if chunk is None:
                self.left_out.append(
                    "the checksum of the plan is wrong: names and values may be too"
                )
                self._uncertain = True
                chunk = head_at(search.data, start), search.data[start + HEAD_SIZE : end]
            search.search(end)
        else:
            found = search.search(0 if self.left_out else start)
            if not found.plans:
                return None
            start = found.starts[found.plans[0]]
            chunk = search.whole_chunk(start)
            if chunk is None:  # the file has changed
                return None
        search.plan, search.identity = start, chunk[0].identity
        self.position = HEADER.size + HEAD_SIZE + len(chunk[1])
        return chunk[1]

    def _next(self) -> tuple[bytes, memoryview] | None:
        for head, payload in self._chunks:
            self.position += HEAD_SIZE + len(payload)
            return head.kind, payload
        self.position = self.size
        return None

    def _pass_over(self, length: int) -> bool:
        self._undecoded += 1
        self._bytes_lost += HEAD_SIZE + length
        return True

    def _salvage_plan(self, payload: Buffer) -> Plan:
        try:
            payload = shorten(payload)
            return decode_plan(payload)
        except DECODING_ERRORS as error:
            try:
                return self._from_parts(msgspec.msgpack.decode(payload))
            except DECODING_ERRORS:
                raise CaptureError(
                    f"the plan in {self.path} cannot be read at all ({error}),"
                    " without it events mean nothing",
                    RECORD,
                ) from error

    def _with_additions(self, plan: Plan) -> Plan:
        """The plan with the additions to it that can be read."""
        if not (plan.may_grow or plan.stack_depth):
            return plan
        grown, damaged = Growing(plan), 0
        while (chunk := self._next()) is not None and chunk[0] != END:
            if chunk[0] == ADDITION:
                try:
                    grown.add(decode_addition(shorten(chunk[1])), padding=UNREADABLE)
                except DECODING_ERRORS:
                    damaged += 1
        self.position = self._start
        self._unknown |= {n for n, probe in enumerate(grown.plan().probes) if probe is UNREADABLE}
        if damaged:
            additions = _count(damaged, "addition")
            self.left_out.append(f"{additions} to the plan: cannot be decoded")
        return grown.plan()

    def _from_parts(self, parts: Any) -> Plan:
        """A plan of the parts that can be decoded."""
        fields = parts if isinstance(parts, dict) else {}
        binaries = _listed(fields.get("binaries"))
        functions = _listed(fields.get("functions"))
        probes = tuple(
            _convert(part, Probe) or UNREADABLE for part in _listed(fields.get("probes"))
        )
        self._unknown |= {n for n, probe in enumerate(probes) if probe is UNREADABLE}
        made = Plan(
            tuple(_convert(b, Binary) or Binary(_text(b, "path")) for b in binaries),
            tuple(
                _convert(f, Function) or Function(_text(f, "name") or f"function {n}", 0, 0, 0)
                for n, f in enumerate(functions)
            ),
            probes,
            may_grow=bool(fields.get("may_grow")),
            stack_depth=_convert(fields.get("stack_depth"), int) or 0,
            shown_depth=_convert(fields.get("shown_depth"), int) or 0,
            clock=_convert(fields.get("clock"), Clock),
            unseen_switches=_switches(fields.get("unseen_switches", "")),
        )
        damaged = [
            made.functions[n].name for n, f in enumerate(functions) if _convert(f, Function) is None
        ]
        if damaged:
            self.left_out.append(f"the values of {_some(damaged)}: cannot be decoded")
        if not (functions and probes):
            raise msgspec.DecodeError("no functions and probes")
        return made

    def _without_faults(self, plan: Plan) -> Plan:
        """A plan without the parts in which `find_faults` finds faults."""
        binaries, functions = list(plan.binaries), list(plan.functions)
        probes = list(plan.probes)
        named = []
        for fault in find_faults(plan):
            if fault.record == "binary":
                go = binaries[fault.number].go
                go = replace(go, types=((), ())) if go else None
                binaries[fault.number] = replace(binaries[fault.number], go=go, symbols=Symbols())
                self.left_out.append(fault.what)
            elif fault.record == "probe":
                probes[fault.number] = UNREADABLE
                self._unknown.add(fault.number)
            elif functions[fault.number].parameters or functions[fault.number].result:
                functions[fault.number] = replace(
                    functions[fault.number], parameters=(), result=None, typed=False
                )
                named.append(fault.what)
            if fault.record == "function":
                place = functions[fault.number].binary
                place = place if 0 <= place < len(binaries) else NO_BINARY
                functions[fault.number] = replace(functions[fault.number], binary=place)
        for number, probe in enumerate(probes):
            if probe.role not in ROLES:
                probes[number] = UNREADABLE
                self._unknown.add(number)
        if not functions:
            probes = []
        if named:
            self.left_out.append(f"the values of {_some(named)}")
        if self._unknown:
            self.left_out.append(f"{len(self._unknown):,} of {len(probes):,} probes")
        return replace(
            plan,
            binaries=tuple(binaries),
            functions=tuple(functions),
            probes=tuple(probes),
            unseen_switches="any" if self._lacks_stacks(plan) else plan.unseen_switches,
        )

    def _lacks_stacks(self, plan: Plan) -> bool:
        """Whether a probe that is left out may have reported stacks, or switches between them. In
        Go none does."""
        if any(binary.go for binary in plan.binaries):
            return False
        roles = {plan.probes[number].role for number in self._unknown}
        return any(role not in ROLES or role in STACK_ROLES for role in roles)


def _switches(data: Any) -> UnseenSwitches:
    return data if data in get_args(UnseenSwitches) else "any"


def _count(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return "; ".join(names[:LISTED]) + more


def _listed(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _text(data: Any, field: str) -> str:
    found = data.get(field) if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""


def _convert(data: Any, kind: type[T]) -> T | None:
    try:
        return convert(data, kind)
    except DECODING_ERRORS:
        return None

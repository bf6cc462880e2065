"""Attaching programs to the sites of a plan.

Three ways, by what the kernel has: ``session``, a link for each binary whose
program runs at entry and at return (6.13); ``multi``, a link for all entries of a
binary and one for all returns (6.6); ``plain``, two links a probe, everywhere. Each is a file
of `lbtrace.bpf.attach`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from errno import EPERM
from threading import Thread
from typing import Any, TypeAlias

from msgspec.structs import replace

from lbtrace.bpf import counters
from lbtrace.bpf._libbpf import lib
from lbtrace.bpf.attach import Attachment, Place, find_attach_type
from lbtrace.bpf.backup_programs import TURN, TURNS, with_backups
from lbtrace.bpf.features import Features, has_cookies, preempts_tracepoints
from lbtrace.bpf.gate import check_pointer, failure
from lbtrace.bpf.objects import Programs, TraceObject
from lbtrace.bpf.privileges import missing
from lbtrace.errors import KernelError, UsageError
from lbtrace.model import CLOSE, NO_BINARY, OPEN, POINT, Plan, Probe
from lbtrace.probes import PROBES, ROLES, Mode, Source, hooked_pairs
from lbtrace.probes.sources import AFTER_CALL, finds_returns
from lbtrace.system.file import File

LATER_SPECS = 1024
"""Different kinds of probe that there is room for in files that are mapped later."""

COPIES = 4_000
"""Probes that may have programs of their own: each load takes some 10 ms."""

CLOSERS = 8
"""Links that are detached at the same time."""

TICK = 0.02
"""Seconds between two looks at how far detaching has come."""

PRECEDING = 2
ORDER = {CLOSE: 0, POINT: 1, OPEN: 3}
"""Attach what closes calls first, so that a call made meanwhile is recorded completely or not
at all. Of several probes on an instruction the kernel runs that first which was attached last
(consumer_add() in kernel/events/uprobes.c): a function's calls begin before those of markers in
it, and end after them; points come in the order of the plan, and a function returns before those
that have jumped to it. What returned to an instruction has done so before anything there
(`PRECEDING`)."""


Attachments: TypeAlias = dict[Attachment, list[int]]
"""What is attached, in order, with the numbers of the probes in the plan."""


def best_mode(features: Features, plan: Plan, *, guarded: bool) -> Mode:
    """Return the cheapest way of attaching a plan that the kernel has.

    A session costs a call a tenth more than two multi links, but saves the
    return of a call that is not recorded; ``guarded``: and the hook of any
    call that is not to have one, be it a stranger's or on an alternate signal stack.
    """
    pairs = _session_pairs(plan.probes)
    partial = plan.within or any(plan.probes[opening].conditions for opening in pairs)
    if features.session and pairs and (partial or guarded):
        return "session"
    return "multi" if features.multi else "plain"


def attachments(mode: Mode, probes: Sequence[Probe], first: int = 0) -> Attachments:
    """Return what is attached in a mode, of the probes from number ``first`` on."""
    pairs = _session_pairs(probes) if mode == "session" else {}
    together = set(pairs.values())
    alike: dict[tuple[str, str, bool], list[int]] = {}  # few keys: there may be many probes
    for number, probe in enumerate(probes[first:], first):
        if number in pairs:
            alike.setdefault((probe.role, probes[pairs[number]].source, True), []).append(number)
        elif number not in together and PROBES[probe.source].attach:
            alike.setdefault((probe.role, probe.source, False), []).append(number)
    found: dict[Attachment, list[int]] = {}
    orders: dict[Attachment, int] = {}
    points: set[int] = set()
    for (role, name, paired), numbers in alike.items():
        source = PROBES[name]
        if paired:
            wanted = Attachment(source.paired, mode)
        else:
            program = source.programs[role]
            how = _tried(source) if source.tried else source.attach_type(mode)
            wanted = Attachment(program, how, source.at_return)
        found.setdefault(wanted, []).extend(numbers)
        if ROLES[role].event == POINT:
            points.update(numbers)
        # If a program serves several roles, the earliest decides its order.
        order = PRECEDING if source.precedes else ORDER[ROLES[role].event]
        orders[wanted] = min(order, orders.get(wanted, order))
    inner = {number for number, probe in enumerate(probes[first:], first) if probe.pair}
    relays = {number for number, probe in enumerate(probes[first:], first) if probe.relay}
    ordered = sorted(
        found,
        key=lambda wanted: (
            *(orders[wanted], not wanted.at_return),
            inner.isdisjoint(found[wanted]) == (orders[wanted] == ORDER[OPEN]),
        ),
    )
    if not points and not inner and not relays:
        return {wanted: sorted(found[wanted]) for wanted in ordered}

    def attached(number: int) -> tuple[bool, bool, int]:
        backwards = number in points or number in inner
        is_relay = number in relays and probes[number].role == "tail return"
        return number not in inner, not is_relay, -number if backwards else number

    return {wanted: sorted(found[wanted], key=attached) for wanted in ordered}


def _session_pairs(probes: Sequence[Probe]) -> dict[int, int]:
    """`hooked_pairs` of sources that one program can serve at both ends."""
    pairs = hooked_pairs(probes, PROBES)
    return {opens: n for opens, n in pairs.items() if PROBES[probes[n].source].paired}


def check_works(probes: Iterable[Probe]) -> None:
    """Raise `KernelError` where this kernel has no way to attach some of ``probes``."""
    for name in {probe.source for probe in probes}:
        if PROBES[name].tried:
            _tried(PROBES[name])


def _tried(source: Source) -> str:
    """The first of its attach types that works here. Raises `KernelError`, `PrivilegeError`."""
    if missing():  # else the kernel seems to lack all
        raise failure(EPERM, "trace functions of the kernel")
    if not has_cookies():
        raise KernelError(
            "this kernel does not tell which of its functions was called", "use Linux 5.15 or later"
        )
    for name in source.attach:
        if find_attach_type(name).works():
            return name
    raise KernelError(
        "this kernel refuses probes in its own functions (kprobes)",
        "use a kernel built with CONFIG_KPROBE_EVENTS=y, as distributions' are;"
        " system calls and tracepoints work here",
    )


def with_turns(attached: Attachments) -> Attachments:
    """Return what is ``attached`` and, first, the other end of system calls, where programs need
    both: see `lbtrace.bpf.backup_programs.TURNS`."""
    ends = {wanted for wanted in attached if wanted.program in TURNS}
    if not ends or not preempts_tracepoints(os.uname().release):
        return attached
    both = (replace(wanted, program=program) for wanted in ends for program in TURNS)
    return {wanted: [] for wanted in both if wanted not in ends} | attached


def programs(mode: Mode, attached: Attachments, plan: Plan | None = None) -> Programs:
    """Return the programs of what is attached in a mode, and how they are loaded; of a ``plan``
    that may grow also those of markers or relays, which may come later.

    Raises `UsageError` where one of them would have to be loaded in two ways.
    """
    found: Programs = {}
    if plan is not None and plan.may_grow:
        marker = PROBES["marker"]
        how = find_attach_type(marker.attach_type(mode)).LOADING
        found |= dict.fromkeys(marker.programs.values(), how)
    if plan is not None and finds_returns(plan.probes):
        for source, role in ((AFTER_CALL, "tail return"), ("uprobe", "landing")):
            how = find_attach_type(PROBES[source].attach_type(mode)).LOADING
            found[PROBES[source].programs[role]] = how
    for wanted in attached:
        loading = find_attach_type(wanted.attach).LOADING
        other = found.setdefault(wanted.program, loading)
        if wanted.program in TURNS and preempts_tracepoints(os.uname().release):
            turn = replace(loading, counted=bool(attached[wanted]))
            found |= dict.fromkeys(with_backups([wanted.program + TURN]), turn)
        if other != loading:
            raise UsageError(
                f"mode {mode} attaches probes of several sources that serve the same program,"
                f" {wanted.program}, in ways that need it loaded differently",
                "trace one of the sources alone, or choose another mode",
            )
    return found


def count_single(attached: Attachments) -> tuple[int, float]:
    """Return how many probes take a link of their own, and about how many seconds it takes to
    detach these."""
    each = [find_attach_type(wanted.attach).DETACHING for wanted in attached]
    counts = [len(numbers) for numbers in attached.values()]
    seconds = sum(count * taken for count, taken in zip(counts, each, strict=True))
    return sum(count for count, taken in zip(counts, each, strict=True) if taken), seconds


def copies(plan: Plan, cookies: Sequence[int]) -> dict[int, Programs]:
    """Programs of its own for each probe, by its cookie: what a kernel needs
    whose programs cannot ask which probe was hit. Raises `UsageError`."""
    if any(probe.event for probe in plan.probes):
        raise UsageError(
            "system calls, tracepoints and time off the CPU are not seen by kernels before 5.15",
            "trace functions alone",
        )
    together: dict[int, list[Probe]] = {}
    for probe, cookie in zip(plan.probes, cookies, strict=True):
        if PROBES[probe.source].attach:
            together.setdefault(cookie, []).append(probe)
    if len(together) > COPIES:
        raise UsageError(
            f"{len(together):,} probes are too many: this kernel has no cookies (before 5.15),"
            " so each takes programs of its own",
            f"choose fewer functions: at most {COPIES} probes",
        )
    return {
        cookie: programs("plain", attachments("plain", probes))
        for cookie, probes in together.items()
    }


def open_files(single: int, copies: dict[int, Programs] | None) -> int:
    """Return how many descriptors probes take that have links of their own: of the link and its
    perf event, and of the `copies` of programs."""
    return 2 * single + sum(map(len, (copies or {}).values()))


class Links:
    """What is attached; `close` detaches it."""

    def __init__(self) -> None:
        self._links: list[Any] = []
        self._abandoned = False
        self._loaded: TraceObject | None = None

    def __len__(self) -> int:
        return len(self._links)

    def close(self, tick: Callable[[int], None] = lambda left: None) -> None:
        """Detach everything. No program runs any more when it returns, but for `abandon`.

        ``tick`` is called now and then with the number of links that are left.
        """
        if self._loaded is not None:
            self._loaded.kernel_links.forget()
        # Each waits for the kernel; those that wait together wait once.
        closers = [Thread(target=self._close_some) for _ in self._links[:CLOSERS]]
        for closer in closers:
            closer.start()
        for closer in closers:
            while closer.is_alive():
                closer.join(TICK)
                tick(len(self._links))
        if self._links:
            self._hand_over()

    def since(self, count: int) -> list[Any]:
        """Return the links that were attached when there were so many already."""
        return self._links[count:]

    def detach(self, some: list[Any]) -> None:
        """Detach some of the links."""
        for link in some:
            self._links.remove(link)
            lib.bpf_link__destroy(link)

    def abandon(self) -> None:
        """Let `close` return soon: the kernel detaches what is left, in its own time.

        Safe in a signal handler.
        """
        self._abandoned = True

    def _close_some(self) -> None:
        while self._links and not self._abandoned:
            try:
                link = self._links.pop()
            except IndexError:  # another thread took the last one
                return
            lib.bpf_link__destroy(link)

    def _hand_over(self) -> None:
        """Close our ends of the links, while another process still holds them.

        The process that closes the last end of a plain link waits for the kernel: the other
        one, when we have closed all of ours.
        """
        ours, its = os.pipe()
        if os.fork() == 0:
            os.close(its)
            os.setsid()
            for stream in range(3):
                os.close(stream)
            os.read(ours, 1)  # returns when the other end is closed
            os._exit(0)
        os.close(ours)
        for link in self._links:
            lib.bpf_link__destroy(link)
        self._links.clear()
        os.close(its)

    def attach(
        self,
        loaded: TraceObject,
        plan: Plan,
        cookies: list[int],
        attached: Attachments,
        pid: int,
        files: Sequence[File],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Attach all probes of a plan, as `attachments` says; ``pid`` 0 is every process.

        ``files`` are the plan's binaries, open: to these the probes are attached, whatever
        lies at their paths by now. ``tick`` is called for each probe that has a link of its
        own. Raises `KernelError`; what was attached until then stays for `close`.
        """
        self._loaded = loaded
        raised = counters.find_counters(plan.probes)
        for wanted, numbers in attached.items():
            chosen: dict[int, list[Place]] = {} if numbers else {NO_BINARY: []}
            for number in numbers:
                probe = plan.probes[number]
                counter = raised.get((probe.binary, probe.site.offset), 0)
                chosen.setdefault(probe.binary, []).append(Place(probe, cookies[number], counter))
            how = find_attach_type(wanted.attach)
            for binary, places in chosen.items():
                if binary == NO_BINARY:
                    self._links += how.attach_events(loaded, wanted, places)
                    continue
                for link in counters.attach(how, loaded, wanted, files[binary], places, pid):
                    self._links.append(link)
                    if how.DETACHING:
                        tick()

    def attach_tracepoint(self, loaded: TraceObject, program: str) -> None:
        """Attach a program to the tracepoint its section names."""
        link = lib.bpf_program__attach(loaded.program(program))
        self._links.append(check_pointer(link, f"attach {program}"))

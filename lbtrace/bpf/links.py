"""Attaching programs to the sites of a plan.

Three ways, by what the kernel has: ``session``, a link for each binary whose
program runs at entry and at return (6.13); ``multi``, a link for all entries of a
binary and one for all returns (6.6); ``plain``, two links a probe, everywhere. A plain link takes
0.1 s to detach, as the kernel waits for an RCU grace period each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, Literal, TypeAlias

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.features import Features
from lbtrace.bpf.gate import check_pointer
from lbtrace.bpf.objects import Programs, TraceObject
from lbtrace.errors import UsageError
from lbtrace.model import Plan, Probe

LEAVING = ("return", "tail", "stack", "signal stack", "switch", "goroutine end", "landing")
"""Kinds of probe that the program ``left`` serves."""

COPIES = 4_000
"""Probes that may have programs of their own: each load takes some 10 ms."""

CLOSERS = 8
"""Links that are detached at the same time."""

GRACE = 0.15
"""Seconds that detaching a plain link takes, where there are very many: 0.1 to 0.25."""

TICK = 0.02
"""Seconds between two looks at how far detaching has come."""

Mode: TypeAlias = Literal["session", "multi", "plain"]


def best_mode(features: Features, plan: Plan) -> Mode:
    """The cheapest way of attaching a plan that the kernel has.

    A session costs a call a tenth more than two multi links, but spares the
    return of a call whose conditions do not hold.
    """
    if features.session and any(probe.conditions for probe in plan.probes):
        return "session"
    return "multi" if features.multi else "plain"


def programs(mode: Mode, probes: Sequence[Probe]) -> Programs:
    """The programs a mode needs for probes, and the attach types they load with."""
    kinds = {probe.kind for probe in probes}
    multi = lib.BPF_TRACE_UPROBE_MULTI if mode != "plain" else None
    needed: Programs = {}
    if mode == "session" and "call" in kinds:
        needed["session"] = lib.BPF_TRACE_UPROBE_SESSION
        kinds.discard("call")
    if kinds & {"call", "entry"}:
        needed["entered"] = multi
    if "call" in kinds:
        needed["returned"] = multi
    if kinds & set(LEAVING):
        needed["left"] = multi
    return needed


def copies(plan: Plan, cookies: Sequence[int]) -> dict[int, Programs]:
    """Programs of its own for each probe, by its cookie: what a kernel needs
    whose programs cannot ask which probe was hit. Raises `UsageError`."""
    if len(cookies) > COPIES:
        raise UsageError(
            f"{len(cookies):,} probes are too many: this kernel has no cookies (before 5.15),"
            " so each takes programs of its own",
            f"choose fewer functions: at most {COPIES} probes",
        )
    return {
        cookie: programs("plain", (probe,))
        for probe, cookie in zip(plan.probes, cookies, strict=True)
    }


def plain_links(plan: Plan) -> int:
    """How many links the probes of a plan take in mode ``plain``."""
    return sum(2 if probe.kind == "call" else 1 for probe in plan.probes)


class Links:
    """What is attached; `close` detaches it."""

    def __init__(self) -> None:
        self._links: list[Any] = []
        self._abandoned = False

    def __len__(self) -> int:
        return len(self._links)

    def close(self, tick: Callable[[int], None] = lambda left: None) -> None:
        """Detach everything. No program runs any more when it returns, but for `abandon`.

        ``tick`` is called now and then with the number of links that are left.
        """
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

        Who closes the last end of a plain link waits for the kernel. It is the
        end of that process which does, when we have closed all of ours.
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
        mode: Mode,
        pid: int,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Attach all probes of a plan; ``pid`` 0 is every process.

        ``tick`` is called for each plain link. Raises `KernelError`; what was attached
        until then stays for `close`.
        """
        for program, kinds, returns in (
            ("session", ("call",) if mode == "session" else (), False),
            # Returns first: who enters between two links is seen whole or not at all.
            ("returned", ("call",) if mode != "session" else (), True),
            ("left", LEAVING, False),
            ("entered", ("entry",) if mode == "session" else ("call", "entry"), False),
        ):
            chosen: dict[int, list[tuple[int, int]]] = {}
            for probe, cookie in zip(plan.probes, cookies, strict=True):
                if probe.kind in kinds:
                    chosen.setdefault(probe.binary, []).append((probe.site.offset, cookie))
            for binary, places in chosen.items():
                path = plan.binaries[binary].path
                if mode == "plain":
                    for offset, cookie in places:
                        own = loaded.program(program, cookie)
                        told = 0 if cookie in loaded.copies else cookie
                        self._plain(own, path, offset, told, returns, pid)
                        tick()
                else:
                    handle = loaded.program(program)
                    self._multi(handle, path, places, returns, program == "session", pid)

    def attach_tracepoint(self, loaded: TraceObject, program: str) -> None:
        """Attach a program to the tracepoint its section names."""
        link = lib.bpf_program__attach(loaded.program(program))
        self._links.append(check_pointer(link, f"attach {program}"))

    def _plain(
        self, program: Any, path: str, offset: int, cookie: int, returns: bool, pid: int
    ) -> None:
        options = ffi.new("struct bpf_uprobe_opts *")
        options.sz = ffi.sizeof("struct bpf_uprobe_opts")
        options.bpf_cookie = cookie
        options.retprobe = returns
        link = lib.bpf_program__attach_uprobe_opts(
            program, pid or -1, path.encode(), offset, options
        )
        self._links.append(check_pointer(link, f"attach to {path}+{offset:#x}"))

    def _multi(
        self,
        program: Any,
        path: str,
        places: list[tuple[int, int]],
        returns: bool,
        session: bool,
        pid: int,
    ) -> None:
        offsets = ffi.new("unsigned long[]", [offset for offset, _ in places])
        cookies = ffi.new("unsigned long long[]", [cookie for _, cookie in places])
        options = ffi.new("struct bpf_uprobe_multi_opts *")
        options.sz = ffi.sizeof("struct bpf_uprobe_multi_opts")
        options.offsets = offsets
        options.cookies = cookies
        options.cnt = len(places)
        options.retprobe = returns
        options.session = session
        link = lib.bpf_program__attach_uprobe_multi(
            program, pid or -1, path.encode(), ffi.NULL, options
        )
        self._links.append(check_pointer(link, f"attach to {len(places)} places of {path}"))

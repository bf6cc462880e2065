"""Backup programs of the programs of tracepoints, which kernels from 7.0 on need, on any kernel."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container
from pathlib import Path

import pytest

from lbtrace.bpf import features
from lbtrace.bpf.backup_programs import served_by
from lbtrace.bpf.links import Links
from lbtrace.bpf.objects import TraceObject, lib
from lbtrace.model import EXEC, FORK, KIND, OPEN, Event, Target, forked_thread
from lbtrace.model.wire import decode
from lbtrace.plan import Selection, make_plan
from lbtrace.session.options import Options
from lbtrace.session.session import Session

WIDTH, ROUNDS = 3, 4


def trace(program: Path) -> tuple[list[Event], int]:
    """The events of all of crowd's processes, and what backup programs handled."""
    plan = make_plan(str(program), Selection(("forked", "executed", "rounds")))
    target = Target(command=(str(program), str(WIDTH), str(ROUNDS)))
    with Session(plan, target, Options(until_last=True)) as session:
        events = [event for batch in session.batches() for event in decode(batch)]
        assert session.losses().events == 0
        return events, session._object._totals()[int(lib.LBT_BY_BACKUP)]


def preempts() -> bool:
    """Whether this kernel preempts tracepoints: its types show what guards them
    (include/linux/tracepoint.h). A variable of that name guarded others before 6.13."""
    return all(
        features.names(name)
        for name in (b"\0tracepoint_srcu_srcu_data\0", b"\0class_srcu_fast_notrace_t\0")
    )


def check(events: list[Event], *, whole: bool = True) -> None:
    """Each fork and each program that was executed is reported once, and all calls are seen; if
    not the ``whole`` is to be expected, none more often."""
    kinds = {kind: [e for e in events if e.kind & KIND == kind] for kind in (OPEN, FORK, EXEC)}
    children = Counter(forked_thread(event, "")[0].pid for event in kinds[FORK])
    assert children == dict.fromkeys(children, 1)
    executed = Counter(event.pid for event in kinds[EXEC])
    assert executed == dict.fromkeys(executed, 1)
    if not whole:
        return
    # The command's own forks are reported if other tests have given it probes.
    own = kinds[EXEC][0].pid
    forks = [event for event in kinds[FORK] if event.pid != own]
    children = Counter(forked_thread(event, "")[0].pid for event in forks)
    assert len(kinds[OPEN]) == WIDTH + 2 * WIDTH * ROUNDS
    assert len(children) == WIDTH * ROUNDS
    assert executed - children == {event.pid: 1 for event in kinds[EXEC][:1]}  # the command itself
    assert children <= executed


def test_the_kernels_whose_tracepoints_are_preempted() -> None:
    assert features.preempts_tracepoints(os.uname().release) is preempts()


@pytest.fixture(autouse=True)
def _preempted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "programs" in request.fixturenames:
        monkeypatch.setattr(features, "preempts_tracepoints", lambda release: True)


def test_backups_leave_to_their_program_what_it_has_handled(programs: Path) -> None:
    events, by_backup = trace(programs / "crowd")
    check(events)
    assert by_backup == 0 or preempts()  # there the program may have been missed


@pytest.mark.parametrize("missing", [("",), ("", "_1"), ("", "_1", "_2"), ("_1", "_3")])
def test_a_backup_handles_what_those_before_it_do_not(
    programs: Path, monkeypatch: pytest.MonkeyPatch, missing: Container[str]
) -> None:
    attach = Links.attach_tracepoint

    def attach_some(links: Links, loaded: TraceObject, program: str) -> None:
        if program.removeprefix(served_by(program) or program) not in missing:
            attach(links, loaded, program)

    monkeypatch.setattr(Links, "attach_tracepoint", attach_some)
    events, by_backup = trace(programs / "crowd")
    check(events, whole=not preempts())  # there those that are attached may be busy
    assert by_backup or "" not in missing

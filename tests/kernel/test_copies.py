"""Programs of its own for each probe, as kernels without cookies need them, on any kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbtrace.bpf import features
from lbtrace.errors import UsageError
from lbtrace.model import CLOSE, OPEN, Event, Target
from lbtrace.model.wire import decode
from lbtrace.plan import Selection, make_plan
from lbtrace.session.options import Options
from lbtrace.session.session import Session


@pytest.fixture(autouse=True)
def _without_cookies(monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = features.Features(cookie=False, multi=False, session=False)
    monkeypatch.setattr(features, "probe", lambda: oldest)


def trace(program: Path, *arguments: object, functions: str) -> list[Event]:
    plan = make_plan(str(program), Selection((functions,)))
    target = Target(command=(str(program), *map(str, arguments)))
    with Session(plan, target, Options()) as session:
        events = [event for batch in session.batches() for event in decode(batch)]
        assert session.losses().events == 0
    return events


def test_each_probe_is_distinguished_from_the_others(programs: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    events = trace(programs / "truth", log, "fork", 2, 20, functions="traced_*")
    reported = [line.split()[2] for line in log.read_text().splitlines()]
    plan = make_plan(str(programs / "truth"), Selection(("traced_*",)))
    for kind in (OPEN, CLOSE):
        seen = [
            plan.functions[plan.probes[event.probe].function].name
            for event in events
            if event.kind == kind
        ]
        assert sorted(seen) == sorted(reported)


def test_too_many_probes_are_refused(many: Path) -> None:
    plan = make_plan(str(many), Selection(("many_*",)))
    with pytest.raises(UsageError, match="no cookies"), Session(plan, Target()):
        pass

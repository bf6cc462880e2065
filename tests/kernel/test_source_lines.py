"""Traces by source file: ``--source``, and ``source=`` from Python."""

from __future__ import annotations

from pathlib import Path

import lbtrace


def test_source_with_functions(programs: Path) -> None:
    """The functions of a file beside others, each once, and their values."""
    program = str(programs / "trace")
    with lbtrace.trace(
        command=[program], binary=program, functions="tracem*", source="trace.c"
    ) as session:
        calls = list(session.calls())
    assert [str(call) for call in calls if call.name in ("traceme", "traceme2", "main")] == [
        "traceme(n=12) = 33",
        "traceme(n=13) = 36",
        "traceme2(n=13) = 37",
        "main() = 0",
    ]
    assert {call.name for call in calls} == {"main", "traceme", "traceme2", "larger", "smaller"}
    assert len(session.plan.functions) == 5

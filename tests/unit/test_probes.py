"""The tables of sources and roles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lbtrace.bpf.attach import find_attach_type
from lbtrace.bpf.links import attachments, programs
from lbtrace.errors import UsageError
from lbtrace.model import Probe, Site
from lbtrace.probes import PROBES, ROLES, Source

ROOT = Path(__file__).resolve().parents[2]
SITE = Site(1, 1)
PAIR = (Probe(SITE, "opens", 0), Probe(SITE, "closes", 0, source="uretprobe"))


def test_each_source_serves_roles_with_programs_that_are_there() -> None:
    sources = [path.read_text() for path in (ROOT / "bpf_src/programs").rglob("*.h")]
    there = {name for text in sources for name in re.findall(r"^SEC.*\nint (\w+)\(", text, re.M)}
    for name, row in PROBES.items():
        assert name == row.name
        assert set(row.programs) <= set(ROLES)
        assert {*row.programs.values(), *([row.paired] if row.paired else ())} <= there
        assert bool(row.paired) == ("session" in row.attach)
        for how in row.attach:
            module = find_attach_type(how)
            assert hasattr(module, "attach") != hasattr(module, "attach_events")
    assert {role for row in PROBES.values() for role in row.programs} == set(ROLES)


def test_a_program_that_two_sources_need_loaded_differently_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = Source("alone", {"opens": "entered"}, attach=("plain",))
    monkeypatch.setitem(PROBES, "alone", alone)
    probes = (*PAIR, Probe(SITE, "opens", 1, source="alone"))
    assert set(programs("plain", attachments("plain", probes))) == {"returned", "entered"}
    with pytest.raises(UsageError, match=r"mode multi attaches .* same program, entered"):
        programs("multi", attachments("multi", probes))

"""The tables of sources and roles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lbtrace.bpf.attach import Attachment, find_attach_type
from lbtrace.bpf.links import attachments, programs
from lbtrace.errors import UsageError
from lbtrace.model import NO_FUNCTION, Probe, Site
from lbtrace.probes import PROBES, ROLES, Source, hooked_pairs

ROOT = Path(__file__).resolve().parents[2]
SITE = Site(1, 1)
PAIR = (Probe(SITE, "opens", 0), Probe(SITE, "closes", 0, source="uretprobe"))
BY_SITES = (Probe(SITE, "opens", 1), Probe(SITE, "closes", 1), Probe(SITE, "tail", 1))
LANDING = Probe(SITE, "landing")


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
    recorded = {"signal stack", "switch", "switch back"}  # by former versions
    assert {role for row in PROBES.values() for role in row.programs} == set(ROLES) - recorded


def test_what_belongs_to_no_function_names_none() -> None:
    assert LANDING.function == NO_FUNCTION
    assert not ROLES["landing"].of_function


@pytest.mark.parametrize("mode", ["multi", "plain"])
def test_what_closes_calls_is_attached_before_what_opens_them(mode: str) -> None:
    probes = (*PAIR, *BY_SITES, LANDING)
    found = attachments(mode, probes)  # type: ignore[arg-type]
    assert list(found.items()) == [
        (Attachment("returned", mode, at_return=True), [1]),
        (Attachment("exit_site", mode), [3, 4]),
        (Attachment("landed", mode), [5]),
        (Attachment("entered", mode), [0, 2]),
    ]
    assert set(programs(mode, found)) == {"returned", "exit_site", "landed", "entered"}  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["multi", "plain"])
def test_all_probes_of_a_program_that_serves_several_roles_are_attached(mode: str) -> None:
    points = (Probe(SITE, "point", 0, source="marker"), LANDING)
    pair = [Probe(SITE, role, 1, source="marker", pair="a:b") for role in ("opens", "closes")]
    found = attachments(mode, (*points, *pair))  # type: ignore[arg-type]
    assert list(found.items()) == [
        (Attachment("reached", mode), [3, 0]),  # that which closes is to run last
        (Attachment("landed", mode), [1]),
        (Attachment("entered", mode), [2]),
    ]


def test_a_program_that_two_sources_need_loaded_differently_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = Source("alone", {"opens": "entered"}, attach=("plain",))
    monkeypatch.setitem(PROBES, "alone", alone)
    probes = (*PAIR, Probe(SITE, "opens", 1, source="alone"))
    assert set(programs("plain", attachments("plain", probes))) == {"returned", "entered"}
    with pytest.raises(UsageError, match=r"mode multi attaches .* same program, entered"):
        programs("multi", attachments("multi", probes))


def test_a_session_serves_both_probes_of_a_pair() -> None:
    probes = (*BY_SITES, *PAIR)
    assert hooked_pairs(probes, PROBES) == {3: 4}
    assert attachments("session", probes) == {
        Attachment("exit_site", "multi"): [1, 2],
        Attachment("entered", "multi"): [0],
        Attachment("session", "session"): [3],
    }

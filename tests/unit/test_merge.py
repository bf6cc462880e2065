"""One plan of several."""

from __future__ import annotations

from msgspec.structs import replace

from lbtrace.model import NO_FUNCTION, Binary, Function, Plan, Probe, Site
from lbtrace.plan.merge import merge_plans, short_names, without_false_notes


def plan_of(path: str, *names: str) -> Plan:
    functions = tuple(Function(name, 16 * n, 16, 16 * n) for n, name in enumerate(names))
    probes = [Probe(Site(16 * n, 16 * n), "opens", n) for n, _ in enumerate(names)]
    probes.append(Probe(Site(99, 99), "stack"))
    return Plan((Binary(path),), functions, tuple(probes), (f"a note on {path}",))


def test_functions_and_probes_belong_to_their_binaries() -> None:
    plan = merge_plans([plan_of("/x/a", "f", "g"), plan_of("/x/b", "h")])
    assert [(f.name, f.binary) for f in plan.functions] == [("f", 0), ("g", 0), ("h", 1)]
    named = [plan.functions[p.function].name for p in plan.probes if p.role == "opens"]
    assert named == ["f", "g", "h"]
    assert [p.function for p in plan.probes if p.role == "stack"] == [NO_FUNCTION] * 2
    assert [p.binary for p in plan.probes] == [0, 0, 0, 1, 1]
    assert plan.notes == ("a note on /x/a", "a note on /x/b")


def test_names_that_several_binaries_have_are_distinguished() -> None:
    plan = merge_plans([plan_of("/x/a", "f", "init", "init"), plan_of("/x/b", "f", "g", "g")])
    assert [f.name for f in plan.functions] == ["f@a", "init", "init", "f@b", "g", "g"]


def test_a_binary_without_functions_is_reported_and_keeps_its_stacks() -> None:
    empty = replace(plan_of("/x/a"), notes=())
    plan = merge_plans([empty, plan_of("/x/b", "f")])
    assert plan.notes[0] == "/x/a: no function of it is traced"
    assert [(p.role, p.binary) for p in plan.probes if p.role == "stack"] == [
        ("stack", 0),
        ("stack", 1),
    ]


def test_a_binary_of_which_a_marker_is_traced_is_not_reported() -> None:
    empty = replace(plan_of("/x/a"), notes=())
    plan = merge_plans([empty, plan_of("/x/b", "f"), replace(empty, binaries=(Binary("/x/c"),))])
    marker = Function("libx:hit", 0, 0, 0, binary=0)
    plan = without_false_notes(replace(plan, functions=(*plan.functions, marker)))
    assert plan.notes == ("a note on /x/b", "/x/c: no function of it is traced")


def test_short_names() -> None:
    assert short_names(["/usr/bin/a", "./b"]) == ["a", "b"]
    assert short_names(["/v1/prog", "/v2/prog", "c"]) == ["v1/prog", "v2/prog", "c"]
    assert short_names(["prog", "/v2/prog"]) == ["prog", "v2/prog"]
    assert short_names(["./only"]) == ["only"]

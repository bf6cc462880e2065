"""Plans of real programs."""

from __future__ import annotations

import re
import shutil
import subprocess

import msgspec
import pytest

from lbtrace import model
from lbtrace.elf.image import Image
from lbtrace.errors import NoMatchError, UsageError
from lbtrace.plan import Selection, function_plans, make_plan
from lbtrace.plan.value_selection import parse
from lbtrace.values import type_hook


def test_wrong_requests(build, monkeypatch):
    with pytest.raises(UsageError, match="/\\(/"):
        make_plan(build("-O1"), Selection(("/(/",)))
    with pytest.raises(UsageError, match="negative"):
        make_plan(build("-O1"), Selection(("fib",), args=-1))
    monkeypatch.setattr(function_plans, "LIMIT", 3)
    with pytest.raises(UsageError) as caught:
        make_plan(build("-O1"), Selection(("*",)))
    assert "force=True" in caught.value.hint
    assert make_plan(build("-O1"), Selection(("*",), force=True)).functions


def test_indirect_functions_of_another_file_are_reported(libc, tmp_path):
    copy = Image.open(shutil.copy(libc, f"{tmp_path}/libc.so.6"))
    with pytest.raises(NoMatchError, match="indirect"):
        make_plan(copy, Selection(("memcpy",)))
    assert any("ifunc" in note for note in make_plan(copy, Selection(("*cpy",))).notes)


@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_args_overrides_the_number(build, debug):
    path = build("-O1", debug)
    for count in (0, 1, 3):
        made = make_plan(path, Selection(("integers",), args=count))
        assert len(made.functions[0].parameters) == count
        assert [f.register for f in made.probes[0].fetches] == ["di", "si", "dx"][:count]
    fib = make_plan(path, Selection(("fib",), args=2)).functions[0]
    assert [p.name for p in fib.parameters] == (["n"] if debug == "-g" else ["arg0", "arg1"])


TAKING = """
int one(int a) { return a + 1; }
int several(int n, ...) { return n; }
int none(void) { return 1; }
int %s { return 2; }
int main(void) { return one(1) + several(2, 3, 4) + none() + undeclared(5); }
"""


@pytest.mark.parametrize(
    ("language", "declared", "taken"),
    [
        ("c", "undeclared()", {"one": 1, "none": 0}),
        ("c", "undeclared(a) int a;", {"one": 1, "none": 0}),
        ("c++", "undeclared(int a)", {"one": 1, "none": 0, "undeclared": 1}),
    ],
)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_argument_is_read_that_the_function_does_not_take(
    tmp_path, compiler, language, declared, taken
):
    source, path = tmp_path / f"taking.{language}", str(tmp_path / "taking")
    source.write_text(TAKING % declared)
    standard = "gnu89" if language == "c" else "gnu++17"
    command = [compiler, "-x", language, f"-std={standard}", "-w", "-g", source, "-o", path]
    subprocess.run(command, check=True)
    for name in ("one", "several", "none", "undeclared"):
        pattern = name if language == "c" else f"/^{name}\\b/"
        count = taken.get(name, 3)
        selection = Selection((pattern,), args=3)
        assert len(make_plan(path, selection).functions[0].parameters) == count, name
        wanted = Selection((pattern,), request=parse((f"arg{count}",), ""))
        if name not in taken:
            assert make_plan(path, wanted).functions
            continue
        with pytest.raises(UsageError, match=f"there is no argument {count}"):
            make_plan(path, wanted)


def test_at_most_sixteen_values(build):
    made = make_plan(build("-g0"), Selection(("integers",), args=20))
    assert len(made.probes[0].fetches) == 16
    assert any("16 values" in note for note in made.notes)


ORDER = """
#include <map>
#include <string>
#include <vector>
struct Order { std::vector<std::string> tags, more; std::map<std::string, int> meta; double when; };
__attribute__((noinline)) double process(Order *o) { return o->when; }
int main() { Order o{{"a", "b"}, {"c"}, {{"d", 1}}, 2.5}; return process(&o) > 3; }
"""


def test_what_is_asked_for_has_room_before_elements_of_containers(tmp_path):
    (tmp_path / "o.cc").write_text(ORDER)
    subprocess.run(["g++", "-g", "-O1", "-o", "o", "o.cc"], cwd=tmp_path, check=True)
    asked = ("o->tags", "o->meta", "o->more", "o->when")
    plan = make_plan(str(tmp_path / "o"), Selection(("process",), request=parse(asked, "")))
    assert [value.reason for value in plan.functions[0].parameters] == [""] * 4


def test_returns_can_be_left_out(build):
    made = make_plan(build("-O1"), Selection(("fib",), returns="none"))
    assert [p.role for p in made.probes] == ["opens"]
    made = make_plan(build("-O1"), Selection(("fib",), returns="uretprobe"))
    assert [(p.role, p.source) for p in made.probes] == [
        ("opens", "uprobe"),
        ("closes", "uretprobe"),
    ]


def test_everything_of_a_large_binary(tool):
    path = "/usr/bin/python3.11"
    made = make_plan(path, Selection(("*",)))
    listed = re.findall(r"^[0-9a-f]+ [TWti] ", tool("nm", "-D", "--defined-only", path), re.M)
    assert len(made.functions) >= 0.99 * len(listed)
    entries = [p for p in made.probes if p.role == "opens"]
    assert len(entries) == len(made.functions)
    assert len({p.site.offset for p in entries}) == len(entries)
    assert all(made.functions[p.function].offset <= p.site.offset for p in entries)


def test_a_plan_is_plain_data(build):
    made = make_plan(Image.open(build("-g", "-O2")), Selection(("*",)))
    assert (
        msgspec.json.decode(msgspec.json.encode(made), type=model.Plan, dec_hook=type_hook) == made
    )


def test_functions_without_what_is_asked_for_are_left_out(build, libc):
    path, request = build("-O1", "-g"), parse((), "n > 1")
    made = make_plan(path, Selection(("fib", "integers"), request=request))
    assert [f.name for f in made.functions] == ["fib"]
    assert made.notes == ("integers: left out: n is not known",)
    made = make_plan([path, libc], Selection(("fib", "strtol"), request=request))
    assert [f.name for f in made.functions] == ["fib"]
    assert f"{libc}: what is asked for fits none of its functions" in made.notes


def test_an_expression_that_fits_none_is_refused(build):
    path = build("-O1", "-g")
    for patterns in (("*",), ("integers",)):
        with pytest.raises(UsageError, match=r"^where: nn is not known"):
            make_plan(path, Selection(patterns, request=parse((), "nn > 1")))
    with pytest.raises(UsageError, match=r"^where: n is not known$"):
        make_plan(path, Selection(("integers",), request=parse((), "n > 1")))
    # The error is of a function that debug information describes: it says what there is.
    with pytest.raises(UsageError) as refused:
        make_plan(path, Selection(("*",), request=parse((), "nn > 1")))
    assert "arg5" not in refused.value.hint

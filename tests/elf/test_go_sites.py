"""Places of probes in Go functions, against Go's own disassembler, and plans for them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import iced_x86
import pytest
from msgspec.structs import replace

from lbtrace.dwarf import go_prototypes
from lbtrace.elf import debugfile, symbols
from lbtrace.elf.image import Image
from lbtrace.errors import UsageError
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.model import GoLayout
from lbtrace.plan import Placer, Selection, make_plan
from lbtrace.plan.go.planner import GoPlan
from lbtrace.plan.mismatches import Mismatches
from lbtrace.plan.value_selection import ValueSelection

Compile = Callable[..., Path]
EVERYDAY = [("1.15", "plain"), ("1.27.3", "plain")]
EVERY = ("1.19", "1.21.13", "1.22.10", "1.23.9", "1.24.11", "1.25.5", "1.26.6")
OTHERS = [
    *((v, "plain") for v in ("1.19", "1.21.13", "1.24.11", "1.25.5", "1.26.6")),
    *((v, "arm64") for v in ("1.15", "1.19", "1.25.5", "1.27.3")),  # compiles all of its library
]
BUILDS = [*EVERYDAY, *(pytest.param(*b, marks=pytest.mark.slow) for b in OTHERS)]

LINE = re.compile(r"^\s*\S+:-?\d+\s+0x([0-9a-f]+)\s+[0-9a-f]+\s+(.*\S)\s*$")
CONDITIONAL = re.compile(r"J(?!MP)[A-Z]+ |B[A-Z]{2} |B\.[A-Z]+ |CBN?Z ")
TARGET = re.compile(r"(?:0x([0-9a-f]+)|(-?\d+)\(PC\))$")


def disassembled(go: ModuleType, version: str, program: Path) -> dict[str, list[tuple[int, str]]]:
    """The instructions of the functions of package main, as Go writes them."""
    tool = go.goroot(version) / "bin/go"
    done = subprocess.run(
        [tool, "tool", "objdump", "-s", r"^main\.", program],
        env=go.environment(version),
        capture_output=True,
        text=True,
        check=True,
    )
    functions: dict[str, list[tuple[int, str]]] = {}
    current: list[tuple[int, str]] = []
    for line in done.stdout.splitlines():
        if line.startswith("TEXT "):
            current = functions.setdefault(line.split()[1].partition("(SB)")[0], [])
        elif found := LINE.match(line):
            current.append((int(found[1], 16), found[2]))
    return functions


def target(address: int, text: str) -> int:
    found = TARGET.search(text)
    if not found:
        return -1
    return int(found[1], 16) if found[1] else address + 4 * int(found[2])


@pytest.mark.parametrize(("version", "kind"), BUILDS)
@pytest.mark.parametrize("name", ["fib", "many", "ends", "types"])
def test_after_the_stack_check_and_at_each_return(
    go: ModuleType, go_program: Compile, version: str, kind: str, name: str
) -> None:
    program = go_program(name, version, kind)
    image = Image.open(str(program), any_machine=True)
    table = symbols.read(image)
    assert table.go is not None
    plan = GoPlan(image, table.go)
    placer = Placer(image, table, Machine(image.machine), plan)
    functions = {f.name: f for f in table.functions if f.name.startswith("main.")}
    truth = disassembled(go, version, program)
    assert functions.keys() == truth.keys()
    passings = plan.describe(list(functions.values()), ValueSelection(), Mismatches())
    checked = 0
    for function_name, code in truth.items():
        function = functions[function_name]
        site = plan.entry(function, passings[function.address].call_values)
        assert site is not None
        # Go's assembler makes several instructions of one by this register; a goroutine that
        # is preempted among them starts with the first again, from 1.16 on.
        assert (kind, version == "1.15") != ("arm64", False) or "R27" not in dict(code)[
            site.address
        ]
        returns = [e.site.address for e in placer.exits(function).exits if e.kind == "return"]
        assert returns == [a for a, text in code if text.split()[0] == "RET"]
        calls = [a for a, text in code if "runtime.morestack" in text]
        if not calls:
            continue
        checked += 1
        addresses = [a for a, _ in code]
        # On old compilers' code the probe is on the jump itself, when not taken.
        before = addresses[: addresses.index(site.address) + bool(site.unless)]
        # The last instruction before the place that can jump does so to where
        # morestack is called, past nothing but moves of arguments.
        jumps = [(a, text) for a, text in code if a in before and CONDITIONAL.match(text)]
        assert jumps, (function_name, code[:8])
        to = target(*jumps[-1])
        block = [text for a, text in code if to <= a <= calls[-1]]
        assert block
        assert all(t.startswith(("MOV", "CALL", "ST", "NOP", "FMOV")) for t in block), block
        # Nothing after that is a jump back to the place.
        later = [target(a, text) for a, text in code if a >= site.address and text[0] in "JBCT"]
        assert site.address not in later
    assert checked


@pytest.mark.parametrize(
    "version", ["1.27.3", *(pytest.param(v, marks=pytest.mark.slow) for v in EVERY)]
)
def test_no_return_is_seen_before_the_goroutine_is_found(go_program: Compile, version: str) -> None:
    """What calls assembly loads r14 afterwards, in some functions just before they return."""
    image = Image.open(str(go_program("server", version)))
    table = symbols.read(image)
    assert table.go is not None
    placer = Placer(image, table, Machine(image.machine), GoPlan(image, table.go))
    late = 0
    for function in table.functions:
        if function.address in table.go.assembly or not function.address < table.go.end:
            continue
        code = placer.around.code(function)
        for leaving in placer.exits(function).exits:
            late += LOADS_G in code.code and not leaving.entries
            for early in leaving.entries:
                ways = rest(code, early.site.address, early.site.reason)
                assert not any(i.op0_register == iced_x86.Register.R14 for i in ways), function
    assert late


LOADS_G = bytes.fromhex("644c8b3425f8ffffff")  # mov r14, fs:-8


def rest(code: Code, address: int, reason: str) -> Iterator[iced_x86.Instruction]:
    """What follows up to the return."""
    while True:
        into = address - code.address
        found = iced_x86.Decoder(64, code.code[into : into + 15], ip=address).decode()
        yield found
        if found.flow_control == iced_x86.FlowControl.RETURN:
            return
        jumps = found.flow_control != iced_x86.FlowControl.NEXT and "not jump" not in reason
        address = found.near_branch_target if jumps else found.next_ip
        reason = ""


@pytest.mark.parametrize(
    "version", ["1.15", "1.27.3", *(pytest.param(v, marks=pytest.mark.slow) for v in EVERY)]
)
@pytest.mark.parametrize("kind", ["plain", "stripped"])
def test_where_goroutines_have_their_numbers(go_program: Compile, version: str, kind: str) -> None:
    """The debug information of each version says so."""
    image = Image.open(str(go_program("fib", version)))
    debug = debugfile.find(image)
    assert debug is not None
    truth = go_prototypes.member_offset(image, debug, "runtime.g", "goid")
    assert truth in (152, 160)
    plan = make_plan(str(go_program("fib", version, kind)), Selection(("main.fib",)))
    assert plan.binaries[0].go is not None
    assert plan.binaries[0].go.goid == truth


def test_a_version_newer_than_this(go_program: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbtrace.elf.go.build.version", lambda image: (1, 99))
    whole, stripped = (
        make_plan(str(go_program("fib", "1.27.3", kind)), Selection(("main.fib",)))
        for kind in ("plain", "stripped")
    )
    assert whole.binaries[0].go is not None
    assert whole.binaries[0].go.goid == 152  # its debug information says so
    assert not whole.notes
    assert any("Go 1.99 is newer than this lbtrace" in note for note in stripped.notes)


@pytest.mark.parametrize("version", ["1.15", "1.27.3"])
def test_a_plan_says_whether_goroutines_are_distinguished(
    go_program: Compile, version: str
) -> None:
    old = version == "1.15"
    library, program = go_program("library", version, "shared"), go_program("fib", version)
    plans = [
        make_plan([str(path) for path in paths], Selection(("main.*",), **more))
        for paths, more in (
            ((library,), {}),
            ((program, library), {}),
            ((program,), {}),
            ((library,), {"returns": "none"}),
        )
    ]
    unseen = "any" if old else ""
    assert [plan.unseen_switches for plan in plans] == [unseen, unseen, "", unseen]
    noted = [any("not distinguished" in note for note in plan.notes) for plan in plans]
    assert noted == [old, old, False, False]


def test_a_plan_for_go_says_where_goroutines_are(go_program: Compile) -> None:
    for version, layout in (
        ("1.15", GoLayout("thread", 152, 8)),
        ("1.27.3", GoLayout("register", 152, 8)),
    ):
        program = str(go_program("fib", version))
        plan = make_plan(program, Selection(("main.fib",)))
        found = plan.binaries[0].go
        assert found is not None
        assert replace(found, types=((), ()), kinds=(), held=((), ())) == layout
        assert len(found.types[0]) == len(found.types[1]) == len(found.kinds) > 0  # of panics
        assert "runtime.boundsError" in found.types[1]
        roles = [probe.role for probe in plan.probes]
        calls = ["opens", "closes", "closes"]
        assert roles == [*calls, "lane end", "panic", "landing", "crash"]
        with pytest.raises(UsageError, match="Go moves its stacks"):
            make_plan(program, Selection(("main.fib",), returns="uretprobe"))

"""Debug information in every form that compilers and tools give it, against what gdb reads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lbtrace.dwarf import prototypes
from lbtrace.elf import debugfile, symbols
from lbtrace.elf.image import Image
from lbtrace.model import Void
from lbtrace.plan import Selection, make_plan

HEADER = """
struct Node { int key; Node *next; char name[20]; unsigned flags : 3; };
enum Color { RED, GREEN };
typedef unsigned long count_t;
typedef int (*visit_t)(const Node &, Color);
template <typename T> struct Inner { T *at; };
template <typename T> struct Box { T held; Inner<T> inner; };
#define NOINLINE extern "C" __attribute__((noinline))
NOINLINE int walk(const Node &n, Color c, unsigned char u, const char *text);
NOINLINE long other(long double x, Box<Node> *b, Inner<Node> i, count_t k);
"""
FIRST = """
#include "types.h"
static int see(const Node &n, Color) { return n.key; }
NOINLINE int walk(const Node &n, Color c, unsigned char u, const char *text)
{ return n.key + c + u + text[0]; }
NOINLINE bool visited(visit_t v, Node *const *list, signed char s, int (&row)[3])
{ return v(**list, RED) > s + row[0]; }
int main(int argc, char **argv)
{
    Node n = {argc}, *p = &n;
    Box<Node> b = {n, {p}};
    int row[3] = {argc};
    return walk(n, GREEN, 3, "x") + visited(see, &p, 4, row) + other(1, &b, b.inner, 2);
}
"""
SECOND = """
#include "types.h"
NOINLINE long other(long double x, Box<Node> *b, Inner<Node> i, count_t k)
{ return b->held.key + i.at->key + k + x; }
NOINLINE void nothing() { asm volatile(""); }
"""
FUNCTIONS = ("walk", "visited", "other", "nothing", "main")

VERSIONS = tuple(f"-gdwarf-{version}" for version in (2, 3, 4, 5))
FORMS = (
    (),
    ("-fdebug-types-section",),
    ("-gsplit-dwarf",),
    ("-gsplit-dwarf", "-fdebug-types-section"),
    ("-gz",),
    ("-gdwarf64",),
    ("-flto",),
)
IMPOSSIBLE = {
    ("-gdwarf-2", "-gdwarf64"),  # DWARF 3 brought it
    ("clang++", "-flto"),  # needs a linker of its own
    ("g++", "-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section"),  # gdb 13 fails on it
}


def flavours():
    """All there are; every form is in the short run with one version for each compiler."""
    for compiler, everyday in (("g++", "-gdwarf-4"), ("clang++", "-gdwarf-5")):
        for version in VERSIONS:
            for form in FORMS:
                if IMPOSSIBLE & {(version, *form), (compiler, *form), (compiler, version, *form)}:
                    continue
                marks = [] if version == everyday else [pytest.mark.slow]
                yield pytest.param(compiler, (version, *form), marks=marks)


def compiled(folder: Path, compiler: str, flags: tuple[str, ...]) -> Path:
    (folder / "types.h").write_text(HEADER)
    (folder / "first.cc").write_text(FIRST)
    (folder / "second.cc").write_text(SECOND)
    command = [compiler, "-w", "-Wl,--build-id", *flags, "first.cc", "second.cc"]
    subprocess.run([*command, "-o", "program"], cwd=folder, check=True)
    return folder / "program"


def shown_by_gdb(program: Path) -> dict[str, tuple[str, list[str]]]:
    """Each function's type and the names of its parameters."""
    commands = [f"{what} {name}" for name in FUNCTIONS for what in ("ptype", "info scope")]
    words = ["gdb", "-nx", "-q", "-batch", *(w for c in commands for w in ("-ex", c)), program]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    reported = {}
    each = re.split(r"^type = ", printed, flags=re.MULTILINE)[1:]
    for name, text in zip(FUNCTIONS, each, strict=True):
        names = re.findall(r"^Symbol (\w+) is", text, re.MULTILINE)
        reported[name] = text.splitlines()[0], names
    return reported


def shown_by_lbtrace(program: Path) -> dict[str, tuple[str, list[str]]]:
    image = Image.open(str(program))
    functions = [f for f in symbols.read(image).functions if f.name in FUNCTIONS]
    found = prototypes.prototypes(image, functions).found
    reported = {}
    for function in functions:
        prototype = found[function.address]
        result = prototype.result.type
        types = [p.type.name for p in prototype.parameters]
        called = "void" if isinstance(result, Void) else result.name
        declared = f"{called} ({', '.join(types) or 'void'})"
        reported[function.name] = declared, [p.name for p in prototype.parameters]
    return reported


def agree(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, (type, parameters) in ours.items():
        # gdb lists all variables, the parameters first.
        assert parameters == theirs[name][1][: len(parameters)], name
        assert plainly(type) == plainly(theirs[name][0]), name


def plainly(type: str) -> str:
    """gdb has names of its own for some types."""
    return re.sub(r"\blong int\b", "long", type).replace(" ", "")


@pytest.mark.parametrize(("compiler", "flags"), list(flavours()))
def test_as_gdb_reads_it(tmp_path, compiler, flags):
    program = compiled(tmp_path, compiler, flags)
    agree(shown_by_lbtrace(program), shown_by_gdb(program))


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize("types", [(), ("-fdebug-types-section",)])
def test_packages_of_split_units(tmp_path, version, types):
    program = compiled(tmp_path, "clang++", (version, "-gsplit-dwarf", *types))
    truth = shown_by_gdb(program)
    subprocess.run(
        ["llvm-dwp", "-e", "program", "-o", "program.dwp"], cwd=tmp_path, check=True, timeout=60
    )
    for file in tmp_path.glob("*.dwo"):
        file.unlink()
    agree(shown_by_lbtrace(program), truth)


def test_split_units_that_are_missing_or_of_another_build(tmp_path):
    program = compiled(tmp_path, "g++", ("-g", "-gsplit-dwarf"))
    truth = shown_by_gdb(program)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    program.rename(moved / "program")
    agree(shown_by_lbtrace(moved / "program"), truth)  # the path to the others is kept
    (second,) = tmp_path.glob("*second.dwo")
    kept = second.read_bytes()
    second.unlink()
    plan = make_plan(str(moved / "program"), Selection(FUNCTIONS))
    assert {f.name for f in plan.functions if f.typed} == {"walk", "visited", "main"}
    (note,) = [note for note in plan.notes if "not found" in note]
    assert note.startswith(second.name)
    (moved / second.name).write_bytes(kept)
    agree(shown_by_lbtrace(moved / "program"), truth)
    (moved / second.name).write_bytes(next(tmp_path.glob("*first.dwo")).read_bytes())
    plan = make_plan(str(moved / "program"), Selection(FUNCTIONS))
    assert {f.name for f in plan.functions if f.typed} == {"walk", "visited", "main"}


@pytest.fixture
def shared(tmp_path):
    """A program some of whose entries are in ``common``, and what gdb read before."""
    program = compiled(tmp_path, "g++", ("-gdwarf-5", "-O1"))
    (tmp_path / "other").write_bytes(program.read_bytes())
    truth = shown_by_gdb(program)
    subprocess.run(["dwz", "-m", "common", "program", "other"], cwd=tmp_path, check=True)
    return program, truth


def test_what_several_files_have_in_common(shared):
    program, truth = shared
    agree(shown_by_lbtrace(program), truth)
    program.with_name("common").unlink()
    plan, note = planned(program)
    assert not any(f.typed for f in plan.functions if f.name != "nothing")
    assert note.startswith("common: not found")
    program.with_name("common").write_bytes(program.read_bytes())  # another file
    assert planned(program)[1].startswith("common: not found")


def test_what_files_have_in_common_is_found_by_build_id(shared, monkeypatch):
    program, truth = shared
    common, root = program.with_name("common"), program.with_name("root")
    words = ["readelf", "-n", common]
    notes = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    identity = re.search(r"Build ID: (\w+)", notes)[1]
    place = root / ".build-id" / identity[:2] / f"{identity[2:]}.debug"
    place.parent.mkdir(parents=True)
    common.rename(place)
    monkeypatch.setattr(debugfile, "ROOT", str(root))
    agree(shown_by_lbtrace(program), truth)


def planned(program: Path):
    plan = make_plan(str(program), Selection(FUNCTIONS))
    return plan, next(iter(note for note in plan.notes if "not found" in note), "")

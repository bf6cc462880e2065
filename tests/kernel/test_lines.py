"""Points at source lines and other places, and the variables there; gdb says what is true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lbtrace
from lbtrace.errors import BinaryError, NoMatchError, UsageError
from tests.lines_truth import compare

PROGRAM = r"""
#include <stdio.h>
struct node { struct node *next; int key; unsigned char tag; long weights[3]; };
struct pair { int low, high; };
static long total = 7;
static struct node nodes[5];

static inline __attribute__((always_inline)) int clamp(int value, struct pair bounds)
{
	int result = value < bounds.low ? bounds.low : value;

	if (result > bounds.high)
		result = bounds.high;
	return result;
}

/* What variables hold that are not set yet is the same in each run. */
__attribute__((noinline)) static void scrub(void)
{
	volatile char unset[8192];

	for (unsigned n = 0; n < sizeof(unset); n++)
		unset[n] = 0;
}

__attribute__((noinline)) long weigh(struct node *n, int depth, short small)
{
	struct pair bounds = { depth, depth * 40 + small };
	long sum = 0;

	for (int i = 0; i < 3; i++) {
		long each = n->weights[i] * depth;

		sum += clamp(each, bounds);
		total += sum;
	}
	if (n->next && depth < 4) {
		long below = weigh(n->next, depth + 1, small - 1);

		sum += below ^ 5;
	}
	return sum;
}

__attribute__((noinline)) unsigned char mix(unsigned a, signed char b, unsigned long c)
{
	static unsigned rounds = 3;
	unsigned char found = a + b;

	for (unsigned k = 0; k < rounds; k++)
		found ^= (unsigned char)(c >> k) + b;
	rounds++;
	return found;
}

int main(void)
{
	long all = 0;

	for (int i = 0; i < 5; i++) {
		nodes[i].next = i < 4 ? &nodes[i + 1] : 0;
		nodes[i].key = i * i - 3;
		nodes[i].tag = 250 + i;
		for (int k = 0; k < 3; k++)
			nodes[i].weights[k] = i * k * 1000003 - k;
	}
	for (int turn = 0; turn < 4; turn++) {
		long got;

		scrub();
		got = weigh(&nodes[turn % 3], 1, turn - 2);
		scrub();
		unsigned char mixed = mix(turn * 77, -turn, got);

		all += got * mixed;
	}
	printf("%ld %ld\n", all, total);
	return 0;
}
"""

BUILDS = {
    "O0": ["gcc", "-O0"],
    "O1": ["gcc", "-O1"],
    "O2": ["gcc", "-O2"],
    "dwarf4": ["gcc", "-O2", "-gdwarf-4"],
    "static": ["gcc", "-O1", "-static"],
    "fixed": ["gcc", "-O1", "-no-pie"],
    "frame": ["gcc", "-O2", "-fno-omit-frame-pointer"],
    "clang0": ["clang", "-O0"],
    "clang2": ["clang", "-O2"],
    "types": ["gcc", "-O0", "-fdebug-types-section"],
}


@pytest.fixture
def build(tmp_path: Path):
    def made(kind: str) -> str:
        (tmp_path / "weights.c").write_text(PROGRAM)
        words = [*BUILDS[kind], "-g", "weights.c", "-o", "weights"]
        subprocess.run(words, cwd=tmp_path, check=True)
        return str(tmp_path / "weights")

    return made


@pytest.mark.host
@pytest.mark.parametrize("kind", BUILDS)
def test_locals_equal_those_of_gdb(build, tmp_path: Path, kind: str) -> None:
    """At each line: the same value as in gdb, or none where the compiler left none."""
    program = build(kind)
    result = compare([program], ["weights.c:28-68"], 6, tmp_path)
    counts = result.counts()
    assert not result.wrong, result.wrong
    assert result.stops >= 50, counts
    assert result.equal > 100, counts
    # gdb finds some values of parameters in the caller.
    assert counts["unread"] <= result.equal / 2, counts
    if kind in ("O0", "clang0", "types"):
        assert counts["unread"] == result.both == 0, counts


@pytest.mark.host
@pytest.mark.parametrize("compiler", ["gcc -O1", "clang -O1", "clang -O2 -gdwarf-4"])
def test_locals_of_split_debug_information(tmp_path: Path, compiler: str) -> None:
    """They are those that gdb shows of the same code without split debug information. Of that with
    it, gdb 13 takes offsets in lists of locations for addresses: it shows values where there are
    none, or none."""
    (tmp_path / "weights.c").write_text(PROGRAM)
    made = []
    for name, more in (("whole", []), ("split", ["-gsplit-dwarf"])):
        words = [*compiler.split(), "-g", *more, "weights.c", "-o", name]
        subprocess.run(words, cwd=tmp_path, check=True)
        made.append(str(tmp_path / name))
    whole, split = made
    code = [subprocess.run(["objdump", "-d", each], stdout=-1, check=True).stdout for each in made]
    assert code[0].partition(b"\n\n")[2] == code[1].partition(b"\n\n")[2]
    result = compare([split], ["weights.c:28-68"], 6, tmp_path, truth=[whole])
    assert not result.wrong, result.wrong
    assert result.equal > 100, result.counts()


def shown(text: str) -> list[str]:
    return [re.sub(r"^ *([\d.]+ .s)? *\d+  ", "", line) for line in text.splitlines()]


def attach(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lbtrace", "attach", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_points_in_the_tree(programs: Path, mode: str) -> None:
    """Points stand inside of the calls that they are in, before and after others."""
    program = str(programs / "trace")
    line = next(
        number
        for number, text in enumerate(
            (Path(__file__).parents[1] / "programs/trace.c").read_text().splitlines(), 1
        )
        if "ret > 50" in text
    )
    done = attach(
        *("--source", "trace.c", "--line", f"trace.c:{line}", "--arg", "ret"),
        *("--mode", mode, "--", program),
    )
    assert done.returncode == 0, done.stderr
    assert "8 calls and 2 points in 1 thread of 1 process, nothing lost" in done.stderr
    # The program prints numbers meanwhile.
    lines = [text for text in shown(done.stdout) if not text.isdigit()]
    at = lines.index(f"│ │ · trace.c:{line} ret=33")
    assert lines[at - 1] == "│ │ └ larger = 33"
    assert lines[at + 1] == "│ └ traceme = 33"


@pytest.mark.host
def test_expressions_and_conditions(build) -> None:
    program = build("O0")
    body = PROGRAM.splitlines()
    line = next(n for n, text in enumerate(body, 1) if "each = n->weights" in text)
    with lbtrace.trace(
        command=[program],
        binary=program,
        lines=f"weights.c:{line + 2}",
        arg=["n->key", "each", "n->weights[1]"],
        where="i == 1 and depth < 3",
    ) as session:
        points = list(session.calls())
    assert points
    for point in points:
        key, each, weight = point.args.values()
        node = round((key + 3) ** 0.5)
        assert weight == node * 1000003 - 1
        assert each in (weight, weight * 2)
        assert point.end == "point"
        assert point.duration is None


def test_list(programs: Path) -> None:
    """The lines with code, and what is known there; the debugger's table has the same."""
    program = str(programs / "trace")
    words = [sys.executable, "-m", "lbtrace", "list", "--binary", program, "--lines", "trace.c"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    numbers = {int(line.split("trace.c:")[1].split()[0]) for line in listed}
    table = subprocess.run(
        ["objdump", "--dwarf=decodedline", program], capture_output=True, text=True, check=True
    ).stdout
    assert numbers == {int(n) for n in re.findall(r"^trace\.c +(\d+) .* x$", table, re.M)}
    assert any(line.endswith("traceme  int n, int ret") for line in listed), listed
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    assert [row["address"] for row in rows] == [int(line.split()[0], 16) for line in listed]
    assert {row["line"] for row in rows} == numbers
    variables = [{"name": "n", "type": "int"}, {"name": "ret", "type": "int"}]
    assert any(row["function"] == "traceme" and row["variables"] == variables for row in rows)


@pytest.mark.host
def test_list_says_which_lines_have_no_point(tmp_path: Path) -> None:
    """The same as a trace says of them."""
    (tmp_path / "dead.c").write_text(
        """#include <stdlib.h>
int fail(void) { exit(3); }
int dead(int n)
{
	if (n > 5) {
		fail();
		n++;
	}
	return n;
}
int main(void) { return dead(1) != 1; }
"""
    )
    program = str(tmp_path / "dead")
    subprocess.run(["gcc", "-g", "-O0", "dead.c", "-o", program], cwd=tmp_path, check=True)
    words = [sys.executable, "-m", "lbtrace", "list", "--binary", program, "--lines", "dead.c"]
    rows = json.loads(subprocess.run([*words, "--json"], stdout=-1, check=True).stdout)
    why = "no code is seen to lead there"
    assert {row["line"]: row["reason"] for row in rows if "reason" in row} == {7: why}
    text = subprocess.run(words, stdout=-1, text=True, check=True).stdout
    (line,) = (each for each in text.splitlines() if "no point" in each)
    assert re.fullmatch(rf" *0x\w+  dead.c:7 +dead  <no point: {why}>", line)
    done = attach("--line", "dead.c:*", "--", program)
    assert done.returncode == 0, done.stderr
    assert f"left out: {why}" in done.stderr


def test_formats(programs: Path, tmp_path: Path) -> None:
    """Every format shows them, from a capture as well."""
    program, kept = str(programs / "trace"), str(tmp_path / "kept.lbt")
    done = attach("--line", "trace.c:*", "--locals", "-o", kept, "--", program)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in ("jsonl", "chrome", "racket", "tree"):
        words = [sys.executable, "-m", "lbtrace", "export", kept, "--format", name]
        found[name] = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    points = [json.loads(line) for line in found["jsonl"].splitlines()]
    points = [point for point in points if point["type"] == "point"]
    assert len(points) > 20
    events = [e for e in json.loads(found["chrome"])["traceEvents"] if e["ph"] == "i"]
    assert [e["name"] for e in events] == [point["name"] for point in points]
    assert found["racket"].count("trace.c:") == found["tree"].count(" trace.c:") == len(points)
    with lbtrace.read_capture(kept) as capture:
        assert [call.name for call in capture.calls()] == [point["name"] for point in points]


def test_any_place(programs: Path) -> None:
    """``--at`` takes the offset of an instruction, and nothing else."""
    program = str(programs / "trace")
    listed = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True
    ).stdout
    body = listed.partition("<smaller>:\n")[2].partition("\n\n")[0]
    starts = [int(line.partition(":")[0], 16) for line in body.splitlines()]
    with lbtrace.trace(
        command=[program],
        binary=program,
        places=[f"{program}:{start:#x}" for start in starts[:5]],
        arg=['at=reg("ip")', 'reg("ax")'],
    ) as session:
        points = list(session.calls())
    assert len(points) == 10  # two calls
    first = points[0]["at"]
    assert [point["at"] - first for point in points[:5]] == [s - starts[0] for s in starts[:5]]
    for offset in {*range(starts[0], starts[5])} - {*starts}:
        with pytest.raises(BinaryError, match="can be there: no code is seen to lead there"):
            lbtrace.trace(command=[program], binary=program, places=f"{program}:{offset:#x}")


def test_registers_by_name(programs: Path) -> None:
    """At a place, as events of ``uprobe_events`` name them; the variables of the program come
    first."""
    program = str(programs / "trace")
    table = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    (start,) = re.findall(r"(?m)^(\w+) [tT] smaller$", table)
    result = attach("--at", f"{program}:0x{start}", "--arg", "ip", "--arg", "di", "--arg",
                    'reg("si")', "--arg", "a", "--where", "si > 0", "--", program)  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = re.findall(r'ip=(0x\w+), di=(\d+), reg\("si"\)=(\d+), a=', result.stdout)
    assert len(found) == 2, result.stdout
    assert {int(ip, 16) & 0xFFF for ip, _, _ in found} == {int(start, 16) & 0xFFF}
    assert [(di, si) for _, di, si in found] == [("36", "3"), ("39", "3")]  # smaller(36, 3)


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        (("--line", "trace.c:33"), r"there are n, ret; text"),
        (
            ("--at", "{program}:0x{start}"),
            r"there are a, b, ret, the registers .*ip.*, a part of one is cast: \(int\)\w+; text",
        ),
    ],
)
def test_hints_name_what_there_is(programs: Path, where: tuple[str, ...], hint: str) -> None:
    program = str(programs / "trace")
    table = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    (start,) = re.findall(r"(?m)^(\w+) [tT] smaller$", table)
    words = [word.format(program=program, start=start) for word in where]
    result = attach(*words, "--arg", "nosuch", "--", program)
    assert result.returncode != 0
    assert "nosuch is not known" in result.stderr
    assert "retval" not in result.stderr
    assert re.search(hint, result.stderr), result.stderr


@pytest.mark.host
def test_errors(programs: Path, build) -> None:
    program = str(programs / "trace")

    def plan(**wanted: object) -> None:
        lbtrace.trace(command=[program], binary=program, **wanted)

    with pytest.raises(NoMatchError, match=r"trace.c:3: this line of .* has no code") as raised:
        plan(lines="trace.c:3")
    assert raised.value.hint.startswith("the nearest lines with code: ")
    with pytest.raises(NoMatchError, match=r"truce\.c: is no source file") as raised:
        plan(lines="truce.c:20")
    assert raised.value.hint == "nearest names: trace.c"
    with pytest.raises(UsageError, match="is no line of a file"):
        plan(lines="trace.c")
    with pytest.raises(UsageError, match="nope is not known"):
        plan(lines="trace.c:*", arg="nope")
    with pytest.raises(UsageError, match="neither retval nor duration"):
        plan(lines="trace.c:*", arg="retval")
    with pytest.raises(NoMatchError, match="none of the traced files"):
        plan(places="/bin/true:0x1000")
    with pytest.raises(NoMatchError, match="there is no code"):
        plan(places=f"{program}:0x0")
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    digits = next(line.split()[0] for line in symbols.splitlines() if line.endswith(" main"))
    for written in (digits, digits.lstrip("0")):
        with pytest.raises((NoMatchError, UsageError)) as raised:
            plan(places=f"{program}:{written}")
        assert raised.value.hint.startswith("hexadecimal numbers begin with 0x: ")
        assert f"{program}:0x{digits.lstrip('0')}" in raised.value.hint
    with pytest.raises(UsageError, match="is no place in a file") as raised:
        plan(places=f"{program}:11a9")
    assert f"{program}:0x11a9" in raised.value.hint
    subprocess.run(["strip", "-g", stripped := build("O0")], check=True)
    with pytest.raises(BinaryError, match="no debug information"):
        lbtrace.trace(command=[stripped], binary=stripped, lines="weights.c:20")


@pytest.mark.host
@pytest.mark.parametrize(
    "linking", ["-fuse-ld=lld", "-Wl,-z,separate-code", "-no-pie -Wl,-Ttext-segment=0x10000000"]
)
def test_places_are_virtual_addresses(tmp_path: Path, linking: str) -> None:
    """As nm prints them; with a plus they are offsets in the file, as readelf says."""
    (tmp_path / "weights.c").write_text(PROGRAM)
    words = ["clang", "-g", "-O0", *linking.split(), "weights.c", "-o", "weights"]
    subprocess.run(words, cwd=tmp_path, check=True)
    program = str(tmp_path / "weights")
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    (address,) = (int(n, 16) for n in re.findall(r"^(\w+) T mix$", symbols, re.M))
    shown = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True)
    loads = re.findall(r"LOAD +(\w+) (\w+) \w+ \w+ (\w+) R E", shown.stdout)
    ((start, first, _),) = [[int(word, 16) for word in words] for words in loads]
    offset = address - first + start
    for place in (f"{address:#x}", f"+{offset:#x}"):
        with lbtrace.trace(
            command=[program], binary=program, places=f"{program}:{place}", arg='reg("di")'
        ) as session:
            found = [(point.name, point.args[0].value) for point in session.calls()]
        assert found == [(f"weights:{place}", turn * 77) for turn in range(4)]


def test_locals_need_a_place(programs: Path) -> None:
    program = str(programs / "trace")
    with pytest.raises(UsageError, match="is about lines and other places") as raised:
        lbtrace.trace(command=[program], functions="main", locals=True)
    assert "lines" in raised.value.hint or "line" in raised.value.hint
    done = attach("--func", "main", "--locals", "--", program)
    assert done.returncode == 2
    assert "--locals" in done.stderr
    assert "--line" in done.stderr
    alone = attach("--locals", "--", program)
    assert alone.returncode == 2
    assert "is about lines and other places" in alone.stderr


def test_locals_beside_expressions(programs: Path) -> None:
    """Both are shown: what was asked for by ``--arg`` first."""
    program = str(programs / "trace")
    words = {"command": [program], "lines": "trace.c:33"}
    with lbtrace.trace(**words, arg="twice=ret*2", locals=True) as session:
        both = [tuple((v.name, v.value) for v in p.args) for p in session.calls()]
    with lbtrace.trace(**words, locals=True) as session:
        alone = [tuple((v.name, v.value) for v in p.args) for p in session.calls()]
    values = [dict(each) for each in alone]
    assert both
    assert both == [
        (("twice", each["ret"] * 2), *shown) for each, shown in zip(values, alone, strict=True)
    ]


def test_lines_in_the_wrong_order(programs: Path) -> None:
    done = attach("--line", "trace.c:33-30", "--", str(programs / "trace"))
    assert done.returncode == 2
    assert "ends before it begins" in done.stderr
    assert "trace.c:30-33" in done.stderr

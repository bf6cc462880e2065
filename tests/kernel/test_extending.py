"""The examples of docs/extending.md work: added to a copy of lbtrace, they do what it says."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(?:py\n#|c\n/\*) (\S+|a row of \w+)(?: \*/)?\n(.*?)^```", re.M | re.S)

TABLES = {
    "a row of KINDS": ("values/__init__.py", '    Kind("record",'),
    "a row of FORMATS": ("sinks/__init__.py", '    Format("lbt",'),
    "a row of COMMANDS": ("commands/__init__.py", '}\n"""The commands, in the order'),
    "a row of CONVENTIONS": ("abi/__init__.py", '    Convention("aapcs64",'),
    "a row of MACHINES": ("machine/__init__.py", ')\n"""The processors'),
    "a row of NAMING": ("naming.py", '}\n"""The options, by name'),
}
"""Where the rows belong, and what follows them."""

PROGRAM = """
#include <time.h>
struct alarm { long n; struct timespec t; } alarm_clock = {5, {4, 9}};
__attribute__((noinline))
long wait_for(struct timespec t, const struct timespec *u, struct alarm *a)
{
    asm volatile("" ::: "memory");
    return t.tv_sec + u->tv_nsec;
}
int main(void)
{
    struct timespec u = {3, 7};
    for (long n = 0; n < 3; n++)
        wait_for((struct timespec){n, 500000000}, &u, &alarm_clock);
    return 0;
}
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of lbtrace with the examples, and what ``make build`` makes of them: one for all
    processes that run tests, for it takes long."""
    base = tmp_path_factory.getbasetemp()
    into = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "extended"
    into.mkdir(exist_ok=True)
    with (into / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (into / ".built").exists():
            _extend(into)
            (into / ".built").touch()
    return into


def _extend(into: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "out")
    for room in ("lbtrace", "bpf_src", "build"):
        shutil.copytree(ROOT / room, into / room, ignore=ignored)
    (into / "build/out").mkdir()
    machine = platform.machine()
    for made in ("src", machine):  # with libbpf, as it is compiled
        (into / "build/out" / made).symlink_to(ROOT / "build/out" / made)
    blocks = BLOCK.findall((ROOT / "docs/extending.md").read_text())
    assert len(blocks) == 15
    for name, text in blocks:
        if name not in TABLES:
            (into / name).parent.mkdir(exist_ok=True)
            (into / name).write_text(text)
            continue
        path, successor = TABLES[name]
        table = (into / "lbtrace" / path).read_text()
        assert table.count(successor) == 1
        (into / "lbtrace" / path).write_text(table.replace(successor, text + successor))
    make = f"import native; native.BPF_TARGET = {{'{machine}': native.BPF_TARGET['{machine}']}}"
    make += "; native.TABLES.clear(); native.objects()"  # the copy has those already
    subprocess.run([sys.executable, "-c", make], cwd=into / "build", check=True)


@pytest.fixture
def lbtrace_of(tmp_path: Path) -> Callable[..., str]:
    """Runs lbtrace as it lies in a directory; what it prints."""

    def lbtrace(where: Path, *words: str | Path) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "lbtrace", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(where)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return lbtrace


@pytest.mark.host
def test_the_examples(
    extended: Path,
    tool: Callable[[str], str],
    tmp_path: Path,
    lbtrace_of: Callable[..., str],
) -> None:
    tool("gcc")
    source, program = tmp_path / "x.c", tmp_path / "x"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-O1", source, "-o", program], check=True)

    capture = tmp_path / "x.lbt"
    options = ["--func", "wait_for", "--depth", "1", "--where", "t.tv_sec > 0"]
    lbtrace_of(extended, "attach", *options, "-o", capture, "--", program)
    for format, shown in (
        ("tree", "wait_for(t=1.500000000 s, u=&3.000000007 s, a=&{n=5, t=4.000000009 s}) = 8"),
        ("jsonl", '{"name":"t","value":2500000000}'),
        ("racket", "2.500000000 s"),
        ("chrome", "2.500000000 s"),
        ("csv", '"wait_for","wait_for(t=1.500000000 s, u=&3.000000007 s, a=&{n=5, '),
    ):
        assert shown in lbtrace_of(extended, "export", capture, "--format", format)
    old = lbtrace_of(ROOT, "export", capture, "--format", "tree")
    unknown = "<of the kind timespec, which this version does not know>"
    assert f"t={unknown}, " in old
    assert f"{{n=5, t={unknown}}}" in old


@pytest.mark.host
@pytest.mark.slow
def test_the_examples_keep_to_the_style(extended: Path) -> None:
    """Who copies one has no test to mend."""
    shutil.copytree(ROOT / "tests/unit", extended / "tests/unit")
    shutil.copy(ROOT / "pyproject.toml", extended)
    added = [name for name, _ in BLOCK.findall((ROOT / "docs/extending.md").read_text())]
    files = [name for name in added if name.endswith(".py")]
    for words in (
        ["ruff", "check", *files],
        ["ruff", "format", "--check", *files],
        ["pytest", "-q", "tests/unit/test_layers.py", "tests/unit/test_docstrings.py"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=extended,
            env={**os.environ, "PYTHONPATH": str(extended)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


SUMS = """
import sys
import lbtrace

program, mode, arg, where = sys.argv[1:]
with lbtrace.trace(
    command=[program, "10"],
    functions="fib",
    arg=arg,
    where=where,
    action="sum",
    options=lbtrace.Options(mode=mode),
) as session:
    print([(row.name, row.count, row.total, row.unread) for row in session.table()])
    print(session.losses().total)
"""


def fibonacci(n: int) -> list[tuple[int, int]]:
    """The argument and the result of each call that fib(n) makes, and of itself, the last."""
    if n < 2:
        return [(n, n)]
    first, second = fibonacci(n - 1), fibonacci(n - 2)
    return [*first, *second, (n, first[-1][1] + second[-1][1])]


def sums(extended: Path, *words: str | Path) -> list[tuple[str, int, int, int]]:
    """The rows of the action, where nothing was lost."""
    done = subprocess.run(
        [sys.executable, "-c", SUMS, *words],
        cwd=extended,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *_, rows, lost = done.stdout.splitlines()
    assert lost == "0"
    return literal_eval(rows)


@pytest.mark.host
@pytest.mark.parametrize(
    ("arg", "where"), [("n", ""), ("n - 5", "n < 9"), ("retval", ""), ("retval", "n > 3")]
)
def test_the_action(extended: Path, programs: Path, mode: str, arg: str, where: str) -> None:
    """Against what the program must have called, also with values below 0."""
    calls = [{"n": n, "retval": result} for n, result in fibonacci(10)]
    wanted = [eval(arg, {}, call) for call in calls if eval(where or "True", {}, call)]
    rows = sums(extended, programs / "fib", mode, arg, where)
    assert rows == [("fib", len(wanted), sum(wanted), 0)]


@pytest.mark.host
def test_the_action_with_durations(extended: Path, programs: Path, mode: str) -> None:
    ((name, count, total, unread),) = sums(extended, programs / "fib", mode, "duration", "")
    assert (name, count, unread) == ("fib", 177, 0)
    assert total > 177 * 100  # a probe alone takes longer


@pytest.mark.host
def test_the_source(
    extended: Path, compiled: Callable[..., Path], lbtrace_of: Callable[..., str], mode: str
) -> None:
    """The program says how many arguments it has; the loader begins first."""
    text = '#include <stdio.h>\nint main(int n, char **words) { printf("argc %d\\n", n); }'
    program = compiled("started", ["gcc", "-O2"], text)
    words = ["--start", "started", "--func", "main", "--mode", mode, "--format", "jsonl"]
    lines = lbtrace_of(extended, "attach", *words, "--", program, "a", "b").splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    calls = [call for call in records if call["type"] == "call"]
    assert "argc 3" in lines
    (started,) = (call for call in calls if call["name"] == "started")
    assert started["args"] == [{"name": "argc", "value": 3}]
    assert "main" in [call["name"] for call in calls]
    asked = ["--start", "*", "--where", "argc > 3", "--arg", "argc + 1"]
    for given, shown in (["a"], []), (["a", "b", "c"], [5]):
        command = [*asked, "--format", "jsonl", "--", program, *given]
        lines = lbtrace_of(extended, "attach", *command).splitlines()
        found = [json.loads(line) for line in lines if line.startswith('{"type":"call"')]
        assert [call["args"][0]["value"] for call in found] == shown


@pytest.mark.host
def test_what_the_source_does_not_have(extended: Path, programs: Path) -> None:
    words = [sys.executable, "-m", "lbtrace", "attach", "--func", "start:x", "--", programs / "fib"]
    done = subprocess.run(words, cwd=extended, capture_output=True, text=True, check=False)
    assert "--start x: is nowhere in" in done.stderr
    assert done.returncode == 2


@pytest.mark.host
def test_the_command(
    extended: Path, programs: Path, tmp_path: Path, lbtrace_of: Callable[..., str]
) -> None:
    capture = tmp_path / "fib.lbt"
    lbtrace_of(extended, "attach", "--func", "fib", "-o", capture, "--", programs / "fib", "5")
    lines = lbtrace_of(extended, "slowest", capture, "--count", "3").splitlines()
    assert lines[0].endswith(" ms  fib(n=5) = 5")
    assert len(lines) == 3
    durations = [float(line.split()[0]) for line in lines]
    assert durations == sorted(durations, reverse=True)
    assert "slowest" in lbtrace_of(extended, "--help")


def registers_program(seed: int, many: int) -> str:
    """A program with functions of clang's regcall, which print what they are called with."""
    dice = random.Random(seed)
    types = {"char": "d", "short": "d", "int": "d", "unsigned": "u", "long": "ld", "double": ".17g"}
    lines, calls = ["#include <stdio.h>"], []
    for number in range(many):
        chosen = dice.choices(list(types), k=dice.randrange(1, 30))
        formals = ", ".join(f"{type} p{n}" for n, type in enumerate(chosen))
        format = ", ".join(f"%{types[type]}" for type in chosen)
        shown = ", ".join(f"p{n}" for n in range(len(chosen)))
        lines.append(
            f"__attribute__((regcall, noinline)) {chosen[0]} traced_{number}({formals})\n"
            f'{{ printf("[{format}]\\n", {shown}); return p0; }}'
        )
        values = (dice.randrange(100) if t != "double" else dice.random() for t in chosen)
        calls.append(f"    traced_{number}({', '.join(map(str, values))});")
    return "\n".join([*lines, "int main(void)\n{", *calls, "    return 0;\n}"])


@pytest.mark.host
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_the_convention(
    extended: Path, compiled: Callable[..., Path], lbtrace_of: Callable[..., str], level: str
) -> None:
    if os.uname().machine != "x86_64":
        return
    seed = random.randrange(1 << 30)
    text = registers_program(seed, 40)
    program = compiled(f"registers{level}", ["clang", "-g", level], text)
    words = ["--func", "/traced/", "--format", "jsonl", "--", program]
    lines = lbtrace_of(extended, "attach", *words).splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    calls = [record for record in records if record["type"] == "call"]
    reported = [json.loads(line) for line in lines if line.startswith("[")]
    agreed = 0
    for call, values in zip(calls, reported, strict=True):
        for shown, value in zip(call["args"], values, strict=True):
            if shown["value"] is None:
                assert shown["unreadable"].startswith(("float in", "too many values")), (seed, call)
                continue
            assert readable(shown["value"]) == pytest.approx(value), (seed, call)
            agreed += 1
        if call["result"] is not None:
            assert readable(call["result"]) == pytest.approx(values[0]), (seed, call)
    assert agreed > 200


def readable(value: object) -> object:
    """Characters as numbers."""
    return ord(value) if isinstance(value, str) and len(value) == 1 else value


OPEN = """
import sys
from lbtrace.elf.image import Image
from lbtrace.machine import Machine

machine = Image.open(sys.argv[1], any_machine=True).machine
print(machine, Machine(machine).registers[10])
"""


@pytest.mark.host
def test_the_machine(extended: Path, programs: Path, tmp_path: Path) -> None:
    """Files for it are known for what they are."""
    program = bytearray((programs / "fib").read_bytes())
    program[18:20] = (243).to_bytes(2, "little")
    (tmp_path / "other").write_bytes(program)
    words = [sys.executable, "-c", OPEN, tmp_path / "other"]
    done = subprocess.run(words, cwd=extended, capture_output=True, text=True, check=True)
    assert done.stdout == "riscv64 a0\n"

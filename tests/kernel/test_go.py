"""Go programs of several compilers, compared with what they themselves print."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Compile = Callable[..., Path]
Lbtrace = Callable[..., "subprocess.CompletedProcess[str]"]

EVERYDAY = ["1.15", "1.27.3"]
OTHERS = ["1.19", "1.21.13", "1.24.11", "1.25.5", "1.26.6"]
VERSIONS = [*EVERYDAY, *(pytest.param(v, marks=pytest.mark.slow) for v in OTHERS)]
KINDS = ["plain", "stripped", "pie", "cgo", "cgo-stripped"]
KINDS_SLOW = ["pie-stripped", "static-pie"]

RACKET = """\
>(main.fib 4)
> (main.fib 3)
> >(main.fib 2)
> > (main.fib 1)
< < 1
> > (main.fib 0)
< < 0
< <1
> >(main.fib 1)
< <1
< 2
> (main.fib 2)
> >(main.fib 1)
< <1
> >(main.fib 0)
< <0
< 1
<3
"""
"""What Racket prints for (fib 4)."""


def traced(
    lbtrace: Lbtrace, program: Path, patterns: str, *words: object, options: tuple[object, ...] = ()
) -> tuple[list[dict[str, Any]], list[str]]:
    """The calls, and the lines that the program itself printed."""
    functions = [w for pattern in patterns.split() for w in ("--func", pattern)]
    output = program.parent / f"{program.name}.{hash((patterns, words)) & 0xFFFF}.jsonl"
    done = lbtrace(
        *("attach", *functions, *options, "--quiet", "--strict", "--force"),
        *("--ring-size", "64M", "-o", output, "--", program, *words),
    )
    assert done.returncode == 0, done.stderr
    with open(output, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    output.unlink()
    return [r for r in records if r["type"] == "call"], done.stdout.splitlines()


def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "kind", [*KINDS, *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS_SLOW)]
)
def test_fib_of_4_is_nine_calls(
    go_program: Compile, lbtrace: Lbtrace, version: str, kind: str
) -> None:
    program = go_program("fib", version, kind)
    words = ("attach", "--func", "main.fib", "--quiet")
    racket = lbtrace(*words, "--format", "racket", "--", program, 4)
    own = "3 8\n"
    assert racket.returncode == 0, racket.stderr
    assert own in racket.stdout
    assert racket.stdout.replace(own, "") == RACKET
    tree = lbtrace(*words, "--", program, 4).stdout
    assert len([line for line in tree.splitlines() if "main.fib(" in line]) == 9


@pytest.mark.parametrize("version", VERSIONS)
def test_goroutines_whose_stacks_move(go_program: Compile, lbtrace: Lbtrace, version: str) -> None:
    check_goroutines(go_program("many", version), lbtrace, 100, 11)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.15", "1.27.3"])
def test_goroutines_that_recurse_much(go_program: Compile, lbtrace: Lbtrace, version: str) -> None:
    check_goroutines(go_program("many", version), lbtrace, 100, 17)


def test_what_is_lost_belongs_to_a_goroutine(
    go_program: Compile, lbtrace: Lbtrace, tmp_path: Path
) -> None:
    """With a ring that is too small calls are missing, but none is taken for another."""
    output, goroutines, n = tmp_path / "out.jsonl", 100, 11
    words = ("attach", "--func", "main.fib", "--ring-size", "64K", "-o", output, "--")
    done = lbtrace(*words, go_program("many", "1.27.3"), goroutines, n)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in output.read_text().splitlines()]
    calls, lost = [r for r in records if r["type"] == "call"], records[-1]["lost"]
    for call in calls:
        assert call["end"] in ("returned", "open")
        if call["end"] == "returned":
            assert call["result"] == fibonacci(call["args"][1]["value"])
    assert len(calls) + lost["ring_full_entry"] == goroutines * (2 * fibonacci(n + 1) - 1)
    reported = [r for r in records if r["type"] == "loss"]
    events = sum(lost[f"ring_full_{kind}"] for kind in ("entry", "return", "point"))
    assert sum(r["count"] for r in reported) == events


def check_goroutines(program: Path, lbtrace: Lbtrace, goroutines: int, n: int) -> None:
    calls, printed = traced(lbtrace, program, "main.fib", goroutines, n)
    own = {int(i): (int(count), int(result)) for i, count, result in map(str.split, printed)}
    assert len(own) == goroutines
    seen: dict[int, int] = defaultdict(int)
    numbers: dict[int, set[int]] = defaultdict(set)
    for call in calls:
        worker, argument = (a["value"] for a in call["args"])
        seen[worker] += 1
        numbers[worker].add(call["goroutine"])
        assert call["end"] == "returned"
        assert call["result"] == fibonacci(argument)
        assert call["depth"] <= n - argument
    assert seen == {worker: count for worker, (count, _) in own.items()}
    assert all(len(found) == 1 for found in numbers.values())
    assert len(set.union(*numbers.values())) == goroutines


@pytest.mark.parametrize("version", VERSIONS)
def test_every_way_to_leave_a_function(go_program: Compile, lbtrace: Lbtrace, version: str) -> None:
    functions = "plain sink cleanup through catch again leave grow"
    patterns = " ".join(f"main.{name}" for name in functions.split())
    calls, printed = traced(lbtrace, go_program("ends", version), patterns)
    began: Counter[tuple[str, int]] = Counter()
    returned: Counter[tuple[str, int]] = Counter()
    for line in printed:
        sign, name, number = line.split()
        (began if sign == "+" else returned)[name, int(number)] += 1
    key = [(call["name"], call["args"][0]["value"]) for call in calls]
    assert Counter(key) == began
    ends = {call["end"] for call in calls}
    assert ends == {"returned", "unwound"}
    returns = Counter(k for k, call in zip(key, calls, strict=True) if call["end"] == "returned")
    assert returns == returned
    for name, call in zip(key, calls, strict=True):
        if call["end"] == "returned" and name[0] == "main.plain":
            assert call["result"] == name[1]
        if call["end"] == "returned" and name[0] == "main.catch" and name[1] % 10 == 0:
            assert call["result"] == -name[1]


def test_calls_that_a_goroutine_leaves_end_in_chrome(
    go_program: Compile, lbtrace: Lbtrace, tmp_path: Path
) -> None:
    """A goroutine that ends by runtime.Goexit is not seen again."""
    output = tmp_path / "out.json"
    words = ("--func", "main.leave", "--func", "main.plain", "--format", "chrome", "-o", output)
    done = lbtrace("attach", *words, "--quiet", "--", go_program("ends", "1.27.3"))
    assert done.returncode == 0, done.stderr
    events = json.loads(output.read_text())["traceEvents"]
    left = [event for event in events if event.get("args", {}).get("end") == "unwound"]
    assert {event["name"] for event in left} == {"main.leave"}
    assert not [event for event in events if event["ph"] == "B"]


@pytest.mark.parametrize("wish", ["uretprobe"])
def test_a_uretprobe_is_refused(go_program: Compile, lbtrace: Lbtrace, wish: str) -> None:
    program = go_program("fib", "1.27.3")
    done = lbtrace("attach", "--func", "main.fib", "--returns", wish, "--", program, 4)
    assert done.returncode == 2
    assert "--returns uretprobe may crash what is traced: Go moves its stacks" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_disturbs_a_program_that_churns(
    go_program: Compile, lbtrace: Lbtrace, tmp_path: Path, version: str
) -> None:
    churn(go_program("churn", version), lbtrace, tmp_path, 1)


def churn(program: Path, lbtrace: Lbtrace, tmp_path: Path, seconds: int) -> None:
    """All functions of the program are traced; how often they were called is what
    it says, if no event was lost."""
    capture = tmp_path / "churn.lbt"
    done = lbtrace(
        *("attach", "--func", "main.*", "--ring-size", "64M", "-o", capture, "--"),
        *(program, seconds),
        timeout=seconds + 120,
    )
    assert done.returncode == 0, done.stderr
    own = Counter({name: int(count) for name, count in map(str.split, done.stdout.splitlines())})
    exported = lbtrace("export", capture, "--format", "jsonl", timeout=20 * seconds + 120)
    assert exported.returncode == 0, exported.stderr
    seen: Counter[str] = Counter()
    wrong = 0
    for line in exported.stdout.splitlines():
        record = json.loads(line)
        if record["type"] == "call" and record["name"] in own:
            seen[record["name"]] += 1
            if record["name"] == "main.fault" and record["end"] == "returned":
                wrong += record["result"] not in ("oops!", "")
        if record["type"] == "summary" and any(record["lost"].values()):
            assert seen.keys() == own.keys()
            return
    assert not wrong
    assert seen == own


@pytest.mark.parametrize("version", ["1.27.3", pytest.param("1.15", marks=pytest.mark.slow)])
def test_a_web_server_under_load(go_program: Compile, lbtrace: Lbtrace, version: str) -> None:
    program = go_program("server", version)
    output = program.parent / f"{program.name}.served.jsonl"
    options = ("--arg", "r->Method", "--arg", "r->URL->Path", "--quiet", "--strict", "--force")
    words = ("attach", "--func", "main.(*app).ServeHTTP", *options, "-o", output, "--")
    done = lbtrace(*words, program, 4000, 2000)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in output.read_text().splitlines()]
    served = [" ".join(a["value"] for a in r["args"]) for r in records if r["type"] == "call"]
    assert Counter(served) == Counter([*done.stdout.splitlines(), "GET /first"])
    functions = "main.(*app).ServeHTTP net/http.(*Client).Get main.ask fmt.Fprintln"
    calls, printed = traced(lbtrace, program, functions, 4000, 2000)
    assert len(printed) == 4000
    assert not [line for line in printed if line.startswith("!")]
    named = Counter(call["name"] for call in calls)
    assert named["main.(*app).ServeHTTP"] == len(printed) + 1
    assert all(call["end"] == "returned" for call in calls)
    (got,) = (call for call in calls if call["name"] == "net/http.(*Client).Get")
    url = {a["name"]: a["value"] for a in got["args"]}["url"]
    assert url.startswith("http://127.0.0.1:")
    assert url.endswith("/first")
    asked = [call["result"][0] for call in calls if call["name"] == "main.ask"]
    assert Counter(asked) == Counter(printed)
    lengths = {c["args"][1]["value"]["len"] for c in calls if c["name"] == "fmt.Fprintln"}
    assert lengths == {1, 2}


HOST = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static long (*twice)(long);
__thread long *own; /* where old versions of Go keep the goroutine in programs */
static void *run(void *first)
{
	long sum = 0;
	own = calloc(100, sizeof(long));
	for (long i = 0; i < 50; i++)
		sum += twice((long)first + i);
	return (void *)sum;
}
int main(int argc, char **argv)
{
	pthread_t threads[3];
	void *sum;
	twice = (long (*)(long))dlsym(dlopen(argv[1], RTLD_NOW), "Twice");
	for (long i = 0; i < 3; i++)
		pthread_create(threads + i, 0, run, (void *)(100 * i));
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &sum);
		printf("%ld\n", (long)sum);
	}
}
"""


@pytest.mark.parametrize("version", ["1.27.3", pytest.param("1.15", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["shared", "shared-stripped"])
@pytest.mark.parametrize("beside", [(), ("--func", "runtime.casgstatus")])
def test_c_calls_a_library_written_in_go(
    go_program: Compile,
    compiled: Compile,
    lbtrace: Lbtrace,
    tmp_path: Path,
    version: str,
    kind: str,
    beside: tuple[str, ...],
) -> None:
    """What C calls belongs to its thread; inside Go runs a goroutine, which old versions keep
    where it cannot be found. Go's runtime makes calls on the stack of the thread as well."""
    library, output = go_program("library", version, kind), tmp_path / "out.jsonl"
    host = compiled("host", ["gcc", "-pthread"], HOST)
    words = ("attach", "--binary", library, "--func", "Twice", "--func", "main.helper", "--strict")
    done = lbtrace(*words, *beside, "--quiet", "-o", output, "--", host, library)
    assert done.returncode == 0, done.stderr
    expected = [100 * thread + n for thread in range(3) for n in range(50)]
    printed = [sum(2 * (n + 1) for n in expected[at : at + 50]) for at in (0, 50, 100)]
    assert done.stdout.split() == list(map(str, printed))
    calls = [r for r in map(json.loads, output.read_text().splitlines()) if r["type"] == "call"]
    for name, result in (("Twice", lambda n: 2 * n + 2), ("main.helper", lambda n: n + 1)):
        own = [call for call in calls if call["name"] == name]
        assert sorted(call["args"][0]["value"] for call in own) == expected
        assert all(call["end"] == "returned" for call in own)
        in_goroutine = name == "main.helper" and version != "1.15"
        assert all(("goroutine" in call) == in_goroutine for call in own)
        if kind == "shared" or name == "main.helper":
            assert all(call["result"] == result(call["args"][0]["value"]) for call in own)


def test_calls_in_a_library_whose_goroutines_are_unknown(
    go_program: Compile, compiled: Compile, lbtrace: Lbtrace, tmp_path: Path
) -> None:
    """Goroutines and the runtime call on stacks of their own in one thread, so what seems to leave
    a call may be on another stack."""
    library, output = go_program("library", "1.15", "shared"), tmp_path / "out.jsonl"
    host = compiled("host", ["gcc", "-pthread"], HOST)
    words = ("attach", "--binary", library, "--func", "main.*", "--func", "runtime.*")
    done = lbtrace(*words, "--ring-size", "64M", "-o", output, "--", host, library)
    assert done.returncode == 0, done.stderr
    assert "a library of Go before 1.17, whose goroutines are not distinguished" in done.stderr
    calls = [r for r in map(json.loads, output.read_text().splitlines()) if r["type"] == "call"]
    assert "unwound" not in {call["end"] for call in calls}
    own = [call for call in calls if call["name"] == "main.helper"]
    assert len(own) == 150
    for call in own:
        assert call["end"] == "open" or call["result"] == call["args"][0]["value"] + 1


@pytest.mark.parametrize(
    "version", ["1.27.3", *(pytest.param(v, marks=pytest.mark.slow) for v in ("1.15", "1.19"))]
)
def test_go_calls_c(go_program: Compile, lbtrace: Lbtrace, version: str) -> None:
    """C runs on a stack of its thread, so its calls nest by thread, Go's by goroutine. What
    cgo writes in between takes its arguments from the stack in all versions."""
    functions = "main.ask main._Cfunc_depth down depth"
    calls, printed = traced(lbtrace, go_program("ccalls", version, "cgo"), functions)
    named = Counter(call["name"] for call in calls)
    assert named["main.ask"] == named["main._Cfunc_depth"] == named["depth"] == 1000
    assert named["down"] == 50 * sum(n + 1 for n in range(1, 21))
    assert printed == [str(50 * sum(range(1, 21)))]
    for call in calls:
        assert call["end"] == "returned"
        given = [argument["value"] for argument in call["args"]]
        if version == "1.15" and call["name"] == "main._Cfunc_depth":
            assert given.pop(0) is None  # debug information has no location of it
            assert given == [2 * call["result"], None]  # it does not say that these are all
            continue
        assert given in ([call["result"]], [call["result"], 2 * call["result"]])
        assert ("goroutine" in call) == call["name"].startswith("main.")
        if call["name"] == "depth":
            assert call["depth"] == 0


def test_go_calls_c_without_debug_information(go_program: Compile, lbtrace: Lbtrace) -> None:
    program = go_program("ccalls", "1.27.3", "cgo-stripped")
    calls, _ = traced(lbtrace, program, "main.ask main._Cfunc_depth")
    asked = [call["args"][0]["value"] for call in calls if call["name"] == "main.ask"]
    given = [[a["value"] for a in c["args"]] for c in calls if c["name"] == "main._Cfunc_depth"]
    if os.uname().machine == "aarch64":  # where the code does not tell the convention
        assert given == [[None, None]] * len(asked)
    else:
        assert sorted(given) == [[n, 2 * n] for n in sorted(asked)]

"""Counting in the kernel: action ``count``, compared with what the programs log."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lbtrace.bpf._libbpf import lib

import lbtrace
from lbtrace.bpf import aggregates, objects
from lbtrace.errors import UsageError
from lbtrace.session.options import Options

Run = Callable[..., subprocess.CompletedProcess[str]]


def logged(log: Path) -> Counter[tuple[str, int]]:
    """What the program says that it has called, by function and process."""
    lines = [line.split() for line in log.read_text().splitlines()]
    return Counter((line[2], int(line[0])) for line in lines)


def counted(rows: list[lbtrace.Count]) -> dict[tuple[str, int], int]:
    return {(row.name, row.pid): row.count for row in rows}


@pytest.mark.parametrize("words", [("threads", 6, 400), ("fork", 5, 200)])
def test_counts_are_those_of_the_program(
    programs: Path, mode: str, tmp_path: Path, words: tuple[object, ...]
) -> None:
    """Threads are preempted and migrate while they count."""
    log = tmp_path / "log"
    with lbtrace.trace(
        command=[programs / "truth", log, *map(str, words)],
        functions="traced_*",
        action="count",
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        rows = session.counts()
        assert counted(rows) == logged(log)
        assert [row.count for row in rows] == sorted((row.count for row in rows), reverse=True)
        assert {row.binary for row in rows} == {str(programs / "truth")}
        assert session.losses().total == 0
        assert session.counts() == rows


@pytest.mark.parametrize(
    ("where", "count"), [("n > 3", 33), ("retval > 3", 20), ("n < 9 and retval > 3", 18)]
)
def test_calls_that_a_condition_holds_of(programs: Path, mode: str, where: str, count: int) -> None:
    """fib(10) calls fib(n) as often as the Fibonacci number of 11 - n says."""
    with lbtrace.trace(
        command=[programs / "fib", "10"],
        functions=["fib"],
        action="count",
        where=where,
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        assert [(row.name, row.count) for row in session.counts()] == [("fib", count)]


KEYED = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
enum color { RED, GREEN = 7 };
static FILE *file;
static const char *const paths[] = {"", "/etc/passwd", "b\xff\"c", NULL};
__attribute__((noinline)) long keyed(const char *path, int n, enum color color, long size) {
	__asm__ volatile("" ::: "memory");
	return n % 3 ? size : -size;
}
static void *run(void *seed) {
	long state = (long)seed, made[900];
	for (int i = 0; i < 300; i++) {
		state = state * 6364136223846793005 + 1442695040888963407;
		made[3 * i] = state >> 60 & 3;
		made[3 * i + 1] = (int)(state >> 33) % 7;
		made[3 * i + 2] = state;
		keyed(paths[made[3 * i]], made[3 * i + 1], made[3 * i + 1] & 1 ? GREEN : RED, state);
	}
	flockfile(file);
	for (int i = 0; i < 300; i++)
		fprintf(file, "%d %d %ld %ld %ld\n", getpid(), gettid(), made[3 * i], made[3 * i + 1],
			made[3 * i + 2]);
	funlockfile(file);
	return NULL;
}
int main(int count, char **words) {
	pthread_t threads[8];
	file = fopen(words[1], "a");
	static char room[1 << 20];
	setvbuf(file, room, _IOFBF, sizeof(room)); /* a process writes at once */
	for (int child = 0; child < 3; child++)
		if (!fork()) {
			for (long i = 0; i < 8; i++)
				pthread_create(&threads[i], NULL, run, (void *)(child * 8 + i + 1));
			for (int i = 0; i < 8; i++)
				pthread_join(threads[i], NULL);
			fclose(file);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
}
"""
"""Three processes of eight threads that log what they call a function with."""


@pytest.fixture
def keyed(compiled: Callable[[str, list[str], str], Path]) -> Path:
    return compiled("keyed.c", ["gcc", "-O1", "-g", "-pthread", "-D_GNU_SOURCE"], KEYED)


class Made(NamedTuple):
    """A call that the program has made."""

    pid: int
    tid: int
    path: str
    n: int
    size: int

    @property
    def color(self) -> str:
        return "GREEN" if self.n & 1 else "RED"

    @property
    def retval(self) -> int:
        return self.size if self.n % 3 else -self.size


def made_by(log: Path) -> list[Made]:
    paths = ("", "/etc/passwd", 'b\udcff"c', "0x0")
    lines = [[*map(int, line.split())] for line in log.read_text().splitlines()]
    return [Made(pid, tid, paths[path], n, size) for pid, tid, path, n, size in lines]


BY = {"plain": "path", "multi": "pid,color,n,comm", "session": "func,tid,retval%2,str(path)"}
"""Keys, by the way in which probes are attached."""


def test_keys_and_columns_are_those_of_the_program(keyed: Path, mode: str, tmp_path: Path) -> None:
    """Known at the entry, at the return, or at both; numbers of all 64 bits, the least and the most
    of which threads raise at once."""
    by = BY[mode]
    columns = [f"{how}({name})" for how in ("sum", "min", "max", "avg") for name in ("size", "n")]
    with lbtrace.trace(
        command=[keyed, tmp_path / "log"],
        functions="keyed",
        action="count",
        by=by,
        columns=columns,
        options=Options(mode=mode),  # type: ignore[arg-type]
    ) as session:
        rows = session.counts()
        assert session.losses().total == 0
    truth: dict[tuple[object, ...], list[Made]] = {}
    for made in made_by(tmp_path / "log"):
        odd = made.retval % 2 * (1 if made.retval > 0 else -1)
        own = {"func": "keyed", "comm": "keyed.c", "str(path)": made.path, "retval%2": odd}
        key = tuple(own[name] if name in own else getattr(made, name) for name in by.split(","))
        truth.setdefault(key, []).append(made)
    assert {tuple(row.by.values()): row.count for row in rows} == {
        key: len(each) for key, each in truth.items()
    }
    for row in rows:
        assert [*row.by] == by.split(",")
        for name in ("size", "n"):
            values = [getattr(made, name) for made in truth[tuple(row.by.values())]]
            found = [row.values[f"{how}({name})"] for how in ("sum", "min", "max")]
            assert found == [sum(values), min(values), max(values)]
            assert row.values[f"avg({name})"] == sum(values) / len(values)


TYPED = r"""
#include <stdbool.h>
#include <stdint.h>
__attribute__((noinline)) uint64_t typed(uint64_t u, int64_t i, bool odd, char *text) {
	__asm__ volatile("" ::: "memory");
	return u;
}
int main() {
	for (int n = 0; n < 10; n++)
		typed(UINT64_MAX - 15 + n, INT64_MIN + n, n & 1, "text");
}
"""


def test_numbers_have_the_sign_of_their_type(
    compiled: Callable[[str, list[str], str], Path], lbtrace: Run
) -> None:
    program = compiled("typed.c", ["gcc", "-O1", "-g"], TYPED)
    unsigned, signed = [2**64 - 16 + n for n in range(10)], [n - 2**63 for n in range(10)]

    def count(*words: str) -> list[dict[str, Any]]:
        done = lbtrace("count", "--func", "typed", *words, "--format", "json", "--", program)
        return json.loads(done.stdout)["histogram" if "--hist" in words else "count"]

    columns = [word for how in ("sum", "min", "max") for word in (f"--{how}", "u,i,retval,u - i")]
    apart = [(u - i) % 2**64 for u, i in zip(unsigned, signed, strict=True)]
    assert count(*columns)[0]["values"] == {
        f"{how.__name__}({name})": how(values)
        for how in (sum, min, max)
        for name, values in zip(
            ("u", "i", "retval", "u - i"), (unsigned, signed, unsigned, apart), strict=True
        )
    }
    for name, values in (("u", unsigned), ("i", signed)):
        (row,) = count("--hist", name)
        assert (row["count"], row["total"]) == (10, sum(values))
        assert abs(row["median"] - values[4]) <= abs(values[4]) / 64
    assert {row["by"]["u"] for row in count("--by", "u")} == {*unsigned}
    done = lbtrace("count", "--func", "typed", "--by", "odd", "--format", "csv", "--", program)
    assert done.stdout.split() == ["odd,count", "false,5", "true,5"]
    done = lbtrace("count", "--func", "typed", "--sum", "text", "--", program)
    assert (done.returncode, "no amount\n  count with --by text" in done.stderr) == (2, True)


ELEMENTS = r"""
#include <array>
#include <memory>
#include <string>
#include <vector>
struct cell { int key; std::string name; };
struct row { int plain[4]; std::array<int, 5> fixed; std::vector<int> cells; };
using owned = std::vector<std::unique_ptr<cell>>;
__attribute__((noinline)) void take(owned &v, std::vector<row> &rows, row *last, const int &n) {
	__asm__ volatile("" :: "r"(&n), "r"(last), "r"(&v), "r"(&rows) : "memory");
}
int main() {
	owned v;
	for (auto name : {"seven", "eight"})
		v.emplace_back(new cell{(int)v.size() + 7, name});
	std::vector<row> rows(2);
	rows[1].cells = {4, 5, 6};
	for (volatile int n = 41; n < 43; n++)
		take(v, rows, &rows[1], const_cast<const int &>(n));
}
"""


def test_elements_are_keys(compiled: Callable[[str, list[str], str], Path], lbtrace: Run) -> None:
    """Arrays have a length that is known beforehand; an index may follow another, and lead through
    a smart pointer; beyond the last is nothing, which is no failed computation."""
    program = compiled("elements.cc", ["g++", "-O1", "-g"], ELEMENTS)
    keys = {
        **{"len(last->plain)": 4, "len(last->fixed)": 5, "len(rows[1].cells)": 3},
        **{"rows[1].cells[2]": 6, "rows[1].cells[3]": None, "v[1]->key": 8, "v[0].name": "seven"},
    }
    for key, value in keys.items():
        done = lbtrace("count", "--func", "take", "--by", key, "--format", "json", "--", program)
        (row,) = json.loads(done.stdout)["count"]
        assert (row["by"], row["count"]) == ({key: value}, 2), key
        assert done.stderr == "lbtrace: 2 calls counted, nothing lost\n"
    done = lbtrace("count", "--func", "take", "--by", "n", "--format", "csv", "--", program)
    assert done.stdout.split() == ["n,count", "41,1", "42,1"]


REFERENCES = r"""
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
struct point { int x; };
__attribute__((noipa)) const std::string &refer(
	const std::string &text, const std::string_view &view, const std::optional<int> &maybe,
	const double &real, const point &place) {
	printf("%s %.*s %d %g %p\n", text.c_str(), (int)view.size(), view.data(), maybe.value_or(-1),
		real, (const void *)&place);
	return text;
}
int main() {
	std::string texts[] = {"short", "one that has no room in the object", "short"};
	const char *views = "abc";
	point places[2] = {};
	for (int n = 0; n < 12; n++) {
		std::string_view view(views, 1 + n % 3);
		std::optional<int> maybe = n % 4 ? std::optional(n % 4) : std::nullopt;
		double real = n % 2 / 2.0;
		refer(texts[n % 3], view, maybe, real, places[n % 2]);
	}
}
"""


def test_references_are_what_they_lead_to(
    compiled: Callable[[str, list[str], str], Path], lbtrace: Run
) -> None:
    """But for records, which their addresses tell apart."""
    program = compiled("refer.cc", ["g++", "-O1", "-g", "-std=c++17"], REFERENCES)
    logged = re.compile(r"(.*) (\w+) (-?\d+) (\S+) (0x\w+)")
    keys = ("text", "view", "maybe", "real", "place")
    for number, key in enumerate((*keys, "retval")):
        done = lbtrace("count", "--func", "refer", "--by", key, "--format", "json", "--", program)
        *lines, table = done.stdout.splitlines()
        made = [match[1 + number % 5] for line in lines if (match := logged.fullmatch(line))]
        found = {row["by"][key]: row["count"] for row in json.loads(table)["count"]}
        shown = {"-1": "nullopt"} if key == "maybe" else {}
        texts = Counter(shown.get(text, text) for text in made)
        assert {f"{k:g}" if key == "real" else str(k): n for k, n in found.items()} == texts, key
    done = lbtrace("count", "--func", "refer", "--hist", "text", "--", program)
    assert (done.returncode, "take its length, len(text)" in done.stderr) == (2, True)


def test_keys_on_the_command_line(keyed: Path, lbtrace: Run, tmp_path: Path) -> None:
    """Also of histograms, and without what newer kernels have."""
    log, capture = tmp_path / "log", tmp_path / "keys.lbt"
    done = lbtrace(
        *("count", "--func", "keyed", "--by", "path,color", "--hist", "n", "--where", "retval > 0"),
        *("--format", "json", "--", keyed, log),
    )
    rows = json.loads(done.stdout)["histogram"]
    made = [each for each in made_by(log) if each.retval > 0]
    counted = Counter((each.path, each.color) for each in made)
    assert {(r["by"]["path"], r["by"]["color"]): r["count"] for r in rows} == counted
    assert sum(row["total"] for row in rows) == sum(each.n for each in made)
    log.unlink()
    done = lbtrace(
        *("count", "--func", "keyed", "--by", "k=n,color", "--avg", "duration", "--sum", "size"),
        *("-o", capture, "--", keyed, log),
    )
    assert "7,200 calls counted, nothing lost" in done.stderr
    heading, *lines = lbtrace("export", capture).stdout.splitlines()
    assert heading.split() == ["COUNT", "AVG(duration)", "SUM(size)", "k", "color"]
    shown = {tuple(cells[-2:]): int(cells[0]) for cells in map(str.split, lines)}
    assert shown == Counter((str(each.n), each.color) for each in made_by(log))


def test_few_of_many_keys_have_room(keyed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object of older kernels does as well, but for the least and the most."""
    monkeypatch.setattr(aggregates, "BUCKETS", 1000)
    monkeypatch.setattr(objects, "finds_mappings", lambda: False)
    with lbtrace.trace(
        command=[keyed, "/dev/null"],
        functions="keyed",
        action="count",
        by="size",
        columns=["sum(n)"],
    ) as session:
        rows, losses = session.counts(), session.losses()
    assert len(rows) == 1000
    assert sum(row.count for row in rows) + losses.uncounted == 7200
    assert losses.events == losses.uncounted


def test_tables_are_read_while_they_run(programs: Path) -> None:
    command = [programs / "loop", "100000", "500"]
    with lbtrace.count(command=command, functions="tick", by="func", sum="n") as table:
        assert isinstance(table, lbtrace.LiveTable)
        seen = [0]
        while len(seen) < 4:
            seen += [row.count for row in table if row.count > seen[-1]]
    (row,) = table.rows
    assert row.count >= seen[-1]
    assert [*table.to_pandas().columns] == ["func", "count", "sum(n)"]
    assert repr(table).splitlines()[0].split() == ["COUNT", "SUM(n)", "func"]
    assert str(row.count) in table._repr_html_()
    timed = lbtrace.latency(command=[programs / "fib", "5"], functions="fib")
    assert "not entered" in repr(timed)
    with pytest.raises(UsageError, match="is empty"):
        timed.rows  # noqa: B018
    assert [row.count for row in timed.wait()] == [15]
    assert timed.losses().total == 0


def test_counting_hooks_no_return_and_sends_nothing(programs: Path) -> None:
    with lbtrace.trace(
        command=[programs / "fib", "5"], functions=["fib"], action="count", returns="uretprobe"
    ) as session:
        (probe,) = session.plan.probes
        assert (probe.role, probe.source, probe.action) == ("opens", "uprobe", "count")
        assert session.counts()[0].count == 15


def test_what_has_no_room_is_reported(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for_two = 2 * (8 + 8 * int(lib.libbpf_num_possible_cpus()))
    monkeypatch.setattr(aggregates, "AGGREGATE_BYTES", for_two)
    log = tmp_path / "log"
    with lbtrace.trace(
        command=[programs / "truth", log, "alone", "1", "50"],
        functions="traced_*",
        action="count",
    ) as session:
        rows, truth = counted(session.counts()), logged(log)
        assert len(rows) < len(truth)
        assert all(count == truth[key] for key, count in rows.items())
        missing = sum(truth.values()) - sum(rows.values())
        assert session.losses().uncounted == session.losses().events == missing


def test_counts_are_shown_while_the_trace_runs_and_recorded(
    programs: Path, tmp_path: Path, lbtrace: Run
) -> None:
    """A capture that breaks off holds those of a second before, and every format takes it."""
    capture = tmp_path / "counts.lbt"
    code = f"""
import sys
from lbtrace.api import trace
from lbtrace.capture import CaptureWriter

command = [{str(programs / "loop")!r}, "1000", "4000"]
with trace(command=command, functions=["tick"], action="count") as t:
    with open({str(capture)!r}, "wb", buffering=0) as file:
        writer = CaptureWriter(file, t.plan)
        for batch in t._session.batches():
            writer.write(batch)
            print(type(batch).__name__, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    reported = 0
    for line in process.stdout:
        reported += line.strip() == "Aggregates"
        if reported == 2:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    from lbtrace.capture import read_capture

    with read_capture(str(capture)) as read:
        (row,) = read.counts()
        assert not read.complete
        assert row.name == "tick"
        assert row.count > 10
    done = lbtrace("export", capture)
    assert done.stdout.splitlines()[-1].split() == [str(row.count), str(row.pid), "tick"]
    assert f"{row.count:,} calls counted" in done.stderr
    done = lbtrace("export", capture, "--format", "jsonl")
    record = json.loads(done.stdout.splitlines()[1])
    assert record == {
        "type": "count", "name": "tick", "binary": row.binary, "pid": row.pid, "count": row.count
    }  # fmt: skip
    for name in ("chrome", "racket"):
        assert lbtrace("export", capture, "--format", name, "--salvage").returncode == 0


def test_what_counting_cannot_do(programs: Path) -> None:
    words = {"command": [str(programs / "fib"), "5"], "functions": ["fib"]}
    with pytest.raises(UsageError, match="show no arguments"):
        lbtrace.trace(**words, action="count", arg="n")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no known depth"):
        lbtrace.trace(**words, action="count", max_depth=2)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no events"):
        lbtrace.trace(**words, action="count", options=Options(max_events=5))  # type: ignore[arg-type]
    for by, wrong in (
        ("size", "size is not known"),
        ("n,", "a value is missing"),
        ("n,n", "names n twice"),
        ("pid,tid,comm,n,n+1", "4 values"),
        ("n > 1", "is not expected here"),
    ):
        with pytest.raises(UsageError, match=wrong):
            lbtrace.trace(**words, action="count", by=by)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is no column"):
        lbtrace.trace(**words, action="count", columns="n")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="takes no action="):
        lbtrace.latency(**words, action="count")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hist= and sum= exclude each other"):
        lbtrace.count(**words, hist="n", sum="n")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hist: size is not known"):
        lbtrace.count(**words, hist="size")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="only what is counted"):
        lbtrace.trace(**words, by="n")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'sum' is unknown"):
        lbtrace.trace(**words, action="sum")  # type: ignore[arg-type]


def test_what_keys_are_called(programs: Path, lbtrace: Run) -> None:
    done = lbtrace("count", "--func", "fib", "--by", "nosuch", "--", programs / "fib", "3")
    assert "there are n, retval, pid, tid, comm, duration, func;" in done.stderr


@pytest.mark.parametrize("name", ["count", "latency", "stacks"])
def test_what_functions_do_not_take(programs: Path, name: str) -> None:
    make = getattr(lbtrace, name)
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected .* 'foo'$"):
        make(command=[programs / "fib", "3"], functions="fib", foo=1)

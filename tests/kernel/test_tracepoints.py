"""Tracepoints, against what the kernel's own tracer prints of the same hits."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.kernel_tracer import kernel_trace

PROGRAM = r"""
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_signal(int number) { usleep(1000); }

__attribute__((noinline)) int doze(const char *name)
{
	prctl(PR_SET_NAME, name);
	usleep(2000);
	return *name;
}

static void *work(void *name)
{
	doze(name);
	return malloc(1 << 20);
}

int main(void)
{
	pthread_t thread;

	signal(SIGUSR1, on_signal);
	for (int n = 0; n < 3; n++) {
		pthread_create(&thread, NULL, work, "a thread");
		pthread_join(thread, NULL);
	}
	raise(SIGUSR1);
	if (!fork()) {
		doze("a child");
		execl("/usr/bin/sleep", "sleep", "0.01", NULL);
	}
	wait(NULL);
	return doze("the end") == 0;
}
"""

EVENTS = (
    *("sched:sched_switch", "sched:sched_process_fork", "sched:sched_process_exec"),
    *("signal:signal_deliver", "task:task_rename", "exceptions:page_fault_user"),
    *("kmem:mm_page_alloc", "task:task_newtask"),
)
ENTRY = re.compile(r" *.+-(\d+) +\[\d+\] +\S+ +[\d.]+: (\w+): (.*)")
FIELD = re.compile(r"(\w+)=(\S+)")


@pytest.fixture
def program(tool: Callable[[str], str], tmp_path: Path) -> Path:
    (tmp_path / "doze.c").write_text(PROGRAM)
    command = [tool("gcc"), "-g", "-O1", "-pthread", "doze.c", "-o", "doze"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path / "doze"


def points(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    lost = next(row["lost"] for row in rows if row["type"] == "summary")
    assert not any(lost.values())
    return [row for row in rows if row["type"] == "point"]


def is_same(one: Any, printed: str) -> bool:
    """Whether a value is what the kernel prints, as far as that is a number, a text or a name."""
    if isinstance(one, str) and one.startswith("0x"):
        return not printed.startswith("0x") or int(one, 16) == int(printed, 16)
    if isinstance(one, int) and re.fullmatch(r"-?(0x)?[0-9a-f]+", printed):
        return one == int(printed, 16) or (printed.isdecimal() and one == int(printed))
    if isinstance(one, str) and "|" in one:
        return {*one.split("|")} == {*printed.split("|")}
    return not isinstance(one, str) or one.split(" ")[0] == printed


def test_what_the_kernel_prints(lbtrace: Callable[..., Any], program: Path) -> None:
    into = program.parent / "x.jsonl"
    with kernel_trace(EVENTS) as printed:
        options = ["--tracepoint", ",".join(EVENTS), "--strings", 400, "-o", into]
        lbtrace("attach", *options, "--", program)
        entries = [found for line in printed().splitlines() if (found := ENTRY.fullmatch(line))]
    mine = points(into)
    assert {each["name"] for each in mine} == {*EVENTS}
    first = next(each for each in mine if each["name"] == "sched:sched_process_exec")
    for tid in {each["tid"] for each in mine}:
        own = [each for each in mine if each["tid"] == tid]
        if tid == first["tid"]:  # before, not all were attached
            own = own[own.index(first) :]
        theirs = [entry for entry in entries if int(entry[1]) == tid]
        names = [entry[2] for entry in theirs]
        wanted = [each["name"].partition(":")[2] for each in own]
        # The kernel prints also what comes before and after the trace.
        starts = [n for n in range(len(names)) if names[n : n + len(wanted)] == wanted]
        assert starts, (wanted, names)
        assert any(not [*differences(own, theirs[start:])] for start in starts), [
            *differences(own, theirs[starts[0] :])
        ]


def differences(mine: list[dict[str, Any]], theirs: list[re.Match[str]]) -> Iterator[str]:
    for point, entry in zip(mine, theirs, strict=False):
        have = {each["name"]: each["value"] for each in point["args"]}
        for name, printed in FIELD.findall(entry[3]):
            if name in have and not is_same(have[name], printed):
                yield f"{point['name']} {name}: {have[name]}, {printed}"


def test_below_calls(lbtrace: Callable[..., Any], program: Path) -> None:
    """They are below the system call and the function that led there; nobody else's are shown."""
    options = ["--func", "doze", "--within", "doze", "--syscall", "clock_nanosleep"]
    options += ["--tracepoint", "sched:sched_switch"]
    done = lbtrace("attach", *options, "-o", program.parent / "x.lbt", "--", program)
    assert done.returncode == 0, done.stderr
    tree = lbtrace("export", program.parent / "x.lbt").stdout
    assert len(re.findall(r"\n +\d+  doze\(.*\n(.*\n)*?.*│ clock_nanosleep", tree)) == 5, tree
    assert tree.count("│ │ · sched:sched_switch prev_comm=") >= 5, tree


def test_ends_of_forked_processes(lbtrace: Callable[..., Any]) -> None:
    done = lbtrace(
        *("attach", "--tracepoint", "sched:sched_process_e*,!*exec"),
        *("--", "sh", "-c", "(exit 3); /bin/true; (/bin/true; exit 4)"),
    )
    assert done.stdout.count("· sched:sched_process_exit ") == 5, done.stdout


def test_choices(lbtrace: Callable[..., Any], program: Path) -> None:
    def seen(*options: str) -> list[Any]:
        into = program.parent / "x.jsonl"
        lbtrace("attach", *options, "-o", into, "--force", "--", program)
        return [[each["value"] for each in point["args"]] for point in points(into)]

    renamed = ["--tracepoint", "task:task_rename", "--where", 'newcomm == "a thread"']
    assert seen(*renamed, "--arg", "newcomm", "--arg", "oldcomm") == [["a thread", "doze"]] * 3
    executed = ["--tracepoint", "sched:sched_process_e*c", "--strings", "10"]
    (((text, pid, former),)) = seen(*executed, "--where", 'filename != "x" and pid > 0')[1:]
    assert text == "/usr/bin/s"
    assert pid == former
    asleep = ["--tracepoint", "sched:sched_switch", "--where", "prev_state == S"]
    assert {*map(tuple, seen(*asleep, "--arg", "prev_state"))} == {("S",)}


def test_api(program: Path) -> None:
    import lbtrace

    with lbtrace.trace(tracepoints="signal:signal_deliver", command=[program]) as trace:
        found = [call for call in trace.calls() if call["sig"] == 10]
    (call,) = found
    assert call.end == "point"
    chosen = {"tracepoints": "task:task_rename", "where": 'newcomm == "a thread"'}
    with lbtrace.trace(**chosen, command=[program], action="count") as trace:
        assert [(row.name, row.count) for row in trace.counts()] == [("task:task_rename", 3)]


CONNECTS = """\
from socket import AF_INET, AF_INET6, socket
for family, host in ((AF_INET, "127.0.0.2"), (AF_INET6, "::1")):
    one = socket(family)
    one.bind((host, 0))
    print(one.getsockname()[1], host, flush=True)
    one.connect_ex((host, 9))
"""


def test_addresses_of_networks(lbtrace: Callable[..., Any], tmp_path: Path) -> None:
    into = tmp_path / "run.jsonl"
    options = ["--tracepoint", "sock:inet_sock_set_state"]
    command = ["--", sys.executable, "-S", "-c", CONNECTS]
    done = lbtrace("attach", *options, "-o", into, *command)
    said = {int(port): host for port, host in map(str.split, done.stdout.splitlines())}
    found = [{each["name"]: each["value"] for each in point["args"]} for point in points(into)]
    assert {each["sport"] for each in found} == {*said}
    for each in found:
        host, is_long = said[each["sport"]], each["family"] == "AF_INET6"
        assert is_long or each["saddr"] == host
        assert each["saddr_v6"] == (host if is_long else f"::ffff:{host}")
    for test, shown in (
        ('saddr == "127.0.0.2"', [["2", "AF_INET"]]),
        ('saddr_v6 == "::1" and saddr_v6[15] == 1', [["2", "AF_INET6"]]),
        ('saddr_v6 != "::1" and family == AF_INET6', []),
    ):
        counted = lbtrace("count", *options, "--by", "family", "--where", test, *command)
        rows = counted.stdout.partition("family\n")[2].splitlines()
        assert [row.split() for row in rows] == shown


SENDS = """\
from socket import AF_INET, AF_INET6, create_connection, create_server
for family, host in ((AF_INET, "127.0.0.1"), (AF_INET6, "::1")):
    server = create_server((host, 0), family=family)
    client = create_connection(server.getsockname()[:2])
    other, address = server.accept()
    client.send(b"text")
    written = f"[{host}]" if ":" in host else host
    print(f"{written}:{address[1]} {written}:{server.getsockname()[1]}", flush=True)
"""


def test_addresses_of_sockets(lbtrace: Callable[..., Any], tmp_path: Path) -> None:
    into = tmp_path / "run.jsonl"
    options = ["--tracepoint", "tcp:tcp_probe", "--arg", "saddr", "--arg", "daddr", "-o", into]
    done = lbtrace("attach", *options, "--", sys.executable, "-S", "-c", SENDS)
    said = {each for line in done.stdout.splitlines() for each in permutations(line.split())}
    found = {tuple(each["value"] for each in point["args"]) for point in points(into)}
    assert found <= said
    assert len({frozenset(each) for each in found}) == 2


def test_list(lbtrace: Callable[..., Any]) -> None:
    listed = lbtrace("list", "--tracepoint", "sched:sched_switch,sched:sched_process_exec").stdout
    assert "sched:sched_switch(char prev_comm[16], pid_t prev_pid, int prev_prio, long" in listed
    assert "sched:sched_process_exec(char filename[], pid_t pid" in listed
    (row,) = json.loads(lbtrace("list", "--json", "--tracepoint", "irq:softirq_entry").stdout)
    assert "NET_RX" in row["fields"][0]["constants"]


def test_errors(lbtrace: Callable[..., Any]) -> None:
    for options, said in (
        (["sched:sched_swich", "--", "true"], "nearest names: sched:sched_switch"),
        (["sched_switch", "--", "true"], "write sched:sched_switch"),
        (["sched:sched_switch"], "name what to trace: --pid, a command, --cgroup, or --all"),
        (["sched:sched_switch", "--where", "x == 1", "--", "true"], "x is not known"),
        (["tcp:tcp_probe", "--where", 'saddr == "::1"', "--", "true"], "only whole ones of IPv6"),
        (["sched:sched_switch", "--where", "retval == 1", "--", "true"], "retval"),
    ):
        done = lbtrace("attach", "--tracepoint", *options)
        assert done.returncode == 2
        assert said in done.stderr

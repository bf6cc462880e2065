"""Functions of the kernel, against what its own tracer of calls, function_graph, prints of the same
run; and beside all that the program does, on a real file system."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from lbtrace import Call, KernelError, Options, read_capture, trace
from lbtrace.system.kernel_symbols import find_traceable
from tests.kernel.test_kernel_functions import KPROBES, refuses
from tests.kernel_tracer import function_graph

WRITES = int(os.environ.get("LBTRACE_GRAPH_WRITES", "14000"))
"""By two threads, each of some seven calls."""

WORK = f"""
import os, sys, threading
def work():
    file = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
    for n in range({WRITES} // 2):
        os.pwrite(file, b"x" * 100, n % 50 * 100)
sys.stdin.readline()
threads = [threading.Thread(target=work) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

FUNCTIONS = (
    *("vfs_write", "rw_verify_area", "security_file_permission", "generic_perform_write"),
    *("file_update_time", "shmem_write_begin", "shmem_write_end"),
    *("balance_dirty_pages_ratelimited", "balance_dirty_pages_ratelimited_flags"),
)
"""Which there are, differs between kernels."""

LINE = re.compile(r" *\d+\) +.+-(\d+) +\|[^|]*\|  ( *)(?:(\w+)\(.*\)(;| \{)|(\}))(?: /\*.*)?")


Tree = dict[int, list[tuple[int, str]]]
"""How deep which function was called by each thread, one after the other."""


def printed_tree(text: str) -> tuple[Tree, int]:
    """That of the kernel's tracer, which counts depths of each thread anew here, and how many of
    its events it lost."""
    tree: Tree = {}
    depths = Counter[int]()
    lost = sum(map(int, re.findall(r"LOST (\d+) EVENTS", text)))
    for line in text.splitlines():
        if not (found := LINE.match(line)):
            assert "|" not in line or line.startswith("#"), line
            continue
        tid, name, after, closes = int(found[1]), found[3], found[4], found[5]
        if closes:
            depths[tid] -= 1
            continue
        tree.setdefault(tid, []).append((depths[tid], name))
        depths[tid] += after == " {"
    return tree, lost


def shown_tree(calls: list[Call]) -> Tree:
    tree: Tree = {}
    for call in sorted(calls, key=lambda call: (call.start, call.depth)):
        tree.setdefault(call.tid, []).append((call.depth, call.name))
    return tree


def test_function_graph() -> None:
    """The same calls, nested the same way, of two threads; none is lost, or without an end."""
    functions = [*FUNCTIONS]
    if KPROBES:
        functions = [name for name in FUNCTIONS if name in (find_traceable() or ())]
        assert len(functions) > len(FUNCTIONS) // 2
    with subprocess.Popen([sys.executable, "-c", WORK], stdin=subprocess.PIPE) as work:
        assert work.stdin is not None
        try:
            with trace(
                kernel=functions, pid=work.pid, options=Options(ring_size=64 << 20)
            ) as traced:
                with function_graph(functions, work.pid) as printed:
                    work.stdin.write(b"\n")
                    work.stdin.close()
                    calls = [*traced.calls()]
                    text = printed()
                losses = traced.losses()
        except KernelError:
            assert not KPROBES
            work.kill()
            return
    theirs, lost = printed_tree(text)
    mine = shown_tree(calls)
    assert (losses.total, lost) == (0, 0), losses
    assert {call.end for call in calls} == {"returned"}
    assert sum(map(len, theirs.values())) > WRITES * 4
    assert mine.keys() == theirs.keys()
    for tid in theirs:
        assert len(mine[tid]) == len(theirs[tid])
        assert mine[tid] == theirs[tid]
    print(f"{len(calls)} calls as function_graph prints them, {losses.in_interrupt} in interrupts")


@pytest.fixture
def on_ext4() -> Iterator[Path]:
    """A directory of a file system of a disk: what guests run is on one, mounted to be read."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    where, options = next((m[1], m[3]) for m in reversed(mounts) if m[2] == "ext4")
    read_only = options.split(",")[0] == "ro"
    if read_only:
        subprocess.run(["mount", "-o", "remount,rw", where], check=True)
    made = Path(where) / "lbtrace-test"
    made.mkdir()
    yield made
    made.rmdir()
    if read_only:
        subprocess.run(["mount", "-o", "remount,ro", where], check=True)


def around(item: Call, calls: list[Call]) -> list[str]:
    """The calls around one, or around a point, the outermost first."""
    found = [
        (call.depth, call.name)
        for call in calls
        if call.tid == item.tid
        and call.depth < item.depth
        and call.start <= item.start
        and item.start + (item.duration or 0) <= call.start + (call.duration or 0)
    ]
    assert [depth for depth, _ in sorted(found)] == [*range(item.depth)], item
    return [name for _, name in sorted(found)]


def test_all_in_one_tree(
    lbtrace: Callable[..., CompletedProcess[str]], programs: Path, on_ext4: Path, tmp_path: Path
) -> None:
    """What a program does, its markers, the system call, the kernel's function and the points of
    the disk below it, and how long it waited there."""
    into = tmp_path / "x.lbt"
    chosen = ["--func", "save", "--func", "put", "--usdt", "saving:*", "--syscall", "fsync"]
    chosen += ["--kernel", "ext4_sync_file", "--tracepoint", "block:*", "--off-cpu"]
    done = lbtrace("attach", *chosen, "-o", into, "--", programs / "save", on_ext4 / "saved")
    if refuses(done):
        return
    assert (done.returncode, done.stdout) == (0, "45\n"), done.stderr
    with read_capture(into) as capture:
        items = [*capture.calls()]
    calls = [item for item in items if item.end != "point"]
    inside: dict[str, list[list[str]]] = {}
    for item in items:
        inside.setdefault(item.name, []).append(around(item, calls))
    assert inside["ext4_sync_file"] == [["save", "put", "fsync"]] * 3
    assert inside["saving:done"] == [["save"]]
    disk = [path for name in inside if name.startswith("block:") for path in inside[name]]
    assert ["save", "put", "fsync", "ext4_sync_file"] in disk, Counter(map(tuple, disk))
    for call in calls:
        assert call.duration is not None
        assert 0 <= (call.blocked or 0) + (call.runnable or 0) <= call.duration
    waited = {name: [c.blocked or 0 for c in calls if c.name == name] for name in inside}
    pairs = zip(waited["ext4_sync_file"], waited["fsync"], strict=True)
    assert all(inner <= outer for inner, outer in pairs)
    assert max(waited["ext4_sync_file"]) > 0
    print(lbtrace("export", into).stdout)

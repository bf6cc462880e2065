"""Files that change: what is probed is what was planned, and what a process has mapped."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace as api
from lbtrace.elf.image import Image
from lbtrace.model import Target
from lbtrace.plan import Selection, make_plan
from lbtrace.session.options import Options
from lbtrace.session.session import Session

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]


def rename_over(path: Path, other: Path) -> None:
    """As make, package managers and editors replace files."""
    shutil.copy(other, beside := path.with_suffix(".new"))
    os.rename(beside, path)


def copy_into(path: Path, other: Path) -> None:
    """As cp(1) does: the same inode."""
    path.write_bytes(other.read_bytes())


def remove(path: Path, other: Path) -> None:
    path.unlink()


WAYS = (rename_over, copy_into, remove)


@pytest.fixture
def files(programs: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A program of its own, and another build of it, with other offsets."""
    shutil.copy(programs / "fib", tmp_path / "fib")
    return tmp_path / "fib", programs / "fib-static"


@pytest.mark.parametrize("way", WAYS)
def test_between_planning_and_attaching(
    files: tuple[Path, Path], mode: str, way: Callable[[Path, Path], None]
) -> None:
    path, other = files
    image = Image.open(str(path))
    plan = make_plan([image], Selection(("fib",)))
    target = Target(command=(str(path), "5"))
    session = Session(plan, target, Options(mode=mode), [image.file])  # type: ignore[arg-type]
    way_taken = []

    def change(done: int, total: int) -> None:
        if not way_taken:
            way_taken.append(way(path, other))

    session.on_attaching = change
    with pytest.raises(api.LbtraceError, match=r"replaced|overwritten|removed"), session:
        pass
    if path.exists():
        done = subprocess.run([path, "5"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "fib(5) = 5\n")


@pytest.mark.parametrize("way", WAYS)
def test_while_probes_are_attached(
    monkeypatch: pytest.MonkeyPatch,
    files: tuple[Path, Path],
    way: Callable[[Path, Path], None],
) -> None:
    """Between the first comparison and the last."""
    from lbtrace.bpf.links import Links

    path, other = files
    attach = Links.attach

    def late(*args: Any, **named: Any) -> None:
        attach(*args, **named)
        way(path, other)

    monkeypatch.setattr(Links, "attach", late)
    session = api.trace(command=[str(path), "5"], functions=["fib"])
    with pytest.raises(api.LbtraceError, match=r"replaced|overwritten|removed"), session:
        pass


def test_a_plan_of_another_file(programs: Path, files: tuple[Path, Path]) -> None:
    """Where only the path is known, the build-id decides."""
    path, other = files
    plan = make_plan(str(path), Selection(("fib",)))
    rename_over(path, other)
    with pytest.raises(api.LbtraceError, match="planned"), Session(plan, Target()):
        pass


@pytest.mark.parametrize("seed", range(6))
def test_at_random_times(start_lbtrace: Start, files: tuple[Path, Path], seed: int) -> None:
    """The program is never harmed, and what is shown is of the file that was planned."""
    path, other = files
    chance = random.Random(seed)
    tracer = start_lbtrace("attach", "--func", "fib", "--", path, 7)
    time.sleep(chance.uniform(0, 0.6))
    chance.choice((rename_over, remove))(path, other)
    status, out, error = tracer.finish()
    if status:
        assert status in (1, 126, 127), error
        assert "Traceback" not in error
        assert "fib(7)" not in out
    else:
        assert "fib(7) = 13" in out
        assert "41 calls" in error or "0 calls" in error


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (rename_over, "was replaced on disk: processes started since run another file"),
        (remove, "was removed"),
        (copy_into, "was overwritten in place: the trace ends"),
    ],
)
def test_during_the_trace(
    start_lbtrace: Start, files: tuple[Path, Path], way: Callable[[Path, Path], None], words: str
) -> None:
    path, other = files
    tracer = start_lbtrace("attach", "--func", "fib", "--binary", path)
    tracer.wait_for("Ctrl-C ends")
    subprocess.run([path, "5"], check=True, capture_output=True)
    way(path, other)
    tracer.wait_for(words)
    if way is not copy_into:
        if path.exists():
            subprocess.run([path, "5"], check=True, capture_output=True)
        tracer.process.send_signal(signal.SIGINT)
    status, _, error = tracer.finish()
    assert status == (1 if way is copy_into else 0)
    assert "15 calls" in error


@pytest.mark.parametrize("way", [rename_over, remove])
def test_a_process_whose_file_is_gone(
    start: Start,
    start_lbtrace: Start,
    lbtrace: Run,
    programs: Path,
    tmp_path: Path,
    way: Callable[[Path, Path], None],
) -> None:
    """As after an upgrade, by pid alone and by the path as well."""
    path = tmp_path / "loop"
    shutil.copy(programs / "loop", path)
    loop = start(path, 1000)
    loop.wait_for("ready", "stdout")
    way(path, programs / "fib")
    for binary in ((), ("--binary", path), ("--binary", "loop")):
        words = ("--func", "tick@loop", "--pid", loop.pid, "--max-events", 50, "--format", "jsonl")
        done = lbtrace("attach", *words, *binary)
        assert done.returncode == 0, done.stderr
        assert "as it was before it was replaced or removed" in done.stderr
        assert done.stdout.count('"tick"') >= 9


@pytest.mark.host
def test_a_library_that_was_replaced(
    start: Start,
    lbtrace: Run,
    tmp_path: Path,
    tool: Callable[[str], str],
    eventually: Callable[..., None],
) -> None:
    library, other, program = tmp_path / "libwork.so", tmp_path / "other.so", tmp_path / "work"
    (tmp_path / "work.c").write_text("int work(int n) { return n + 1; }\n")
    (tmp_path / "other.c").write_text(
        "int other(int n) { return n * n + 7; }\nint work(int n) { return other(n) + 2; }\n"
    )
    (tmp_path / "main.c").write_text(
        "#include <unistd.h>\nint work(int);\n"
        "int main(void) { for (;;) { work(1); usleep(1000); } }\n"
    )
    for source, made in (("work.c", library), ("other.c", other)):
        subprocess.run([tool("gcc"), "-shared", "-fPIC", tmp_path / source, "-o", made], check=True)
    main = [tool("gcc"), tmp_path / "main.c", library, "-Wl,-rpath,$ORIGIN", "-o", program]
    subprocess.run(main, check=True)
    worker = start(program)
    eventually(lambda: "libwork.so" in Path(f"/proc/{worker.pid}/maps").read_text())
    rename_over(library, other)
    for name in (library, "libwork.so", "libwork"):
        words = ("--func", "work", "--pid", worker.pid, "--max-events", 3)
        done = lbtrace("attach", *words, "--binary", name)
        assert done.returncode == 0, done.stderr
        assert "is traced" in done.stderr
        assert "3 calls" in done.stderr
    assert worker.process.poll() is None


def test_another_file_at_the_path_in_a_container(
    start: Start, lbtrace: Run, programs: Path, tmp_path: Path
) -> None:
    path = tmp_path / "loop"
    shutil.copy(programs / "fib", path)
    shell = f"mount --bind {programs}/loop {path} && exec {path} 1000"
    loop = start("unshare", "--mount", "--propagation", "private", "sh", "-c", shell)
    loop.wait_for("ready", "stdout")
    for binary in ((), ("--binary", path), ("--binary", "loop")):
        words = ("--func", "tick", "--pid", loop.pid, "--max-events", 50)
        done = lbtrace("attach", *words, *binary)
        assert done.returncode == 0, done.stderr
        assert re.search(r"\d\d calls in", done.stderr)  # not those before all probes stood


@pytest.mark.host
def test_chroot(start: Start, lbtrace: Run, tmp_path: Path, tool: Callable[[str], str]) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    source = Path(__file__).parents[1] / "programs/loop.c"
    words = [tool("gcc"), "-static", "-O1", "-g", source, "-o", root / "bin/loop"]
    subprocess.run(words, check=True)
    loop = start("chroot", root, "/bin/loop", 1000)
    loop.wait_for("ready", "stdout")
    for binary in ((), ("--binary", "/bin/loop"), ("--binary", "loop")):
        words = ("--func", "tick", "--pid", loop.pid, "--max-events", 50)
        done = lbtrace("attach", *words, *binary)
        assert done.returncode == 0, done.stderr
        assert re.search(r"\d\d calls in", done.stderr)  # not those before all probes stood


def test_a_program_without_a_file(start: Start, lbtrace: Run, programs: Path) -> None:
    """One in a memfd."""
    code = (
        "import os, sys; f = os.memfd_create('hidden', 0);"
        "os.write(f, open(sys.argv[1], 'rb').read()); os.execv(f'/proc/self/fd/{f}', ['loop'])"
    )
    loop = start(sys.executable, "-c", code, programs / "loop")
    loop.wait_for("ready", "stdout")
    done = lbtrace("attach", "--func", "tick", "--pid", loop.pid, "--max-events", 50)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d\d calls in", done.stderr)  # not those before all probes stood


def test_a_library_that_is_not_loaded(start: Start, start_lbtrace: Start, lbtrace: Run) -> None:
    sleeper = start("sleep", 60)
    words = ("attach", "--func", "inflate", "--pid", sleeper.pid, "--binary")
    tracer = start_lbtrace(*words, "libz.so.1")
    tracer.wait_for(f"process {sleeper.pid} has not loaded")
    tracer.wait_for("Ctrl-C ends")
    tracer.process.send_signal(signal.SIGINT)
    assert tracer.finish()[0] == 0
    done = lbtrace(*words, "libnothing.so.4")
    assert done.returncode == 1
    assert f"process {sleeper.pid} has loaded no file libnothing.so.4" in done.stderr
    done = lbtrace(*words, "libc.so.7")
    assert done.returncode == 1
    assert "libc.so.6" in done.stderr


@pytest.mark.host
def test_several_files_of_a_name(
    start: Start, lbtrace: Run, tmp_path: Path, tool: Callable[[str], str]
) -> None:
    libraries = [tmp_path / name / "libsame.so" for name in "ab"]
    (tmp_path / "same.c").write_text("int same(int n) { return n + 1; }\n")
    for library in libraries:
        library.parent.mkdir()
        words = [tool("gcc"), "-shared", "-fPIC", tmp_path / "same.c", "-o", library]
        subprocess.run(words, check=True)
    code = (
        "import ctypes, sys, time; [ctypes.CDLL(p) for p in sys.argv[1:]];"
        "print('ready', flush=True); time.sleep(60)"
    )
    python = start(sys.executable, "-c", code, *libraries)
    python.wait_for("ready", "stdout")
    words = ("attach", "--func", "same", "--pid", python.pid, "--duration", "100ms", "--binary")
    done = lbtrace(*words, "libsame.so")
    assert done.returncode == 2
    assert all(str(library) in done.stderr for library in libraries)
    assert lbtrace(*words, libraries[0]).returncode == 0


def test_processes_that_cannot_be_traced(lbtrace: Run, start: Start, programs: Path) -> None:
    def refused(pid: int, *words: str) -> None:
        for binary in ((), ("--binary", programs / "fib")):
            done = lbtrace("attach", "--func", "fib", "--pid", pid, *binary)
            assert done.returncode == 1, done.stderr
            assert len(done.stderr.splitlines()) == 2
            for word in words:
                assert word in done.stderr

    kernel = next(
        int(p.name)
        for p in Path("/proc").glob("[0-9]*")
        if p.joinpath("stat").exists()
        and int(p.joinpath("stat").read_text().rpartition(")")[2].split()[6]) & 0x200000
    )
    refused(kernel, "is a thread of the kernel")
    zombie = os.fork()
    if zombie == 0:
        os._exit(0)
    os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
    refused(zombie, "has ended")
    os.waitpid(zombie, 0)
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    refused(thread.native_id or 0, f"is a thread of process {os.getpid()}")
    waiting.set()
    with pytest.raises(api.LbtraceError, match="is lbtrace itself"):
        api.trace(pid=os.getpid(), functions=["fib"])

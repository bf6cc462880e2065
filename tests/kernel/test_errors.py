"""Bad input: one line of what is wrong, one of what to do, the right status, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lbtrace.bpf import privileges

Run = Callable[..., subprocess.CompletedProcess[str]]


def explains(done: Any, status: int, *words: str) -> None:
    """Two lines, holding ``words``."""
    assert done.returncode == status, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2, done.stderr
    assert lines[0].startswith("lbtrace: ")
    assert lines[1].startswith("  ")
    for word in words:
        assert word in done.stderr


@pytest.fixture
def attach(lbtrace: Run) -> Run:
    return lambda binary, *words, **options: lbtrace(
        "attach", "--func", "fib", "--binary", binary, *words, **options
    )


def test_file_is_missing(attach: Run, tmp_path: Path) -> None:
    explains(attach(tmp_path / "nothing"), 1, "No such file", "check the path")


def test_file_is_a_script(attach: Run, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("#!/bin/sh\nexit 0\n")
    explains(attach(path), 1, "script", "/bin/sh")


THIRTY_TWO = r"""
void _start(void)
{
    int seconds[2] = {60, 0}, result;
    if (WAITS)
        asm volatile("int $0x80" : "=a"(result) : "a"(162), "b"(seconds), "c"(0) : "memory");
    asm volatile("int $0x80" : : "a"(1), "b"(0));
}
"""
"""Waits by nanosleep, and exits: a 32-bit C library need not be there."""


@pytest.fixture
def narrow(tmp_path: Path) -> Callable[[bool], str]:
    def build(waits: bool) -> str:
        program = str(tmp_path / "narrow")
        flags = ["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", f"-DWAITS={waits:d}"]
        command = ["gcc", *flags, "-x", "c", "-", "-o", program]
        if subprocess.run(command, input=THIRTY_TWO, text=True, check=False).returncode:
            pytest.skip("no 32-bit programs can be built here")
        return program

    return build


def test_a_command_is_32_bit(lbtrace: Run, narrow: Callable[[bool], str]) -> None:
    """It may start others, into which the library is loaded."""
    program = narrow(False)
    words = ("attach", "--func", "malloc", "--binary", "libc.so.6")
    done = lbtrace(*words, "--", program)
    assert done.returncode == 0, done.stderr
    said = f"lbtrace: {program} is a 32-bit program, in which nothing is traced: "
    assert done.stderr.startswith(said)
    assert said in lbtrace("attach", "--syscall", "exit", "--", program).stderr
    started = lbtrace(*words, "--", "/bin/true")
    assert "32-bit" not in started.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--usdt"),
        ("attach", "--usdt", "x:*"),
        ("attach", "--func", "malloc", "--binary", "libc.so.6"),
    ],
)
def test_a_process_is_32_bit(
    lbtrace: Run, narrow: Callable[[bool], str], words: tuple[str, ...]
) -> None:
    with subprocess.Popen([narrow(True)]) as waiting:
        try:
            done = lbtrace(*words, "--pid", str(waiting.pid))
        finally:
            waiting.kill()
    explains(done, 1, "a 32-bit program", "only 64-bit programs can be traced")


def test_no_symbol_tables(attach: Run, programs: Path, tmp_path: Path) -> None:
    path = tmp_path / "stripped"
    subprocess.run(["strip", "-o", path, programs / "fib-static"], check=True)
    explains(attach(path), 1, "is stripped")


def test_pid_is_gone(lbtrace: Run, programs: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    explains(lbtrace("attach", "--func", "fib", "--pid", gone.pid), 1, "no process has the pid")
    done = lbtrace("attach", "--func", "fib", "--pid", gone.pid, "--binary", programs / "fib")
    explains(done, 1, "no process has the pid")


def test_nothing_to_trace(lbtrace: Run) -> None:
    explains(lbtrace("attach", "--func", "fib"), 2, "nothing to trace is named")
    done = lbtrace("attach", "--all", "--func", "malloc")
    explains(done, 2, "in every process: --binary PATH")


def test_pid_and_command(lbtrace: Run, programs: Path) -> None:
    done = lbtrace("attach", "--func", "fib", "--pid", 1, "--", programs / "fib")
    explains(done, 2, "exclude each other")


def test_a_directory_of_path_that_no_path_can_name(
    lbtrace: Run, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/{'a/' * 2500}:{programs}")
    done = lbtrace("attach", "--func", "fib", "--binary", programs / "fib", "--", "fib", 1)
    assert (done.returncode, "1 call" in done.stderr) == (0, True)


def test_output_cannot_be_created(attach: Run, programs: Path, tmp_path: Path) -> None:
    explains(attach(programs / "fib", "-o", tmp_path / "no/out.txt"), 1, "cannot be created")
    explains(attach(programs / "fib", "-o", tmp_path / "out.what"), 2, "does not give the format")
    explains(attach(programs / "fib", "--format", "what"), 2, "no format is called")


def test_not_root(programs: Path) -> None:
    """Without any capability; and with one of the two."""
    words = [sys.executable, "-m", "lbtrace", "attach", "--func", "fib", "--", programs / "fib"]
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    done = subprocess.run([*drop, *words], capture_output=True, text=True, check=False)
    explains(done, 1, "CAP_BPF and CAP_PERFMON missing", "--cap-add BPF --cap-add PERFMON")
    drop = ["setpriv", "--bounding-set=-all,+bpf", "--inh-caps=-all"]
    done = subprocess.run([*drop, *words], capture_output=True, text=True, check=False)
    explains(done, 1, "CAP_PERFMON missing")


def test_just_the_capabilities_that_are_needed(programs: Path, modes: list[str]) -> None:
    """Two, or CAP_SYS_ADMIN as well where there are only plain probes."""

    def attach(kept: str, mode: str) -> subprocess.CompletedProcess[str]:
        drop = ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all"]
        words = [sys.executable, "-m", "lbtrace", "attach", "--func", "fib", "--mode", mode, "--"]
        command = [*drop, *words, programs / "fib"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    explains(attach("+bpf,+perfmon", "plain"), 1, "CAP_SYS_ADMIN missing", "run it as root")
    for mode in modes:
        done = attach("+bpf,+perfmon" if mode != "plain" else "+sys_admin", mode)
        assert done.returncode == 0, done.stderr
        assert "9 calls" in done.stderr


def test_what_was_granted_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """sudo gives none of the capabilities of its caller to what it starts."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for lacking in (("CAP_BPF",), ("CAP_PERFMON",), ("CAP_BPF", "CAP_PERFMON")):
        reported = privileges.advice(lacking)
        assert "--inh-caps=+bpf,+perfmon --ambient-caps=+bpf,+perfmon " in reported


def test_a_user_that_lbtrace_may_not_become(programs: Path) -> None:
    words = [sys.executable, "-m", "lbtrace", "attach", "--func", "fib", "--user", "nobody", "--"]
    drop = ["setpriv", "--bounding-set=-setuid,-setgid", "--inh-caps=-all"]
    done = subprocess.run(
        [*drop, *words, programs / "fib"], capture_output=True, text=True, check=False
    )
    explains(done, 1, "only root may run it as another user", "leave --user out")


def test_markers_of_a_thread_of_the_kernel(lbtrace: Run) -> None:
    done = lbtrace("list", "--usdt", "--pid", 2)
    explains(done, 1, "is a thread of the kernel", "the pid of a program's process")


def test_without_sys(programs: Path) -> None:
    shell = (
        f"umount -l /sys && exec {sys.executable} -m lbtrace attach --func fib -- {programs}/fib"
    )
    words = ["unshare", "--mount", "sh", "-c", shell]
    explains(
        subprocess.run(words, capture_output=True, text=True, check=False),
        1,
        "/sys is not",
        "mount",
    )


def test_kernel_without_btf(programs: Path) -> None:
    shell = f"mount -t tmpfs none /sys/kernel/btf && exec {sys.executable} -m lbtrace attach"
    shell += f" --func fib -- {programs}/fib"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", shell], capture_output=True, text=True, check=False
    )
    explains(done, 1, "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF")


def test_capture_for_a_terminal(attach: Run, programs: Path) -> None:
    main, terminal = os.openpty()
    done = attach(
        programs / "fib",
        "--format",
        "lbt",
        capture_output=False,
        stdout=terminal,
        stderr=subprocess.PIPE,
    )
    os.close(main)
    os.close(terminal)
    explains(done, 2, "not for a terminal")


@pytest.mark.parametrize(
    "words", [("--where", "duration > 1us"), ("--where", "retval > 1"), ("--arg", "x=retval + 1")]
)
def test_what_no_return_shows_is_refused(
    lbtrace: Run, programs: Path, words: tuple[str, ...]
) -> None:
    done = lbtrace("attach", "--func", "fib", "--returns", "none", *words, "--", programs / "fib")
    explains(done, 2, "--returns none sees no return", "leave --returns out")


def test_a_command_that_does_not_run_what_is_traced(lbtrace: Run, programs: Path) -> None:
    words = ("--binary", programs / "fib", "--func", "fib")
    done = lbtrace("attach", *words, "--", "true")
    assert done.returncode == 0
    assert f"  nothing traced of {programs / 'fib'} was reached while" in done.stderr
    done = lbtrace("attach", *words, "--where", "n == 99", "--", programs / "fib", "3")
    assert "nothing ran" not in done.stderr
    done = lbtrace("attach", *words, "--", "sh", "-c", f"{programs / 'fib'} 3")
    assert "nothing ran" not in done.stderr


def test_probes_that_every_process_hits_need_a_target(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source whose probes cannot be attached to files or processes alone."""
    from msgspec.structs import replace

    from lbtrace.errors import UsageError
    from lbtrace.model import Target
    from lbtrace.probes import PROBES
    from lbtrace.session.prepare import prepare
    from lbtrace.session.request import Request

    program = str(programs / "fib")
    monkeypatch.setitem(PROBES, "uprobe", replace(PROBES["uprobe"], everywhere=True))
    with pytest.raises(UsageError, match="every process of the machine"):
        prepare(Request(("fib",), target=Target(), binaries=(program,)), cache=False)
    request = Request(("fib",), target=Target(command=(program, "1")))
    assert prepare(request, cache=False).plan.functions


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sh", "-c", "{}/fib 2"], "sh, a shell; to trace what it starts, add --binary {}/fib"),
        (["bash", "-c", "n=$({0}/crew); echo;{0}/fib 2"], "bash, a shell;"),
        (["bash", "-c", "n=$({0}/crew); echo;{0}/fib 2"], "add --binary {}/fib"),
        (["env", "A=1", "{}/fib", "2"], "add --binary {}/fib"),
        (["sh", "-c", "cd /; ./nothing"], "to trace what it starts, add --binary FILE"),
        (["{own}/script"], "script, a script; to trace what it starts, add --binary {}/fib"),
        (["{own}/broken"], "correct its first line"),
        (["{own}/empty"], "empty, a script; to trace what it starts, add --binary FILE"),
    ],
)
def test_a_command_that_starts_what_is_meant(
    lbtrace: Run, programs: Path, tmp_path: Path, words: list[str], expected: str
) -> None:
    for name, line in (("script", f"exec {programs}/fib $1"), ("empty", "exit")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "broken").write_text("#!/no/such/interpreter\n")
    (tmp_path / "broken").chmod(0o755)
    command = [word.format(programs, own=tmp_path) for word in words]
    done = lbtrace("attach", "--func", "fib", "--", *command)
    explains(done, done.returncode, expected.format(programs))
    assert done.returncode in (1, 2)


def test_an_empty_capture_and_several_lines(lbtrace: Run, programs: Path) -> None:
    explains(lbtrace("export", ""), 2, "CAPTURE: it is empty")
    done = lbtrace("attach", "--line", "fib.c:3,4", "--", programs / "fib", 3)
    explains(done, 2, "FILE:FIRST-LAST")


def test_what_is_very_long_is_cut(lbtrace: Run, programs: Path) -> None:
    """Its beginning and the end of the message are kept."""
    for option in ("--func", "--source", "--line"):
        done = lbtrace("attach", "--binary", programs / "fib", option, "x" * 100_000)
        explains(done, 2, "xxx … xxx")
        assert len(done.stderr) < 5000
    assert (
        f"matches no function of {programs}/fib"
        in lbtrace("attach", "--binary", programs / "fib", "--func", "x" * 100_000).stderr
    )
    where = f'n == 1 and comm == "{"x" * 100_000}"'
    done = lbtrace("attach", "--binary", programs / "fib", "--func", "fib", "--where", where)
    source, mark, *message = done.stderr.splitlines()
    assert source.startswith("  n == 1 and comm")
    assert source.endswith("xxx…")
    assert source[mark.index("^")] == '"'
    assert len(message) == 2

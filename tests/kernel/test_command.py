"""The traced command: its user, its status, its children, and traces that end before it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace as api

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]


@pytest.fixture
def daemon(programs: Path) -> Path:
    """Leaves its starter at once, and works every 100 ms, as often as asked."""
    return programs / "daemon"


@pytest.fixture
def brief(tmp_path: Path) -> Run:
    """Runs lbtrace to its end, even if processes of the command continue and hold its streams."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lbtrace", *map(str, words)]
        out, error = tmp_path / "stdout", tmp_path / "stderr"
        with out.open("w") as first, error.open("w") as second:
            done = subprocess.run(command, stdout=first, stderr=second, timeout=60, check=False)
        return subprocess.CompletedProcess(
            command, done.returncode, out.read_text(), error.read_text()
        )

    return run


def ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its new parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def named(error: str) -> list[int]:
    """The pids of those that lbtrace says to continue."""
    (line,) = [line for line in error.splitlines() if "no longer traced" in line]
    return [int(pid) for pid in re.findall(r"(\d+) \(", line)]


def test_what_lbtrace_does_before_the_command_is_none_of_its_calls(brief: Run) -> None:
    """lbtrace is a program, too, and calls the same library."""
    functions = ("execve", "malloc", "pthread_cond_signal", "read")
    words = [word for name in functions for word in ("--func", name)]
    words += ["--binary", "libc.so.6", "--returns", "none", "--format", "jsonl", "-o", "-"]
    done = brief("attach", *words, "--quiet", "--", "sh", "-c", ":")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["name"] for each in records if each["type"] == "thread"} == {"sh"}
    assert {each["name"] for each in records if each["type"] == "call"} == {"malloc"}


def test_the_status_is_known_though_ends_of_children_are_ignored(programs: Path) -> None:
    words = [sys.executable, "-m", "lbtrace", "attach", "--func", "tick", "--quiet", "--binary"]
    done = subprocess.run(
        [*words, programs / "loop", "--", "sh", "-c", "exit 7"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert done.returncode == 7, done.stderr


def test_the_environment_is_that_of_lbtrace(programs: Path) -> None:
    """Python adds a variable in the C locale."""
    words = [sys.executable, "-m", "lbtrace", "attach", "--func", "tick", "--quiet", "--binary"]
    for given in ({}, {"LC_CTYPE": "C.UTF-8"}):
        variables = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        command = [*words, programs / "loop", "--", "env"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env=variables | given
        )
        assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == variables | given


def test_what_still_runs_is_named(brief: Run, daemon: Path) -> None:
    done = brief("attach", "--func", "work", "--", daemon, 300)
    assert done.returncode == 0, done.stderr
    (pid,) = named(done.stderr)
    assert f"{pid} (daemon)" in done.stderr
    (way,) = [line for line in done.stderr.splitlines() if "to continue:" in line]
    assert f"lbtrace attach --pid {pid} --follow --func work" in way
    again = brief(*way.split("lbtrace ")[1].split(), "--duration", "300ms")
    assert again.returncode == 0, again.stderr
    assert "work(" in again.stdout
    os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize(
    ("program", "words", "shown"),
    [
        ("markers-O0", "--usdt shop:sale --where arg0>1 --arg k=arg0", "shop:sale k="),
        ("loop", "--line loop.c:35 --arg k=n", "loop.c:35 k="),
        ("loop", "--source loop.c --args none", "tick() = "),
    ],
)
def test_what_is_said_to_continue_shows_the_same(
    brief: Run, programs: Path, program: str, words: str, shown: str
) -> None:
    command = (programs / program, 20000, 20000)
    done = brief("attach", *words.split(), "--duration", "300ms", "--", *command)
    assert shown in done.stdout, done.stderr
    (pid,) = named(done.stderr)
    (way,) = [line for line in done.stderr.splitlines() if "to continue:" in line]
    again = brief(*shlex.split(way.split("lbtrace ")[1]), "--duration", "300ms")
    os.kill(pid, signal.SIGTERM)
    assert again.returncode == 0, again.stderr
    assert shown in again.stdout


def test_until_the_last_has_ended(lbtrace: Run, daemon: Path) -> None:
    words = ("attach", "--func", "work", "--binary", daemon, "--until-last", "--")
    done = lbtrace(*words, "sh", "-c", f"{daemon} 3; {daemon} 5; exit 3")
    assert done.returncode == 3, done.stderr
    assert "8 calls in 2 threads of 2 processes, nothing lost" in done.stderr
    assert "no longer traced" not in done.stderr


def test_until_the_last_inside_a_container(daemon: Path) -> None:
    """Where lbtrace has a pid namespace of its own, and numbers differ from the kernel's."""
    words = [sys.executable, "-m", "lbtrace", "attach", "--func", "work", "--until-last"]
    new = ["unshare", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run(
        [*new, *words, "--", daemon, "4"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "4 calls" in done.stderr


def test_until_the_last_of_a_running_process(
    start: Start, start_lbtrace: Start, daemon: Path
) -> None:
    shell = start("sh", "-c", f"read go; {daemon} 4; {daemon} 6", stdin=-1)
    words = ("--pid", shell.pid, "--follow", "--until-last", "--binary", daemon)
    tracer = start_lbtrace("attach", "--func", "work", *words)
    tracer.wait_for("Ctrl-C ends")
    shell.process.communicate("go\n")
    status, _, error = tracer.finish()
    assert status == 0, error
    assert "10 calls in 2 threads of 2 processes" in error


@pytest.mark.parametrize("bound", [("--duration", "300ms"), ("--max-events", "20")])
def test_the_trace_ends_before_the_command(
    brief: Run, programs: Path, bound: tuple[str, str]
) -> None:
    begun = time.monotonic()
    words = ("attach", "--func", "tick", *bound, "-o", "/dev/null", "--", programs / "loop")
    done = brief(*words)
    assert time.monotonic() - begun < 30
    assert done.returncode == 0, done.stderr
    (pid,) = named(done.stderr)
    assert not ended(pid)
    os.kill(pid, signal.SIGTERM)


def test_the_command_is_ended_with_the_trace(brief: Run, programs: Path) -> None:
    words = ("attach", "--func", "tick", "--duration", "300ms", "--kill", "-o", "/dev/null", "--")
    done = brief(*words, programs / "loop")
    assert done.returncode == 0, done.stderr
    assert "no longer traced" not in done.stderr
    assert "ticks" in done.stdout  # it was asked, and said good-bye
    shell = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    done = brief(*words[:2], "fib", "--binary", programs / "fib", *words[3:], "sh", "-c", shell)
    assert done.returncode == 0, done.stderr
    assert ended(int(done.stdout))


def test_children_are_ended_with_the_trace(brief: Run, daemon: Path, tmp_path: Path) -> None:
    shell = f"{daemon} 1000; sleep 1000 & echo $!; exit 4"
    words = ("attach", "--func", "work", "--binary", daemon, "--kill", "--", "sh", "-c", shell)
    done = brief(*words)
    assert done.returncode == 4, done.stderr
    assert ended(int(done.stdout))
    assert subprocess.run(["pgrep", "-f", f"{daemon} 1000"], check=False).returncode


def test_children_of_those_that_are_ended_end_too(brief: Run, programs: Path) -> None:
    """A process that is asked to end may fork before it does."""
    shell = (
        "trap 'sleep 77.7 & echo $!; exit' TERM; (trap '' TERM; sleep 0.2) & while :; do :; done"
    )
    words = ("attach", "--func", "fib", "--binary", programs / "fib", "--kill", "-o", "/dev/null")
    done = brief(*words, "--duration", "300ms", "--", "sh", "-c", shell)
    assert done.returncode == 0, done.stderr
    assert ended(int(done.stdout))


def test_status_of_what_cannot_be_started(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    """As env(1) has it."""
    plain, script, broken, loop = (tmp_path / n for n in ("plain", "script", "broken", "loop"))
    plain.write_text("echo hello\n")
    script.write_text("echo hello $1\n")
    broken.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    broken.chmod(0o755)
    loop.symlink_to(loop)
    commands = ["no-such-command", tmp_path / "nothing", tmp_path, plain, broken, script, ""]
    commands += [loop, tmp_path / ("a" * 300)]
    for command in commands:
        for binary in ((), ("--binary", programs / "fib")):
            if not binary and command in (script, broken):
                continue  # no program to trace
            done = lbtrace("attach", "--func", "fib", *binary, "--quiet", "--", command, "you")
            truth = subprocess.run(
                ["env", command, "you"], capture_output=True, text=True, check=False
            )
            assert done.returncode == truth.returncode, (command, done.stderr)
            if not truth.returncode:
                assert "hello you" in done.stdout
            else:
                assert len(done.stderr.splitlines()) == 2
                assert "cannot run" in done.stderr or not binary
    found = lbtrace(
        *("attach", "--func", "fib", "--binary", programs / "fib", "--", "mine"),
        env=os.environ | {"PATH": f"{tmp_path}/void:{tmp_path}"},
    )
    assert found.returncode == 127


def identity(text: str) -> list[str]:
    return [
        line for line in text.splitlines() if re.match(r"uid=|(HOME|USER|LOGNAME|SHELL)=", line)
    ]


WHO = ("sh", "-c", "id; env | grep -E '^(HOME|USER|LOGNAME|SHELL|SUDO_[A-Z]*)=' | sort")


def test_user(lbtrace: Run, programs: Path) -> None:
    words = ("attach", "--func", "fib", "--binary", programs / "fib")
    done = lbtrace(*words, "--user", "nobody", "--", *WHO)
    assert done.returncode == 0, done.stderr
    truth = subprocess.run(
        ["setpriv", "--reuid=nobody", "--regid=nogroup", "--init-groups", "--reset-env", *WHO],
        capture_output=True,
        text=True,
        check=True,
    )
    assert identity(done.stdout) == identity(truth.stdout)
    assert "runs sh as" not in done.stderr
    # The caller of sudo, and no other user.
    caller = os.environ | {"SUDO_USER": "nobody", "SUDO_UID": "65534", "SUDO_GID": "65534"}
    by_default = lbtrace(*words, "--", *WHO, env=caller)
    assert by_default.stdout == done.stdout
    assert "runs sh as nobody, who called sudo" in by_default.stderr
    as_root = lbtrace(*words, "--user", "root", "--", *WHO, env=caller)
    assert "uid=0(root)" in as_root.stdout
    assert "uid=0(root)" in lbtrace(*words, "--", *WHO).stdout
    unknown = lbtrace(*words, "--user", "nobdy", "--", *WHO)
    assert unknown.returncode == 2
    assert "no user is called 'nobdy'" in unknown.stderr
    assert lbtrace(*words, "--user", "nobody").returncode == 2


def test_calls_of_another_user(public_fib: Path, tmp_path: Path) -> None:
    """From Python, of a program that only this user may execute."""
    code = (
        f"import lbtrace\nwith lbtrace.trace(command=['{public_fib}', '5'], functions=['fib'],"
        " user='nobody') as session:\n    assert len(list(session.calls())) == 15\n"
        "    assert session.wait() == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    closed = tmp_path / "closed"
    closed.write_bytes(public_fib.read_bytes())
    closed.chmod(0o700)
    with (
        pytest.raises(api.LbtraceError, match="as nobody: Permission denied"),
        api.trace(command=[str(closed)], functions=["fib"], user="nobody") as session,
    ):
        list(session.calls())


@pytest.mark.parametrize("seed", range(2))
def test_interrupted_at_any_moment(start: Start, programs: Path, seed: int) -> None:
    """No traceback, no probe, no process is left."""
    chance = random.Random(seed)
    for number in (signal.SIGINT, signal.SIGTERM):
        for _ in range(3):
            words = ("attach", "--func", "tick", "--", programs / "loop", 1000)
            tracer = start(sys.executable, "-m", "lbtrace", *words)
            time.sleep(0.03 + chance.expovariate(6))
            tracer.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                tracer.process.wait(5)
            repeated = tracer.process.poll() is None
            tracer.process.send_signal(number)
            status, _, error = tracer.finish(timeout=60)
            # Python may ignore one that comes while it starts, and says so.
            assert not repeated or "Exception ignored" in error, error
            # Before the first line of lbtrace is run, Python speaks for itself.
            if re.search(r"<frozen |site\.py|Fatal Python error: init_", error):
                assert "/lbtrace/" not in error, error
                continue
            assert "Traceback" not in error
            assert status in (-number, 128 + number, 7), error
    time.sleep(0.1)
    assert not subprocess.run(["pgrep", "-P", str(os.getpid()), "loop"], check=False).stdout


def test_signals_while_the_command_ends(start_lbtrace: Start, daemon: Path) -> None:
    """A second one may come between the end of the command and the note of it."""
    for delay in (0.2, 0.25, 0.3, 0.35):
        words = ("--func", "work", "--duration", "500ms", "-o", "/dev/null")
        tracer = start_lbtrace("attach", *words, "--", daemon, 0)
        time.sleep(delay)
        for _ in range(20):
            tracer.process.send_signal(signal.SIGTERM)
            time.sleep(0.005)
            if tracer.process.poll() is not None:
                break
        status, _, error = tracer.finish(timeout=60)
        assert "Traceback" not in error
        assert status in (0, -signal.SIGTERM, 128 + signal.SIGTERM), error


def test_a_target_that_dies_while_it_is_attached_to(
    start: Start, programs: Path, mode: str
) -> None:
    loop = start(programs / "loop", 1000)
    loop.wait_for("ready", "stdout")
    from lbtrace.session.options import Options

    trace = api.trace(pid=loop.pid, functions=["tick"], options=Options(mode=mode))  # type: ignore[arg-type]

    def end(done: int, total: int) -> None:
        loop.process.kill()
        loop.process.wait()

    trace._session.on_attaching = end
    with pytest.raises(api.LbtraceError, match=r"ended while lbtrace attached"), trace:
        pass


def test_a_process_that_executes_something_else(
    start: Start, start_lbtrace: Start, programs: Path
) -> None:
    shell = start("bash", "-c", f"read go; exec {programs}/loop 1000", stdin=-1)
    tracer = start_lbtrace("attach", "--pid", shell.pid, "--func", "main")
    tracer.wait_for("Ctrl-C ends")
    shell.process.stdin.write("go\n")
    shell.process.stdin.flush()
    tracer.wait_for(f"process {shell.pid} runs {programs}/loop, whose functions are not traced")
    tracer.process.send_signal(signal.SIGINT)
    assert tracer.finish()[0] == 0


@pytest.mark.parametrize("limit", ["-v 200000", "-v 400000", "-n 8", "-n 12", "-n 20", "-u 1"])
def test_limits_of_the_shell(programs: Path, limit: str) -> None:
    """Too little memory, too few files: one line of what is wrong, one of what to do."""
    shell = (
        f"ulimit {limit} && exec {sys.executable} -m lbtrace attach --func fib -- {programs}/fib"
    )
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 2, done.stderr


def test_terminal_going_is_ignored_under_nohup(start_lbtrace: Start, programs: Path) -> None:
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    words = ("--func", "tick", "--duration", "1s", "--kill", "-o", "/dev/null")
    tracer = start_lbtrace("attach", *words, "--", programs / "loop", preexec_fn=ignore)
    tracer.wait_for("ready", "stdout")
    tracer.process.send_signal(signal.SIGHUP)
    status, out, error = tracer.finish()
    assert status == 0, error
    assert json.dumps(out).count("ticks") == 1


def test_signals_are_ignored_as_without_lbtrace(
    lbtrace: Callable[..., Any], programs: Path
) -> None:
    """What runs in the background of a shell ignores Ctrl-C, and looks whether it does."""
    kept = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ}
    numbers = random.sample([n for n in signal.valid_signals() if n not in kept], 20)
    numbers += [signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGBUS]

    def begin() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    shown = ("grep", "Sig[BI]", "/proc/self/status")
    alone = subprocess.run(shown, preexec_fn=begin, capture_output=True, text=True, check=True)
    words = ("--func", "fib", "--quiet", "-o", "/dev/null", "--binary", programs / "fib")
    traced = lbtrace("attach", *words, "--", *shown, preexec_fn=begin)
    assert traced.stdout == alone.stdout


def test_only_lbtrace_gets_a_processor_before_others(
    start_lbtrace: Callable[..., Any], programs: Path
) -> None:
    """The command keeps its niceness; lbtrace, as any user, one that was chosen for it."""
    for chosen, expected in ((0, -10), (5, 5)):
        words = ("attach", "--func", "tick", "--", programs / "loop", 500)
        traced = start_lbtrace(*words, preexec_fn=lambda chosen=chosen: os.nice(chosen))
        traced.wait_for("ready", "stdout")
        children = Path(f"/proc/{traced.pid}/task/{traced.pid}/children").read_text().split()
        assert [os.getpriority(os.PRIO_PROCESS, int(child)) for child in children] == [chosen]
        end = time.monotonic() + 20
        while os.getpriority(os.PRIO_PROCESS, traced.pid) != expected:
            assert time.monotonic() < end
            time.sleep(0.05)
        traced.process.terminate()
        traced.finish()

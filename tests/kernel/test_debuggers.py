"""No probe is placed where a debugger of the process has a breakpoint, or may have one."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="for x86-64"),
]

SOURCE = """
#include <unistd.h>
__attribute__((noipa)) int rare(int d) { return d * 3; }
__attribute__((noipa)) int work(int d) { return d + 1; }
int main(int count, char **words) {
    for (int d = 0; getppid() != 1; d++) {
        work(d);
        if (!access(words[1], F_OK)) rare(d);
        usleep(2000);
    }
}
"""

LEFT_OUT = "rare: left out because the debugger that traces the process may have a breakpoint there"


class Debugger:
    """gdb with a program that runs."""

    def __init__(self, gdb: str, program: Path, word: Path) -> None:
        command = [gdb, "-q", "-nx", "--args", program, word]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )

    def say(self, *lines: str) -> None:
        """Give it commands."""
        assert self.process.stdin is not None
        for line in lines:
            print(line, file=self.process.stdin, flush=True)

    def wait_for(self, text: str) -> str:
        """The next line with ``text``."""
        assert self.process.stdout is not None
        return next(line for line in self.process.stdout if text in line)

    def pid(self, program: Path) -> int:
        """The process of the program."""
        own = self.process.pid
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for task in Path(f"/proc/{own}/task").iterdir():
                for child in (task / "children").read_text().split():
                    with suppress(OSError):  # gdb starts others that soon end
                        if os.readlink(f"/proc/{child}/exe") == str(program.resolve()):
                            return int(child)
            time.sleep(0.05)
        raise AssertionError("it does not run")


@pytest.fixture
def program(tmp_path: Path, compiled: Callable[..., Path]) -> Path:
    return compiled("debugged", ["gcc", "-g", "-O1"], SOURCE)


@pytest.fixture
def debugger(tool: Callable[[str], str], program: Path, tmp_path: Path) -> Iterator[Debugger]:
    made = Debugger(tool("gdb"), program, tmp_path / "go")
    made.say("set pagination off", "set confirm off", "set disable-randomization off")
    yield made
    made.process.kill()
    made.process.communicate()


def test_a_debugger_and_a_trace_of_the_same_function(
    lbtrace: Callable[..., Any],
    start_lbtrace: Callable[..., Any],
    debugger: Debugger,
    program: Path,
    tmp_path: Path,
) -> None:
    debugger.say("break rare", "run")
    pid = debugger.pid(program)
    time.sleep(1)  # until it is in main
    both = ("attach", "--func", "rare", "--func", "work", "--pid", pid)

    tracer = start_lbtrace(*both, stdin=subprocess.DEVNULL)  # it runs, with the breakpoint
    tracer.wait_for(LEFT_OUT)
    tracer.wait_for("tracing 1 function")
    (tmp_path / "go").touch()
    debugger.wait_for("Breakpoint 1, rare")
    tracer.process.send_signal(signal.SIGINT)
    status, out, error = tracer.finish()
    assert status == 0, error
    assert "work(" in out

    tracer = start_lbtrace(*both, stdin=subprocess.DEVNULL)  # it has stopped at the breakpoint
    tracer.wait_for(LEFT_OUT)
    tracer.wait_for("tracing 1 function")
    debugger.say("stepi", "info registers rip")
    assert "<rare>" not in debugger.wait_for("rip  ")
    debugger.say("continue")
    debugger.wait_for("Breakpoint 1, rare")
    tracer.process.send_signal(signal.SIGINT)
    status, out, error = tracer.finish()
    assert status == 0, error
    assert "work(" in out

    alone = lbtrace("attach", "--func", "rare", "--pid", pid)
    assert alone.returncode == 1
    assert LEFT_OUT in alone.stderr
    assert "detach the debugger" in alone.stderr.splitlines()[-1]
    address = next(
        line.split()[0]
        for line in subprocess.check_output(["nm", program], text=True).splitlines()
        if line.endswith(" rare")
    )
    place = lbtrace("attach", "--at", f"{program}:0x{address}", "--pid", pid)
    assert place.returncode == 1
    assert "may have a breakpoint there" in place.stderr

    debugger.say("delete", "continue")
    debugger.wait_for("Continuing")
    done = lbtrace(*both, "--duration", "1s")
    assert done.returncode == 0, done.stderr
    assert "rare(" in done.stdout
    assert "left out" not in done.stderr

"""Markers on nops of 5 bytes, in whose place Linux 6.18 puts a call that writes below the stack
pointer: programs run as untraced, and each hit is seen."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import lbtrace
from lbtrace.targets import long_nops
from tests.red_zone_programs import source

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="only there nops are replaced"),
]

FUNCTIONS = 60


def output(program: Path) -> str:
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.parametrize("command", ["gcc -O0", "gcc -O2", "clang -O1", "clang -O3"])
def test_programs_run_as_untraced(
    compiled: Callable[..., Path], capfd: pytest.CaptureFixture[str], command: str, mode: str
) -> None:
    program = compiled("zones", [*command.split(), "-w"], source(FUNCTIONS))
    expected = output(program)
    options = lbtrace.Options(mode=mode)
    with lbtrace.trace(command=[str(program)], usdt="zone:*", options=options) as session:
        seen = Counter(call.name for call in session.calls())
        assert not session.losses().total
    assert capfd.readouterr().out == expected
    shown = {function.name for function in session.plan.functions}
    passed = {line.split()[0]: int(line.split()[2]) for line in expected.splitlines()}
    assert seen == {name: passed[name.partition(":")[2]] for name in shown}
    assert len(shown) >= FUNCTIONS // 5
    trial = long_nops.try_nop(long_nops.REPLACED[0])
    assert trial
    assert trial.replaced == (len(shown) < FUNCTIONS)
    assert trial.replaced == any("is kept below the stack" in note for note in session.plan.notes)


def test_programs_that_fork_are_left_alone(
    compiled: Callable[..., Path], lbtrace: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """A forked process would crash in the call, on kernels that do not copy where it leads."""
    trial = long_nops.try_nop(long_nops.REPLACED[0])
    text = source(1).replace("int only", "int fork(void); if (count > 9) fork();\n    int only")
    program = compiled("forks", ["gcc", "-w"], text)
    done = lbtrace("attach", "--usdt", "zone:f0", "--", program)
    assert trial
    if trial.replaced and not trial.forks:
        assert done.returncode == 1
        assert "zone:f0: no probe can be there: the kernel would put a call in its place: a" in (
            done.stderr
        )
    else:
        assert done.returncode == 0, done.stderr

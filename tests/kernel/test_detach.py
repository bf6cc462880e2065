"""Attaching and detaching where it takes long: it is announced, shown, and can be broken off."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LBTRACE = (sys.executable, "-m", "lbtrace")

PROBES = re.compile(r"detaching may take about (\d+) s")


AT_ONCE = """
import sys
from lbtrace.commands import main, progress
progress.PATIENCE = 0
sys.exit(main())
"""
"""lbtrace, which shows its progress also on machines that are quick."""


def test_many_plain_probes(start: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    tracer = start(
        *(
            sys.executable,
            "-c",
            AT_ONCE,
            "attach",
            "--mode",
            "plain",
            "--func",
            "/^many_\\d\\d?$/",
            "--format",
            "jsonl",
        ),
        *("-o", output, "--", many),
    )
    announced = PROBES.search(tracer.wait_for("detaching may take"))
    assert announced
    assert int(announced[1]) >= 10
    tracer.wait_for("Ctrl-C leaves the rest to the kernel")
    tracer.process.send_signal(signal.SIGINT)
    status, _, error = tracer.finish(timeout=60)
    assert status == 0
    assert "34 calls" in error
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [r["name"] for r in records if r["type"] == "call"] == [
        f"many_{n}" for n in range(0, 100, 3)
    ]
    assert records[-1]["type"] == "summary"


INTERRUPTED = """
import os, signal, sys
from lbtrace.commands import main, progress
show, progress.PATIENCE = progress.Steps.show, 0
def interrupted(self, done, total):
    show(self, done, total)
    if done == 50:
        os.kill(os.getpid(), signal.SIGINT)
progress.Steps.show = interrupted
sys.exit(main())
"""
"""lbtrace, interrupted at the same step on machines of any speed."""


def test_interrupted_while_attaching(start: Callable[..., Any], many: Path) -> None:
    words = ("attach", "--mode", "plain", "--func", "/^many_\\d\\d?$/", "--", many)
    tracer = start(sys.executable, "-c", INTERRUPTED, *words)
    status, out, error = tracer.finish(timeout=60)
    assert (status, out) == (130, "")
    assert "detaching may take" in error
    assert "attaching: 0 of 200 steps; Ctrl-C gives up" in error
    status, *_ = start(many).finish(timeout=60)
    assert status == 0


@pytest.mark.host
def test_too_few_open_files(many: Path) -> None:
    """That is said before the first probe, not after minutes of attaching."""
    done = subprocess.run(
        ["setpriv", "--bounding-set=-sys_resource", *LBTRACE, "attach", "--mode", "plain"]
        + ["--func", "many_??", "--", many],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"lbtrace: so many probes take 4\d\d open files, and this process may have 256\n"
        r"  choose fewer functions, or raise the limit: ulimit -n 4\d\d\n",
        done.stderr,
    )

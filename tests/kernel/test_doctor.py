"""What ``lbtrace doctor`` says where things are missing, and that attach finds it so."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LBTRACE = f"{sys.executable} -m lbtrace"
OTHER_USER = [
    # The interpreter may lie where only root may look.
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
]


def run(command: list[str], words: str) -> subprocess.CompletedProcess[str]:
    shell = [*command, "sh", "-c", f"{words}"]
    return subprocess.run(shell, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "before", "lines"),
    [
        (
            ["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
            "",
            ["privileges   missing  CAP_BPF and CAP_PERFMON: this root is confined", "--cap-add"],
        ),
        (
            OTHER_USER,
            "",
            ["CAP_BPF and CAP_PERFMON: run it as root, or: setcap cap_bpf,cap_perfmon+ep /"],
        ),
        (["unshare", "--user", "--map-root-user"], "", ["outside this user namespace"]),
        (
            ["unshare", "--mount"],
            "mount -t tmpfs none /sys/kernel/btf;",
            ["btf          missing", "CONFIG_DEBUG_INFO_BTF=y; in a container, mount /sys"],
        ),
    ],
    ids=["confined root", "other user", "user namespace", "no types"],
)
def test_what_is_missing(programs: Path, command: list[str], before: str, lines: list[str]) -> None:
    told = run(command, f"{before} {LBTRACE} doctor")
    assert (told.returncode, told.stderr) == (1, "")
    for line in (*lines, "functions cannot be traced here\n"):
        assert line in told.stdout
    attached = run(command, f"{before} {LBTRACE} attach --func fib -- {programs}/fib 1")
    assert attached.returncode == 1
    assert len(attached.stderr.splitlines()) == 2, attached.stderr


def test_processes_of_others(start: Callable[..., Any], programs: Path) -> None:
    """The two capabilities suffice for one's own programs, not to look into others'."""
    other = start("sleep", 100)
    while "libc.so.6" not in Path(f"/proc/{other.pid}/maps").read_text():
        time.sleep(0.01)
    capable = [*OTHER_USER[:4], "--inh-caps=+bpf,+perfmon,+dac_read_search"]
    capable.append("--ambient-caps=+bpf,+perfmon,+dac_read_search")
    for words in ("--func main", "--func malloc --binary libc.so.6"):
        told = run(capable, f"{LBTRACE} attach {words} --pid {other.pid} --duration 1s")
        assert told.returncode == 1
        assert len(told.stderr.splitlines()) == 2, told.stderr
        assert f"process {other.pid}" in told.stderr
        assert "run lbtrace as root or as the process's user" in told.stderr


def test_nothing_tells_of_the_kernel(programs: Path) -> None:
    for words in ("doctor", f"attach --func fib -- {programs}/fib 1"):
        told = run(["unshare", "--mount"], f"umount --lazy /proc; {LBTRACE} {words}")
        assert told.returncode == 1
        assert told.stderr.splitlines()[1] == "  mount /proc and /sys"
        assert len(told.stderr.splitlines()) == 2, told.stderr


def test_what_is_there(programs: Path) -> None:
    told = run([], f"{LBTRACE} doctor")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.endswith("functions can be traced here\n")
    checks = json.loads(run([], f"{LBTRACE} doctor --json").stdout)
    for check in checks:
        line = f"{check['name']:<12} {check['state']:<8} {check['text']}\n"
        assert line in told.stdout
        assert check["state"] in ("ok", "absent", "warning")
        assert check["state"] != "absent" or "): " in check["text"]
    assert run([], f"{LBTRACE} attach --func fib -- {programs}/fib 1").returncode == 0

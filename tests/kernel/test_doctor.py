"""What ``lbtrace doctor`` says where things are missing, and that attach finds it so."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Lbtrace = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).resolve().parents[2]
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
            [
                "CAP_BPF and CAP_PERFMON: run it as root, or for one run: sudo setpriv",
                "--inh-caps=+bpf,+perfmon --ambient-caps=+bpf,+perfmon /",
            ],
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
def test_what_is_missing(
    public_fib: Path, command: list[str], before: str, lines: list[str]
) -> None:
    reported = run(command, f"{before} {LBTRACE} doctor")
    assert (reported.returncode, reported.stderr) == (1, "")
    for line in (*lines, "functions cannot be traced here\n"):
        assert line in reported.stdout
    for words in ("--func fib", "--kernel vfs_read"):
        attached = run(command, f"{before} {LBTRACE} attach {words} -- {public_fib} 1")
        assert attached.returncode == 1
        assert len(attached.stderr.splitlines()) == 2, attached.stderr
        assert before or "CAP_BPF and CAP_PERFMON missing" in attached.stderr


def test_processes_of_others(start: Callable[..., Any], programs: Path) -> None:
    """The two capabilities suffice for one's own programs, not to look into others'."""
    other = start("sleep", 100)
    while "libc.so.6" not in Path(f"/proc/{other.pid}/maps").read_text():
        time.sleep(0.01)
    capable = [*OTHER_USER[:4], "--inh-caps=+bpf,+perfmon,+dac_read_search"]
    capable.append("--ambient-caps=+bpf,+perfmon,+dac_read_search")
    for words in ("--func main", "--func malloc --binary libc.so.6"):
        reported = run(capable, f"{LBTRACE} attach {words} --pid {other.pid} --duration 1s")
        assert reported.returncode == 1
        assert len(reported.stderr.splitlines()) == 2, reported.stderr
        assert f"process {other.pid}" in reported.stderr
        assert "run lbtrace as root or as the process's user" in reported.stderr


def test_nothing_is_known_of_the_kernel(programs: Path) -> None:
    for words in ("doctor", f"attach --func fib -- {programs}/fib 1"):
        reported = run(["unshare", "--mount"], f"umount --lazy /proc; {LBTRACE} {words}")
        assert reported.returncode == 1
        assert reported.stderr.splitlines()[1] == "  mount /proc and /sys"
        assert len(reported.stderr.splitlines()) == 2, reported.stderr


def test_what_is_there(programs: Path) -> None:
    reported = run([], f"{LBTRACE} doctor")
    assert (reported.returncode, reported.stderr) == (0, "")
    assert reported.stdout.endswith("functions can be traced here\n")
    checks = json.loads(run([], f"{LBTRACE} doctor --json").stdout)
    for check in checks:
        line = f"{check['name']:<12} {check['state']:<8} {check['text']}\n"
        assert line in reported.stdout
        assert check["state"] in ("ok", "absent", "warning")
        assert check["state"] != "absent" or "): " in check["text"]
    assert run([], f"{LBTRACE} attach --func fib -- {programs}/fib 1").returncode == 0


CAPABILITIES = """
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) int show(void)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof(line), status))
        if (!strncmp(line, "CapEff", 6) || !strncmp(line, "CapAmb", 6))
            fputs(line, stdout);
    return 0;
}
int main(void) { return show(); }
"""


@pytest.fixture
def everyone() -> Iterator[Path]:
    """A directory that every user may enter."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.host
def test_the_advice_is_good(compiled: Callable[..., Path], everyone: Path) -> None:
    """With the capabilities advised lbtrace traces, where the kernel has multi; the traced
    command does not have them."""
    from lbtrace.bpf import features

    made = compiled("capabilities", ["gcc", "-O1"], CAPABILITIES)
    program = shutil.copy(made, everyone)
    granted = "+bpf,+perfmon" if features.probe().multi else "+bpf,+perfmon,+sys_admin"
    granted += ",+dac_read_search"  # as in OTHER_USER
    given = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    given += [f"--inh-caps={granted}", f"--ambient-caps={granted}"]
    command = f"attach --func show --args 1 --format racket -- {program}"
    traced = run(given, f"{LBTRACE} {command}")
    assert traced.returncode == 0, traced.stderr
    assert ">(show 1)" in traced.stdout
    assert "CapEff:\t0000000000000000" in traced.stdout
    assert "CapAmb:\t0000000000000000" in traced.stdout


@pytest.mark.host
def test_a_binary_is_examined(lbtrace: Lbtrace, tmp_path: Path, tool: Callable[[str], str]) -> None:
    """What speaks against uretprobes comes with names and files."""
    gxx, sources = tool("g++"), ROOT / "tests/programs/hazards"
    library, program = tmp_path / "libmodule.so", tmp_path / "program"
    shared = ["-O1", "-fno-plt", "-shared", "-fPIC", sources / "throws.cc", "-o", library]
    subprocess.run([gxx, *shared], check=True)
    linked = [sources / "main.c", "-O1", "-o", program, f"-L{tmp_path}", "-lmodule"]
    subprocess.run([tool("gcc"), *linked, "-Wl,-rpath,$ORIGIN"], check=True)
    reported = lbtrace("doctor", "--binary", program)
    assert reported.returncode == 0
    assert "returns      ok       seen at the exits of functions" in reported.stdout
    checks = json.loads(lbtrace("doctor", "--binary", program, "--json").stdout)
    (objection,) = [check for check in checks if check["name"] == "uretprobe"]
    assert objection["state"] == "warning"
    thrown = f"exceptions follow return addresses ({library} has "
    assert objection["text"].startswith(thrown)
    library.unlink()
    reported = lbtrace("doctor", "--binary", program)
    assert "maps         missing  libmodule.so is not found" in reported.stdout
    assert "nothing known speaks against --returns uretprobe" in reported.stdout
    refused = lbtrace("doctor", "--binary", tmp_path / "none")
    assert refused.returncode == 1
    assert "No such file" in refused.stderr

"""What /proc says of processes whose names are chosen to be read as something else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from lbtrace.system.procfs import read_lines

ENDS = "\r\v\f\x1c\x85\u2028"
"""What `str.splitlines` takes for ends of lines, but /proc does not."""


@contextmanager
def named(name: str) -> Iterator[int]:
    """A process that has called itself ``name``."""
    script = 'printf %s "$0" > /proc/self/comm; echo; read _'
    command = ["bash", "-c", script, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def test_a_name_is_one_line() -> None:
    for end in ENDS:
        name = f"a{end}Tgid:\t1"
        with named(name) as pid:
            lines = read_lines(f"/proc/{pid}/status")
        assert lines[0] == f"Name:\t{name}"
        assert [line for line in lines if line.startswith("Tgid:")] == [f"Tgid:\t{pid}"]
        assert "" not in lines

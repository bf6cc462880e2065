"""The first example of the README, with the installed command, as `make demo` shows it."""

from __future__ import annotations

import os
import re
import subprocess

COLUMNS = re.compile(r"^ *([\d.]+ (ns|µs|ms|s))? +\d+  ")
"""Durations and threads differ from run to run."""

TREE = """\
── fib
fib(n=4)
│ fib(n=3)
│ │ fib(n=2)
│ │ │ fib(n=1) = 1
│ │ │ fib(n=0) = 0
│ │ └ fib = 1
│ │ fib(n=1) = 1
│ └ fib = 2
│ fib(n=2)
│ │ fib(n=1) = 1
│ │ fib(n=0) = 0
│ └ fib = 1
└ fib = 3
"""


def test_fib_of_4() -> None:
    done = subprocess.run(
        ["lbtrace", "attach", "--func", "fib", "--", "./fib", "4"],
        cwd=os.environ["LBTRACE_PROGRAMS"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reported, heading, *lines = sorted(
        done.stdout.splitlines(), key=lambda s: not s.startswith("fib(")
    )
    assert reported == "fib(4) = 3"
    assert heading.split() == ["DURATION", "TID", "CALL"]
    assert "".join(COLUMNS.sub("", line) + "\n" for line in lines) == TREE
    assert done.stderr == "lbtrace: 9 calls in 1 thread of 1 process, nothing lost\n"

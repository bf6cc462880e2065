"""What a system call costs that is shown with its arguments, beside strace and bpftrace.

    PYTHONPATH=.:tests/bench python tests/bench/system_calls.py

A loop of pwrite(2), which fails: nanoseconds that a call takes more than untraced, by the clock. Of
each run the fifth part of the calls that took least, of all runs, in turns, the median. bpftrace
counts at both ends, without arguments; or at the entry by number, as `lbtrace count` does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import bpftraces
from markers import Report, print_ratio
from reported import nanoseconds

SOURCE = r"""
#define CHUNKS 100
#define CLOCK CLOCK_MONOTONIC
#include "chunks.h"
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **words)
{
	long calls = atol(words[1]);

	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		double start = now();

		for (long n = 0; n < calls; n++)
			syscall(SYS_pwrite64, -1, "some text", 9, n);
		spent[chunk] = now() - start;
	}
	report(calls);
	return 0;
}
"""
ROUNDS = 7
CALLS, CALLS_UNDER_STRACE = "1000", "50"
"""Of each hundredth part."""
COUNTING = """
tracepoint:raw_syscalls:sys_enter /pid == cpid/ { @entered = count(); }
tracepoint:raw_syscalls:sys_exit /pid == cpid/ { @left = count(); }
"""
BY_NUMBER = """
tracepoint:raw_syscalls:sys_enter /pid == cpid/ { @[args->id] = count(); }
"""


def compare(rivals: dict[str, list[object]], limits: dict[str, float], report: Report) -> None:
    """Print what a call takes more than under the first of ``rivals``, which is untraced, and the
    second's part of each other's."""
    figures: dict[str, list[float]] = {rival: [] for rival in rivals}
    for _ in range(ROUNDS):
        for rival, command in rivals.items():
            figures[rival].append(nanoseconds(*command))
    without, own, *others = (median(found) for found in figures.values())
    print(f"  lbtrace: {own - without:,.0f} ns, a call without {without:,.0f}")
    for name, cost in zip([*rivals][2:], others, strict=True):
        print(f"  {name}: {cost - without:,.0f} ns")
        report(f"lbtrace beside {name}", (own - without) / (cost - without), limits.get(name))


def main(report: Report = print_ratio) -> None:
    """Print all rows."""
    with tempfile.TemporaryDirectory() as directory:
        loop = Path(directory) / "loop"
        flags = ["-O2", "-w", f"-I{Path(__file__).parent}", "-x", "c", "-", "-o"]
        subprocess.run(["gcc", *flags, loop], input=SOURCE, text=True, check=True)
        run = [sys.executable, "-m", "lbtrace"]
        attach = [*run, "attach", "--strict", "--force", "--quiet"]
        attach += ["-o", str(Path(directory) / "x.lbt")]

        def bpftrace(script: str) -> dict[str, list[object]]:
            words = ["-q", "-e", script, "-c", f"{loop} {CALLS}"]
            return {version: [path, *words] for version, path in bpftraces.find().items()}

        rivals: dict[str, list[object]] = {
            "": [loop, CALLS],
            "lbtrace": [*attach, "--syscall", "pwrite64", "--", loop, CALLS],
        }
        if strace := shutil.which("strace"):
            quiet = [strace, "-o", "/dev/null", "-e", "trace=pwrite64"]
            rivals["strace"] = [*quiet, loop, CALLS_UNDER_STRACE]
        print("a system call with its arguments, to a capture:")
        compare(rivals | bpftrace(COUNTING), {"strace": 0.1}, report)
        print("counted by its number:")
        rivals = {"": [loop, CALLS]}
        rivals["lbtrace"] = [*run, "count", "--syscall", "pwrite64", "--", loop, CALLS]
        compare(rivals | bpftrace(BY_NUMBER), {}, report)
        print("while another one is traced:")
        rivals["lbtrace"] = [*attach, "--syscall", "getppid", "--", loop, CALLS]
        compare(rivals, {}, report)


if __name__ == "__main__":
    main()

"""What `--off-cpu` costs where threads are switched.

    PYTHONPATH=.:tests/bench python tests/bench/off_cpu.py

Two threads on a processor wake each other in turns inside of a traced call: nanoseconds of
processor time that a switch takes more than without ``--off-cpu``, with each one shown and with
none. Of each run the fifth part of the switches that took least, of all runs, in turns, the median.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from markers import Report, print_ratio
from reported import nanoseconds

SOURCE = r"""
#define CHUNKS 100
#define CLOCK CLOCK_PROCESS_CPUTIME_ID
#include "chunks.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define TURNS 500

static int there[2], back[2];

__attribute__((noinline)) void *plays(void *begins)
{
	int from = begins ? back[0] : there[0], to = begins ? there[1] : back[1];
	char byte = 0;

	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		double start = now();

		for (int turn = 0; turn < TURNS; turn++) {
			if (begins)
				write(to, &byte, 1);
			read(from, &byte, 1);
			if (!begins)
				write(to, &byte, 1);
		}
		if (begins)
			spent[chunk] = now() - start;
	}
	return NULL;
}

int main(void)
{
	cpu_set_t one;
	pthread_t thread;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	pipe(there);
	pipe(back);
	pthread_create(&thread, NULL, plays, NULL);
	plays("begins");
	pthread_join(thread, NULL);
	report(2 * TURNS);
	return 0;
}
"""
ROUNDS = 5
MOST = 1000
"""Nanoseconds of a switch."""


def main(report: Report = print_ratio) -> None:
    """Print all rows."""
    print("a switch of threads with --off-cpu:")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "plays"
        flags = ["-O2", "-g", "-w", "-pthread", f"-I{Path(__file__).parent}"]
        subprocess.run(
            ["gcc", "-x", "c", "-", "-o", program, *flags], input=SOURCE, text=True, check=True
        )
        lbtrace = [sys.executable, "-m", "lbtrace", "attach", "--strict", "--force"]
        attach = [*lbtrace, "-o", Path(directory) / "x.lbt", "--ring-size", "64M"]
        rivals: dict[str, list[object]] = {
            "": [*attach, "--func", "plays", "--", program],
            "none shown": [*attach, "--func", "plays", "--off-cpu", "1s", "--", program],
            "each shown": [*attach, "--func", "plays", "--off-cpu", "1ns", "--", program],
        }
        figures: dict[str, list[float]] = {rival: [] for rival in rivals}
        for _ in range(ROUNDS):
            for rival, command in rivals.items():
                figures[rival].append(nanoseconds(*command))
        without, *others = (median(found) for found in figures.values())
        for name, cost in zip([*rivals][1:], others, strict=True):
            print(f"  {name}: {cost - without:,.0f} ns, a switch without {without:,.0f}")
            report(f"a switch, {name}, of {MOST} ns", (cost - without) / MOST, 1)


if __name__ == "__main__":
    main()

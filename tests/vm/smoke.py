"""What `make vm-smoke` runs in one guest: about one test for each mechanism of the kernel.

    python tests/vm/smoke.py tests       # for matrix.py --select
    python tests/vm/smoke.py newest      # the same for the newest kernel, which breaks other things
    python tests/vm/smoke.py programs    # for programs.py --only

The guest is emulated, where each start of lbtrace takes seconds: what does not depend on the
kernel, or is like another row, is for `make test` and `make vm-matrix`.
"""

from __future__ import annotations

import sys
from typing import NamedTuple


class Row(NamedTuple):
    """A test, why it is here, and the programs that it traces."""

    test: str
    shows: str
    programs: str


ROWS = tuple(
    Row(*cells)
    for cells in (
        (
            "guest/check_demo.py::test_fib_of_4",
            "the demo, with the command that people type",
            "fib",
        ),
        # Ways of attaching, and of seeing returns.
        (
            "tests/kernel/test_api.py::test_command[plain]",
            "uprobes with cookies: entries, and exits at emulated instructions",
            "fib",
        ),
        (
            "tests/kernel/test_within.py::test_every_way_to_see_returns[none]",
            "entries alone",
            "trace",
        ),
        (
            "tests/kernel/test_within.py::test_every_way_to_see_returns[sites]",
            "uprobes at exits",
            "trace",
        ),
        (
            "tests/kernel/test_within.py::test_every_way_to_see_returns[uretprobe]",
            "uretprobes, also where their stack of returns is the kernel's",
            "trace",
        ),
        (
            "tests/kernel/test_tail_calls.py::test_conditions_on_returns_behind_calls",
            "calls that jump away, as the kernel compares where they return to",
            "tails",
        ),
        (
            "tests/kernel/test_exact.py::test_ways_of_attaching[plain-signal]",
            "instructions that are single-stepped, and signal handlers between them",
            "exact-O2",
        ),
        (
            "tests/kernel/test_markers.py::test_points_are_what_the_program_logs[-O2-plain]",
            "markers, whose counters the kernel raises",
            "markers-O2",
        ),
        (
            "tests/kernel/test_lines.py::test_points_in_the_tree[plain]",
            "probes at lines, inside of functions",
            "trace",
        ),
        (
            "tests/kernel/test_binaries.py::test_ways_of_attaching[plain]",
            "probes in several files, in programs that execute each other",
            "relay-first relay-second",
        ),
        (
            "tests/kernel/test_files.py::test_between_planning_and_attaching[plain-rename_over]",
            "a probe is placed in the file that was planned, or nowhere",
            "fib fib-static",
        ),
        # Whom the probes hit.
        (
            "tests/kernel/test_api.py::test_pid_and_stop",
            "attaching late, to a process that runs (--pid)",
            "loop",
        ),
        (
            "tests/kernel/test_processes.py::test_all_threads_of_a_process[plain]",
            "all threads of a process, those to come as well",
            "crew",
        ),
        (
            "tests/kernel/test_processes.py::test_children_that_execute_the_binary_are_followed",
            "children of a process (--follow)",
            "loop",
        ),
        (
            "tests/kernel/test_processes.py::test_a_container_is_shown_from_outside_and_inside",
            "numbers of processes in a pid namespace",
            "loop",
        ),
        (
            "tests/kernel/test_seccomp.py::test_the_kernel_is_known_by_what_it_does",
            "whether the kernel passes the system call of uretprobes to seccomp",
            "",
        ),
        (
            "tests/kernel/test_cgroups.py::test_functions",
            "processes of a cgroup",
            "fib",
        ),
        (
            "tests/kernel/test_cgroups.py::test_system_calls[True]",
            "every process of the machine, but lbtrace",
            "",
        ),
        # Values.
        (
            "tests/kernel/test_expressions.py::test_pointers_followed",
            "strings, integers, and what pointers point to",
            "values",
        ),
        (
            "tests/kernel/test_specs.py::test_a_page_that_is_not_there_yet[x86_64-plain]",
            "memory that is not loaded yet: programs that may sleep",
            "values",
        ),
        (
            "tests/kernel/test_specs.py::test_what_a_register_held_at_entry[x86_64-plain-20-sites]",
            "what is kept from the entry to the return, with a condition",
            "values",
        ),
        (
            "tests/kernel/test_specs.py::test_conditions[x86_64-plain]",
            "conditions in the kernel",
            "values",
        ),
        (
            "tests/kernel/test_distributions.py::test_a_capture_holds_the_answer",
            "what is counted in the kernel",
            "fib",
        ),
        (
            "tests/kernel/test_arithmetic.py::test_numbers_below_0",
            "what is computed in the kernel",
            "fib",
        ),
        (
            "tests/kernel/test_kinds.py::test_cpp[g++--O0]",
            "structures, and strings and enumerations of C++",
            "kinds-g++-O0",
        ),
        (
            "tests/kernel/test_floats.py::test_recursion_is_seen_once_a_call",
            "floats, which probes see only after the stores of a function's first instructions",
            "floats-g++-O0",
        ),
        # What aggregates in the kernel, and what is lost.
        (
            "tests/kernel/test_counts.py::test_counts_are_those_of_the_program[plain-words0]",
            "counting in a map, from threads that are preempted",
            "truth",
        ),
        (
            "tests/kernel/test_counts.py::test_what_has_no_room_is_reported",
            "a map that is full",
            "truth",
        ),
        (
            "tests/kernel/test_account.py::test_a_ring_that_nobody_reads",
            "a ring that is full: each lost event is counted; every process of a file",
            "loop",
        ),
        (
            "tests/kernel/test_forks.py::test_random_forks[plain-O2]",
            "forks are reported before the child runs, with the stack that it has",
            "forks-O2",
        ),
        (
            "tests/kernel/test_within.py::test_random_graphs[plain-False]",
            "--within: the state of each stack is kept in the kernel",
            "within-O0 within-O2",
        ),
        # Captures, signals, detaching.
        (
            "tests/kernel/test_api.py::test_captures_give_the_same_calls",
            "a capture is written and read back",
            "fib",
        ),
        (
            "tests/kernel/test_ends.py::test_kill_leaves_no_probe_and_a_readable_capture[plain]",
            "the kernel detaches what a killed lbtrace has left",
            "loop",
        ),
        (
            "tests/kernel/test_markers.py"
            "::test_counters_are_lowered_when_the_tracer_is_killed[-O2-plain]",
            "the kernel lowers the counters of markers that a killed lbtrace has left",
            "markers-O2",
        ),
        (
            "tests/kernel/test_ends.py::test_signals_reach_the_command[2]",
            "Ctrl-C ends command and trace",
            "loop",
        ),
        (
            "tests/kernel/test_kernel_functions.py::test_calls_nest",
            "functions of the kernel, below those of the program and system calls",
            "save",
        ),
        (
            "tests/kernel/test_kernel_stacks.py::test_functions_of_the_kernel",
            "stacks of the kernel, and the program's below",
            "save",
        ),
        (
            "tests/kernel/test_detach.py::test_many_plain_probes",
            "detaching, which takes the kernel's grace periods; Ctrl-C leaves it to the kernel",
            "many",
        ),
    )
)
"""By mechanism; pytest joins those that share a fixture."""

NEWEST = (
    "tests/kernel/test_api.py::test_command[session]",
    "tests/kernel/test_kernel_functions.py::test_calls_nest",
    "tests/kernel/test_kernel_functions.py::test_what_another_tool_hides_is_counted",
    "tests/kernel/test_kernel_stacks.py::test_functions_of_the_kernel",
)
"""Programs of every size pass its verifier, and its root is an overlay, as a container's is."""


def programs() -> list[str]:
    """The programs that the tests trace, each once."""
    return list(dict.fromkeys(name for row in ROWS for name in row.programs.split()))


def main() -> int:
    """The command line; returns the exit status."""
    lists = {
        "tests": [row.test for row in ROWS],
        "newest": [*NEWEST],
        "programs": programs(),
    }
    if len(sys.argv) != 2 or sys.argv[1] not in lists:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    print(*lists[sys.argv[1]])
    return 0


if __name__ == "__main__":
    sys.exit(main())

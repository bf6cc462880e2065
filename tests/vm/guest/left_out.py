"""A plugin of pytest: the tests that guests leave out, as one machine that runs them is enough.

An emulated machine takes seconds for each start of Python. What says nothing
about the kernel or the processor runs where CI itself runs, with the rest.
"""

from __future__ import annotations

import os
import re

import pytest

COMMAND_LINE = (
    r"test_errors\.py::test_(file|output|no_|pid_|nothing|capture|ring|command)",
    r"test_ends\.py::test_(status|output|input|full_disk|max|reader|signals_close)",
    r"test_expressions\.py::test_(arguments|pointers)",
    r"test_arithmetic\.py::",
    r"test_api\.py::test_(?!command|pid_and_stop|leaving|values)",
    r"test_doctor\.py::test_(?!what_is_there)",
    r"test_command\.py::test_(status|user|limits|interrupted|terminal|children|the_command|signals)",
    r"test_outputs\.py::test_(?!summaries.*auto)",
    r"test_search_order\.py::",
    r"test_files\.py::test_(a_program_without|a_library_that|processes_that|a_plan)",
)
"""They are about the command line, the files it writes, what it says."""

SIMILAR = (
    r"test_exact\.py::test_builds\[(?!shapes-exact-cet|signal-exact-cet)",
    r"test_exact\.py::test_tail_calls\[exact-(?!cet)",
    r"test_exact\.py::test_ways_of_attaching\[\w+-(?!signal)",
    r"test_exact\.py::test_(exceptions|coroutines).*(?<!-cet)\]",
    r"test_exact\.py::test_coroutines\[play",
    r"test_exact\.py::test_(all_functions_of_a_program_with_coroutines|uretprobes_and)",
    r"test_exact\.py::test_ends_inside_a_call\[(?!auto-exec)",
    r"test_exact\.py::test_what_was_left_does_not_return_later\[\w+-arg0 >= 3\]",
    r"test_exact\.py::test_conditions_leave_stacks_apart\[alt",
    r"test_ends\.py::test_signals_reach_the_command\[15",
    r"test_command\.py::test_(the_trace_ends.*bound1|until_the_last_(inside|of))",
    r"test_files\.py::test_(at_random_times\[[2-9]|a_process_whose_file_is_gone\[rem)",
    r"test_processes\.py::test_(without_follow|kernels_that)",
    r"test_copies\.py::test_too_many",
    r"test_(signatures|kinds)\.py::.*-O0",
    r"test_floats\.py::test_(optimised|unoptimised\[g\+\+-cet)",
    r"test_kinds\.py::test_parameters_that_debug_information",
    r"test_expressions\.py::test_sums\[(?!length \+|str)",
    r"test_truth\.py::test_one_thread\[.*(?<!-O2)\]",
    r"test_truth\.py::test_(200_000|several\[(multi|session)-fork)",
    r"test_binaries\.py::test_(programs_that.*\[(?!second)|a_shell|a_file|a_capture|any_program|two)",
    r"test_specs\.py::test_what_a_register.*-0-",
    r"test_expressions\.py::test_filters\[\w+-(?!arg1|retval < 0-)",
    r"test_expressions\.py::test_a_filter_alone.*main",
    r"test_racket\.py::.*(fib-bare|deep-14)",
    r"test_go(_values)?\.py::.*1\.15\]",
    r"test_go\.py::test_fib.*(stripped|cgo|pie)",
    r"test_go\.py::test_(go_calls_c|c_calls_a_library|a_uretprobe)",
    r"test_go_values\.py::test_(?!random|kinds)",
    r"test_go_undeclared\.py",
)
"""Others of their kind remain."""

HEAVY = (
    r"test_account\.py::test_(?!a_ring_that)",
    r"test_ends\.py::test_nothing_is_unwound",
    r"test_exact\.py::test_(200_threads|threads_are_merged|two_stacks|recursion_10_000)",
    r"test_go\.py::test_(a_web_server|nothing_disturbs)",
)
"""They take very long in an emulated machine."""

TOOLS = (
    r"\[.*clang",
    r"test_rust",
    r"test_redis",
)
"""They want programs that guests do not have."""

COOKIELESS = (
    r"test_(go_values|signatures)\.py::test_random",
    r"test_exact\.py::test_(builds\[shapes|tail_calls\[|ends_inside|confined|coroutines)",
    r"test_exact\.py::test_(what_was_left|conditions_leave|jumps_that)",
    r"test_(kinds|go_values)\.py",
    r"test_detach\.py",
    r"test_many\.py",
    r"test_floats\.py::test_unoptimised",
)
"""Without cookies each probe has programs of its own, which take long to load. And a kernel as
old as that does not wait when it detaches on its only processor."""

MULTI = (r"test_detach\.py::test_interrupted_while_attaching",)
"""About many plain probes, of which kernels that attach all at once have few."""

EMULATED = (r"test_many\.py::test_ten_thousand",) if os.uname().machine == "aarch64" else ()
"""These take longest where even instructions are emulated that x86-64 could run."""

FEATURES = os.environ.get("LBTRACE_VM_FEATURES", "").split(",")

SUPERSEDED = tuple(
    rf"test_(?!specs|api)\w+\.py::.*\[(.*-)?{mode}\b"
    for mode, better in (("plain", "multi"), ("multi", "session"))
    if better in FEATURES
)
"""Ways of attaching for which the kernel has a better one: other guests have nothing else, and
CI's own kernel has all of them."""

LEFT_OUT = re.compile(
    "|".join(
        (*COMMAND_LINE, *SIMILAR, *HEAVY, *TOOLS, *EMULATED, *SUPERSEDED)
        + (() if "cookie" in FEATURES else COOKIELESS)
        + (MULTI if "multi" in FEATURES else ())
    )
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take them out of what pytest runs, but not those that are asked for by name."""
    out = [item for item in items if LEFT_OUT.search(item.nodeid) and not _is_named(item)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def pytest_deselected(items: list[pytest.Item]) -> None:
    """A test that is asked for by name and does not run would be missed by nobody."""
    if names := [item.nodeid for item in items if _is_named(item)]:
        raise pytest.UsageError(f"guests do not run what is asked for: {' '.join(names)}")


def _is_named(item: pytest.Item) -> bool:
    return any(
        "::" in name and (item.nodeid == name or item.nodeid.startswith(f"{name}["))
        for name in item.config.args
    )

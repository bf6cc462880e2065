"""Which processes the probes of a trace reach, and what protects those outside the request.

A link without a pid puts breakpoints into every process that maps the file, and a
uretprobe then changes return addresses in all of them: programs die of it that unwind
their stacks, walk or switch them. The program of a session (6.13) looks whose call it is,
and on which stack, before the kernel touches anything.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from lbtrace.errors import KernelError
from lbtrace.model import Target
from lbtrace.system.procfs import first_thread_has_ended

if TYPE_CHECKING:
    from lbtrace.probes import Mode


class Reach(Struct, frozen=True):
    """``everyone``: the probes are in every process that maps the files, not in the
    target's process alone. ``guarded``: a program looks at each call, in whatever process,
    before its return is hooked. ``other_processes``: hooks would be placed in processes that
    were not asked for. ``any_program``: programs that are not known may run what is traced.
    ``single``: each probe has a link of its own."""

    everyone: bool
    guarded: bool
    other_processes: bool
    any_program: bool
    single: bool = False


class Abilities(Struct, frozen=True):
    """What a process may do: it ``forks``, that is, starts others; it does what a session's program
    looks for, and has to be ``checked``."""

    forks: bool = True
    checked: bool = True


def find_reach(target: Target, mode: Mode | None, able: Abilities) -> Reach:
    """Return the processes that probes attached in ``mode``, None for the best, reach besides
    ``target``, whose process is ``able`` to do that."""
    from lbtrace.bpf import features  # imported here because not every importer needs it

    try:
        kernel = features.probe()
        multi, session = kernel.multi, kernel.session
    except KernelError:  # a plan can be looked at without privileges
        multi = features.names(features.MULTI)
        session = features.names(features.SESSION)
    one_thread = multi and mode != "plain" and features.filters_by_thread(os.uname().release)
    # The kernel knows a process by the memory of its first thread, which has none when it has ended
    # (uprobe_multi_link_filter, kernel/trace/bpf_trace.c).
    known = len(target.pids) == 1 and not first_thread_has_ended(target.pids[0])
    alone = (known and not target.follow) or (target.command and not able.forks)
    everyone = not alone or one_thread
    # A process that a filtered one forks inherits its breakpoints, but not the program's
    # judgement: links with a pid skip it there, and hook (uprobe_prog_run(), bpf_trace.c).
    wanted = everyone or (able.checked and not able.forks)
    guarded = wanted and session and mode in (None, "session")
    every_process = not (target.pids or target.command)  # every process that maps the files
    other_processes = everyone and not (every_process or guarded)
    single = not multi or mode == "plain"
    return Reach(everyone, guarded, other_processes, not alone, single)

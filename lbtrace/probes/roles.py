"""What a hit of a probe means for the calls of its lane."""

from __future__ import annotations

from msgspec import Struct

from lbtrace.model import CLOSE, OPEN, POINT, Probe


class Role(Struct, frozen=True):
    """What is common to probes of a role.

    ``event`` is the kind of their events. Those ``of_function`` belong to a function and to its
    calls; the others belong to a binary. ``stacks``: they report which stacks there are.
    ``named``: their events carry the name of the thread.
    """

    event: int
    of_function: bool = False
    stacks: bool = False
    named: bool = False


ROLES: dict[str, Role] = {
    # A call of the function begins.
    "opens": Role(OPEN, of_function=True, named=True),
    # It returns.
    "closes": Role(CLOSE, of_function=True),
    # It jumps to another function, which returns in its place.
    "tail": Role(CLOSE, of_function=True),
    # A function returns to which calls have jumped, and so do these, at the same frame.
    "tail return": Role(CLOSE),
    # The program is at a place inside of a function, which is shown among its calls.
    "point": Role(POINT, of_function=True, named=True),
    # The thread was blocked there for long, as it runs again; shown inside of calls only.
    "blocked": Role(POINT),
    # It fetches more values of the point whose probe is the one before it in the plan, or before
    # others like it, at the same site.
    "more values": Role(POINT, of_function=True),
    # The program continues after an exception or longjmp: calls of the reported frame, and of lower
    # ones, are over.
    "landing": Role(POINT),
    # A goroutine panics: the first of the probe's values is what it panics with.
    "panic": Role(POINT),
    # No deferred call has recovered that, and the program ends: all calls of the lane are over.
    "crash": Role(POINT),
    # The program sets up a stack, whose address and size the first two values are.
    "stack": Role(POINT, stacks=True),
    # The same, the first value is its upper end.
    "stack below": Role(POINT, stacks=True),
    # The program exchanges what is on a stack, as coroutines that share one do: what is called or
    # returns from now on is not of the calls that were open.
    "exchange": Role(POINT),
    # The lane (a goroutine) ends, with all its calls.
    "lane end": Role(POINT),
}
"""All roles. A reader skips the events of probes whose role it does not know."""

CLOSING = frozenset({"closes", "tail"})
"""Those of functions that end calls."""

LANDINGS = frozenset({"landing", "crash"})
"""Those that report that calls were left."""

STACK_ROLES = frozenset(name for name, role in ROLES.items() if role.stacks)
"""Those that report stacks."""


def kind_of_events(probe: Probe) -> int:
    """Return the kind of the events that a probe sends, 0 where its role is not known: that of its
    role, but markers that close a call are hit as those are that are points."""
    if probe.role not in ROLES:
        return 0
    event = ROLES[probe.role].event
    return POINT if event == CLOSE and probe.pair else event

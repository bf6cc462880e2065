"""A source of probes, as a row of `lbtrace.probes.PROBES` describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from lbtrace.model import Probe

Mode: TypeAlias = Literal["session", "multi", "plain"]
"""How uprobes are attached in a trace. ``session``: one link for a binary, whose program runs at
entry and at return (6.13). ``multi``: one link for all probes of a binary and program (6.6).
``plain``: a link for each probe, everywhere."""

Pairing: TypeAlias = Literal["frame", "lane"]
"""How a call's opening and closing probe find each other. ``frame``: by the stack pointer at
the function's entry, which names a call among those of its stack. ``lane``: a closing probe is that
of the last call of its `lbtrace.model.Probe.pair` that began there, with the same key."""


class Source(Struct, frozen=True):
    """Where probes come from.

    ``programs`` are the BPF programs (``bpf_src/programs``) that serve it, by role;
    ``paired`` is the one that serves the opening and the closing probe of a pair together,
    where the attach type is ``session``. ``attach`` are the ways to attach it, files of
    ``lbtrace/bpf/attach``: that of the trace's `Mode`, if it is among them, else the first
    that takes a probe alone; the first that works here, where they are ``tried``. A probe that is
    ``at_return`` is hit when the function that is entered at its site returns: its opening probe
    has the same site and precedes it in the plan.
    Probes that every process of the machine hits, whatever is traced, are ``everywhere``. Where it
    ``raises_counter``, `lbtrace.model.Probe.place` is the offset in the file of a counter of the
    program that is raised while the probe is attached; empty where there is none. What it is about
    ``precedes`` all that others see at the same place, but the beginning of a call. Where it is
    ``timed``, action ``stacks`` adds up durations, in ns, that its program knows.
    """

    name: str
    programs: Mapping[str, str]
    attach: tuple[str, ...]
    pairing: Pairing = "frame"
    at_return: bool = False
    everywhere: bool = False
    paired: str = ""
    raises_counter: bool = False
    tried: bool = False
    timed: bool = False
    precedes: bool = False

    def attach_type(self, mode: Mode) -> str:
        """Return how a probe is attached alone, without another one of its call."""
        alone = [name for name in self.attach if name != "session"]
        return mode if mode in alone else alone[0]

    def counter_of(self, probe: Probe) -> int:
        """Return the offset of the counter that is raised while ``probe`` is attached, or 0."""
        return int(probe.place) if self.raises_counter and probe.place else 0


def hooked_pairs(probes: Sequence[Probe], sources: Mapping[str, Source]) -> dict[int, int]:
    """Return the number of the closing probe by that of the opening one, of the calls whose return
    the kernel hooks."""
    return {
        number - 1: number
        for number, probe in enumerate(probes)
        if (source := sources.get(probe.source)) and source.at_return
    }

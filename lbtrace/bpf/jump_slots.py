"""Jumps to other functions: ``struct lbt_jump``, and the map ``callers`` of ``bpf_src/relays.h``
where the return of what they lead to is not watched.

A probe on such a jump is followed, in the plan, by what a hit is where the call returns elsewhere
(source ``otherwise``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.gate import check
from lbtrace.model import Probe, Site
from lbtrace.probes.sources import OTHERWISE


def fill_jump(spec: Any, site: Site, registers: Sequence[str]) -> None:
    """Say in a ``struct lbt_spec`` when the jump of a site counts, and where it leads if that is
    computed."""
    spec.unless, spec.only = site.unless, site.only
    jump, slot = site.jump, spec.jump
    if jump is None:
        return
    slot.computed = True
    slot.base = registers.index(jump.base) if jump.base else lib.LBT_NO_REGISTER
    slot.index = registers.index(jump.index) if jump.index else lib.LBT_NO_REGISTER
    slot.shift = jump.scale.bit_length() - 1
    slot.loads, slot.offset = jump.loads, jump.offset
    for number, (low, high) in enumerate(jump.inside[: lib.LBT_RANGES]):
        slot.low[number], slot.high[number] = low, high


def find_callers(probes: Sequence[Probe]) -> Mapping[int, Sequence[int]]:
    """Return how far from jumps the places lie to which their calls may return, by the number of
    the jump's probe."""
    chosen = [n - 1 for n, probe in enumerate(probes) if probe.source == OTHERWISE]
    relays: dict[tuple[int, int], list[int]] = {}
    for probe in probes if chosen else ():
        if probe.role == "tail return":
            relays.setdefault((probe.binary, probe.relay), []).append(probe.site.address)
    return {
        n: [at - probes[n].site.address for at in relays[probes[n].binary, probes[n].relay]]
        for n in chosen
    }


def write_callers(target: Any, found: Mapping[int, Iterable[int]]) -> None:
    """Let programs know of what `find_callers` found, in the map ``target``."""
    key, value = ffi.new("uint64_t *"), ffi.new("uint8_t *")
    for probe, distances in found.items():
        for distance in distances:
            key[0] = probe << 32 | distance & 0xFFFFFFFF
            code = lib.bpf_map__update_elem(target, key, 8, value, 1, 0)
            check(code, "write where calls return")

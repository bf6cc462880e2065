"""Where calls return that have jumped to what is not watched: the maps of
``bpf_src/return_places.h``.

A probe on such a jump is followed, in the plan, by what a hit is where the call returns elsewhere
(source ``otherwise``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import Any, NamedTuple

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.features import finds_mappings, typed_task
from lbtrace.bpf.gate import check
from lbtrace.model import Probe
from lbtrace.probes.sources import AFTER_CALL, OTHERWISE, finds_returns

ROOM = 16384
"""Places that are decided while a trace runs, at most."""

MET = 256
"""Places that wait for that, at most."""


PLACE, MAPPING = Layout("<QQII"), Layout("<QQQQ")
"""struct return_place, struct place_mapping."""


class Place(NamedTuple):
    """A ``struct return_place``."""

    address: int
    inode: int
    device: int
    relay: int


class Met(NamedTuple):
    """A place that is to be decided, where process ``pid`` has mapped its file, and how many calls
    have jumped that return there."""

    place: Place
    start: int
    end: int
    pid: int
    jumps: int


class Returning(NamedTuple):
    """What a plan knows of this: the addresses of ``jumps`` of which it is asked where their calls
    return, by the number of the probe; at which ``places`` relays are; and whether more of them are
    to be found while the trace runs."""

    jumps: dict[int, int]
    places: list[Place]
    learns: bool

    def sizes(self) -> dict[str, int]:
        """Return how many entries the maps need."""
        return {
            "jump_addresses": max(1, len(self.jumps)),
            "return_places": max(1, len(self.places)) + ROOM * self.learns,
            "met_places": MET if self.learns else 1,
            "place_passes": ROOM if self.learns else 1,
        }

    def write(self, maps: Callable[[str], Any]) -> None:
        """Let programs know, in these maps."""
        key, value, target = ffi.new("uint32_t *"), ffi.new("uint64_t *"), maps("jump_addresses")
        for key[0], value[0] in self.jumps.items():
            code = lib.bpf_map__update_elem(target, key, 4, value, 8, 0)
            check(code, "write where calls jump")
        for place in self.places:
            decide(maps("return_places"), place, seen=True)


def find_returning(probes: Sequence[Probe], *, learns: bool) -> Returning:
    """Return what a plan with these ``probes`` knows, and whether it ``learns`` more, if it may."""
    otherwise = (n for n, probe in enumerate(probes) if probe.source == OTHERWISE)
    own = (probe for probe in probes if probe.source == AFTER_CALL)
    return Returning(
        {n - 1: probes[n - 1].site.address for n in otherwise},
        [Place(probe.site.address, 0, 0, probe.relay) for probe in own],
        learns and finds_returns(probes) and typed_task() and finds_mappings(),
    )


def decide(target: Any, place: Place, *, seen: bool) -> None:
    """Let programs know, in the map ``target``, whether a relay is at a place, or never will be."""
    key, value = PLACE.pack(*place), ffi.new("uint8_t *", seen)
    code = lib.bpf_map__update_elem(target, ffi.from_buffer(key), PLACE.size, value, 1, 0)
    check(code, "write where calls return")


def take_met(source: Any) -> list[Met]:
    """Take all that waits from the map ``source``."""
    key, value = ffi.new("char[]", PLACE.size), ffi.new("char[]", MAPPING.size)
    found = list[Met]()
    while lib.bpf_map__get_next_key(source, ffi.NULL, key, PLACE.size) == 0:
        if not lib.bpf_map__lookup_elem(source, key, PLACE.size, value, MAPPING.size, 0):
            place = Place(*PLACE.unpack(ffi.buffer(key)))
            found.append(Met(place, *MAPPING.unpack(ffi.buffer(value))))
        lib.bpf_map__delete_elem(source, key, PLACE.size, 0)
    return found


def forget(source: Any, place: Place) -> None:
    """Take a place from the map ``source``, if it waits there."""
    lib.bpf_map__delete_elem(source, ffi.from_buffer(PLACE.pack(*place)), PLACE.size, 0)


def begin_trial(target: Any, probe: int) -> None:
    """Let programs count in the map ``target`` how often a relay is hit for no call."""
    key, value = ffi.new("uint32_t *", probe), ffi.new("uint64_t *")
    check(lib.bpf_map__update_elem(target, key, 4, value, 8, 0), "begin a trial")


def end_trial(target: Any, probe: int) -> int:
    """Return how often that was, and let it be counted no more."""
    key, value = ffi.new("uint32_t *", probe), ffi.new("uint64_t *")
    check(lib.bpf_map__lookup_elem(target, key, 4, value, 8, 0), "end a trial")
    lib.bpf_map__delete_elem(target, key, 4, 0)
    return int(value[0])

"""Whether relays can be at places to which calls return, and what else has to be watched then.

A call that waits for its return may be left by an exception or longjmp instead. What is called next
at its frame would seem to be called by it, and would return in its place: so where these land has
probes in all files that a process has mapped (`lbtrace.plan.landing_pads`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from msgspec import Struct

from lbtrace.bpf.return_places import Met
from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.errors import LbtraceError
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.model import Binary, Probe, Site, Target
from lbtrace.plan import landing_pads
from lbtrace.plan.code_context import CodeContext
from lbtrace.system.file import File
from lbtrace.targets.mapped_files import DELETED, mapped_files
from lbtrace.targets.patched_code import find_patched
from lbtrace.targets.reach import Reach
from lbtrace.targets.watchers import tracer_of


class Spot(Struct, frozen=True):
    """A place, at ``address`` in its file; ``site`` is None where no probe can be there."""

    met: Met
    address: int
    site: Site | None


class Findings(Struct, frozen=True):
    """What was found in a file: ``landings`` are probes where exceptions and longjmp land."""

    file: File
    binary: Binary
    spots: tuple[Spot, ...]
    landings: tuple[Probe, ...]


class PlaceProofs:
    """Looks at the code of files that processes have mapped which ``reach`` says. Of those that are
    ``planned``, by their identity, it is known where exceptions land; of others that is found out
    if ``lands``."""

    def __init__(self, reach: Reach, planned: Collection[tuple[int, int]], *, lands: bool) -> None:
        self._reach = reach
        self._planned = planned
        self._lands = lands
        self._files: dict[tuple[int, int], _Code | None] = {}

    def find(self, met: Iterable[Met]) -> list[Findings]:
        """Return what is found of places, by file: nothing of those whose process has ended, or
        has a debugger, which may have breakpoints there."""
        spots: dict[_Code, list[Spot]] = {}
        pids = dict[int, None]()
        for each in met:
            entry = f"/proc/{each.pid}/map_files/{each.start:x}-{each.end:x}"
            key = each.place.device, each.place.inode
            code = None if tracer_of(each.pid) else self._code(each.pid, key, entry)
            if code is not None:
                pids[each.pid] = None
                spots.setdefault(code, []).append(code.find(each))
        for pid in pids if self._lands else ():
            with suppress(LbtraceError):
                for mapped in mapped_files(pid):
                    code = self._code(pid, (mapped.device, mapped.inode), mapped.entry)
                    if code is not None:
                        spots.setdefault(code, [])
        found = []
        for code, some in spots.items():
            lands = self._lands and code.image.file.identity not in self._planned
            findings = code.findings(some, lands=lands)
            found += [findings] if findings.spots or findings.landings else []
        # Before calls wait for their return it has to be seen if they are left.
        return sorted(found, key=lambda findings: bool(findings.spots))

    def _code(self, pid: int, key: tuple[int, int], entry: str) -> _Code | None:
        if key not in self._files:
            try:
                shown = os.readlink(entry).removesuffix(DELETED)
                self._files[key] = _Code(Image(File(entry, shown)), pid, self._reach)
            except OSError:  # the process has ended
                return None
            except Exception:  # it is no program that can be read, whatever it is
                self._files[key] = None
        return self._files[key]


class _Code:
    """The code of a file that process ``pid`` has mapped."""

    def __init__(self, image: Image, pid: int, reach: Reach) -> None:
        self.image = image
        patched = find_patched((image.file,), Target((pid,)), reach).patched
        table, machine = image.once(symbols.read_any), Machine(image.machine)
        own = patched.get(image.file.identity, ())
        self._known = CodeContext(image, table, machine, patched=own)
        self._sites = ProbeSites(machine, self._known)
        self._table = table
        self._landed: set[int] = set()

    def find(self, met: Met) -> Spot:
        """Return what a place is."""
        address = self.image.address(met.place.address)
        site = self._sites.at(address) if address >= 0 and not self._table.go else ""
        return Spot(met, address, site if isinstance(site, Site) else None)

    def findings(self, spots: Iterable[Spot], *, lands: bool) -> Findings:
        """Return what is found of places, and where exceptions land that is not known yet."""
        image, spots = self.image, tuple(spots)
        landings = tuple(self._landings(spots)) if lands and not self._table.go else ()
        return Findings(
            image.file, Binary(image.path, image.build_id, image.machine), spots, landings
        )

    def _landings(self, spots: Iterable[Spot]) -> Iterator[Probe]:
        bodies = (self._known.holding(spot.address) for spot in spots)
        pads = {pad for body in bodies if body is not None for pad in body.pads}
        if self._landed and not pads - self._landed:
            return
        own = self.image, self._table, self.image.once(plt.stubs), pads, self._sites
        for probe in landing_pads.plan_probes(*own):
            if probe.site.address not in self._landed:
                yield probe
        self._landed |= {-1, *pads}

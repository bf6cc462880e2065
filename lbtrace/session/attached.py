"""Where the probes of additions to a plan go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lbtrace.bpf import links
from lbtrace.model import Addition, Plan
from lbtrace.system.file import File

if TYPE_CHECKING:
    from lbtrace.bpf.objects import TraceObject
    from lbtrace.bpf.ring import RingReader
    from lbtrace.bpf.specs import Specs
    from lbtrace.probes import Mode
    from lbtrace.session.probed_files import ProbedFiles
    from lbtrace.targets.reach import Reach


class Attached(Struct, frozen=True):
    """What a session has of the kernel. ``only`` is the process
    that has them, 0 where all have; ``root`` the first one that is traced, 0: all."""

    traced: TraceObject
    reader: RingReader
    specs: Specs
    links: links.Links
    mode: Mode
    only: int
    probed: ProbedFiles
    reach: Reach
    root: int

    def attach(
        self, plan: Plan, addition: Addition, file: File | None, *, apart: bool = False
    ) -> dict[int, list[Any]]:
        """Attach what ``plan`` has got by an addition, which has a new ``file`` or none. Return the
        links by the probe's number, if each is to have its own, ``apart``. Raises `KernelError`."""
        self.specs.grow(plan)
        if file is not None:
            self.probed.add(file, plan)
        wanted = links.attachments(self.mode, plan.probes, addition.after[2])
        self.traced.fill(self.specs)
        self.reader.make_values(self.specs.decoded_registers)
        own, to = (self.traced, plan, self.specs.cookies), (self.only, self.probed.files)
        if not apart:
            self.links.attach(*own, wanted, *to)
            return {}
        found = {}
        for how, numbers in wanted.items():
            for number in numbers:
                count = len(self.links)
                self.links.attach(*own, {how: [number]}, *to)
                found[number] = self.links.since(count)
        return found

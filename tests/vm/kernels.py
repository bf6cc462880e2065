"""The kernels of the matrix: where each comes from, and what it is known to have.

The features are facts about the kernels, not what lbtrace's probes answered:
the two are compared in the guest, and a difference either way is a failure.
"""

from __future__ import annotations

from dataclasses import dataclass

OLDEST = frozenset({"btf", "ring buffer", "uprobe", "usdt"})
SINCE_6_0 = OLDEST | {"cookie", "sleepable"}
SINCE_6_6 = SINCE_6_0 | {"multi"}
SINCE_6_13 = SINCE_6_6 | {"session"}


@dataclass(frozen=True)
class Kernel:
    """A kernel package: ``suite`` and ``architecture`` as Debian names them.

    ``features`` are those it has, by the names `lbtrace doctor` uses.
    """

    name: str
    suite: str
    architecture: str
    features: frozenset[str]

    @property
    def package(self) -> str:
        """The package that depends on the suite's present kernel.

        The cloud flavour has few modules, and what a virtual machine needs.
        """
        return f"linux-image-cloud-{self.architecture}"

    @property
    def machine(self) -> str:
        """The architecture as ``uname -m`` says it."""
        return {"amd64": "x86_64", "arm64": "aarch64"}[self.architecture]


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("5.10", "bullseye", "amd64", OLDEST),
        Kernel("6.1", "bookworm", "amd64", SINCE_6_0),
        Kernel("6.12", "trixie", "amd64", SINCE_6_6),
        Kernel("newest", "sid", "amd64", SINCE_6_13),
        Kernel("arm64-6.12", "trixie", "arm64", SINCE_6_6),
    )
}

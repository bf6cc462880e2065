"""The kernels of the matrix: where each comes from, and what it is known to have.

The features are facts about the kernels (the version that brought each stands
beside it), not what lbtrace's probes answered: the two are compared in the
guest, and a difference either way is a failure.
"""

from __future__ import annotations

from dataclasses import dataclass

BASE = frozenset({"btf", "ringbuf", "uprobe", "uretprobe", "kprobe", "tp_btf"})
V5_15 = BASE | {"bpf_cookie", "task_storage"}
V6_12 = V5_15 | {"uprobe_multi"}
V6_13 = V6_12 | {"uprobe_session"}


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
        Kernel("5.10", "bullseye", "amd64", BASE | {"fentry"}),
        Kernel("6.1", "bookworm", "amd64", V5_15 | {"fentry"}),
        Kernel("6.12", "trixie", "amd64", V6_12 | {"fentry"}),
        Kernel("newest", "sid", "amd64", V6_13 | {"fentry"}),
        Kernel("arm64-6.12", "trixie", "arm64", V6_12 | {"fentry"}),
    )
}

"""Attaches programs that do nothing: what a pair of probes itself costs."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib

from lbtrace.bpf.gate import check, check_pointer
from lbtrace.bpf.kernel_links import KernelLinks
from lbtrace.bpf.links import Links, attachments, programs
from lbtrace.model import Plan
from lbtrace.probes import Mode
from lbtrace.session.probed_files import ProbedFiles

ROOT = Path(__file__).resolve().parents[2]
OBJECT = ROOT / "build/out/empty.bpf.o"


class Empty:
    """Stands where `Links` expects a loaded object."""

    copies: tuple[int, ...] = ()

    def __init__(self, mode: Mode, plan: Plan) -> None:
        self.kernel_links = KernelLinks()
        data = OBJECT.read_bytes()
        opened = lib.bpf_object__open_mem(data, len(data), ffi.NULL)
        self.object = check_pointer(opened, "open the empty programs")
        needed = programs(mode, attachments(mode, plan.probes))
        for name in ("entered", "exit_site", "returned", "session"):
            check(lib.bpf_program__set_autoload(self.program(name), name in needed), "choose")
            kind = needed[name].attach_type if name in needed else None
            if kind is not None:
                code = lib.bpf_program__set_expected_attach_type(self.program(name), kind)
                check(code, "set the attach type")
        check(lib.bpf_object__load(self.object), "load the empty programs")

    def program(self, name: str, cookie: int = 0) -> Any:
        return lib.bpf_object__find_program_by_name(self.object, name.encode())


def compile_object() -> None:
    sys.path.insert(0, str(ROOT / "build"))
    import native

    source = ROOT / "tests/bench/empty.bpf.c"
    subprocess.run(native.bpf_compile(source, platform.machine(), OBJECT), check=True)


@contextmanager
def attached(mode: Mode, plan: Plan) -> Iterator[None]:
    """Within, the empty programs stand at the plan's sites."""
    loaded, links = Empty(mode, plan), Links()
    try:
        cookies, files = [0] * len(plan.probes), ProbedFiles(plan).files
        found = attachments(mode, plan.probes)
        links.attach(loaded, plan, cookies, found, 0, files)  # type: ignore[arg-type]
        yield
    finally:
        links.close()
        lib.bpf_object__close(loaded.object)

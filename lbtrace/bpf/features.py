"""What the running kernel can do, found by trying, never by its version."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from lbtrace.bpf._libbpf import lib
from lbtrace.bpf.gate import check

BTF = Path("/sys/kernel/btf/vmlinux")


class Features(Struct, frozen=True):
    """``multi``: one link for thousands of uprobes (6.6). ``session``: one
    program for entry and return (6.13)."""

    multi: bool
    session: bool


def probe() -> Features:
    """Ask the kernel; takes about a millisecond.

    Raises `PrivilegeError` where nothing may be loaded.
    """
    multi = _multi(lib.BPF_TRACE_UPROBE_MULTI)
    return Features(multi=multi, session=multi and _multi(lib.BPF_TRACE_UPROBE_SESSION))


def _multi(attach_type: int) -> bool:
    return bool(check(lib.lbt_probe_multi(attach_type), "load a BPF program"))


def has_btf() -> bool:
    """Whether the kernel tells its types, which CO-RE objects need."""
    return BTF.exists()

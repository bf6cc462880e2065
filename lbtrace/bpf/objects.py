"""The BPF object, from opened to loaded to attached."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.features import has_btf, may_sleep, typed_task
from lbtrace.bpf.gate import check, check_pointer, start_log
from lbtrace.bpf.specs import Specs
from lbtrace.errors import KernelError
from lbtrace.model import GoLayout, Losses

PROGRAMS = ("entered", "returned", "left", "session", "forked", "exited")
"""All that trace.bpf.c has."""

SLEEPERS = {"entered", "returned", "left", "session"}
"""Those that read the memory of a process."""

INITIAL_PIDNS = "pid:[4026531836]"
"""PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h."""


class TraceObject:
    """``trace.bpf.o``, loaded: its programs and maps.

    ``programs`` are those to load; the others cost nothing. ``root`` narrows
    tracing to a process, ``follow`` adds those it forks; ``go`` tells events
    apart by goroutine. Raises `KernelError`.
    """

    def __init__(
        self,
        specs: Specs,
        programs: dict[str, int | None],
        *,
        ring_size: int,
        root: int = 0,
        follow: bool = False,
        go: GoLayout | None = None,
    ) -> None:
        start_log()
        if not has_btf():
            raise KernelError(
                "this kernel does not tell its types: /sys/kernel/btf/vmlinux is missing",
                "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are",
            )
        self._object = open_object()
        try:
            config = self._configure(specs, ring_size)
            config.root = root
            config.follow = follow
            if go:
                config.go_g = lib.LBT_GO_REGISTER if go.g == "register" else lib.LBT_GO_THREAD
                config.go_goid = go.goid
                config.go_stack_high = go.stack_high
            self._choose(programs)
            if specs.memory and may_sleep():
                config.may_fault = True
                for name in set(programs) & SLEEPERS:
                    code = lib.bpf_program__set_flags(self.program(name), lib.BPF_F_SLEEPABLE)
                    check(code, "let programs sleep")
            check(lib.bpf_object__load(self._object), "load the BPF programs")
            self._fill(specs)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free programs and maps; links hold on to what they need."""
        if self._object != ffi.NULL:
            lib.bpf_object__close(self._object)
            self._object = ffi.NULL

    def program(self, name: str) -> Any:
        """The libbpf handle of a program."""
        program = lib.bpf_object__find_program_by_name(self._object, name.encode())
        return check_pointer(program, f"find the BPF program {name}")

    def ring_fd(self) -> int:
        """The file descriptor of the ring buffer."""
        return check(lib.bpf_map__fd(self._map("ring")), "use the ring buffer")

    def losses(self) -> Losses:
        """What the kernel side has lost so far."""
        cpus = check(lib.libbpf_num_possible_cpus(), "count the CPUs")
        cells = ffi.new("uint64_t[]", cpus)
        key = ffi.new("uint32_t *")
        totals = []
        for key[0] in range(lib.LBT_COUNTERS):
            code = lib.bpf_map__lookup_elem(
                self._map("counters"), key, 4, cells, ffi.sizeof(cells), 0
            )
            check(code, "read the counters")
            totals.append(sum(cells))
        return Losses(
            ring_full_entry=totals[lib.LBT_RING_FULL_ENTRY],
            ring_full_return=totals[lib.LBT_RING_FULL_RETURN],
            string_fault=totals[lib.LBT_STRING_FAULT],
            nested_miss=sum(
                max(0, lib.lbt_program_misses(lib.bpf_program__fd(self.program(name))))
                for name in self._loaded
            ),
        )

    def _map(self, name: str) -> Any:
        found = lib.bpf_object__find_map_by_name(self._object, name.encode())
        return check_pointer(found, f"find the BPF map {name}")

    def _configure(self, specs: Specs, ring_size: int) -> Any:
        size = ffi.new("size_t *")
        memory = lib.bpf_map__initial_value(self._map(".rodata"), size)
        config = ffi.cast("struct lbt_config *", check_pointer(memory, "configure"))
        if os.readlink("/proc/self/ns/pid") != INITIAL_PIDNS:
            namespace = Path("/proc/self/ns/pid").stat()
            config.pidns_device = namespace.st_dev
            config.pidns_inode = namespace.st_ino
        config.wakeup_bytes = ring_size // 4
        config.generic = specs.generic
        config.texts = specs.texts
        config.typed_task = typed_task()
        check(lib.bpf_map__set_max_entries(self._map("ring"), ring_size), "size the ring buffer")
        check(lib.bpf_map__set_max_entries(self._map("specs"), len(specs)), "size the specs")
        return config

    def _choose(self, programs: dict[str, int | None]) -> None:
        self._loaded = tuple(programs)
        for name in PROGRAMS:
            program = self.program(name)
            check(lib.bpf_program__set_autoload(program, name in programs), "choose programs")
            attach_type = programs.get(name)
            if attach_type is not None:
                code = lib.bpf_program__set_expected_attach_type(program, attach_type)
                check(code, "set an attach type")

    def _fill(self, specs: Specs) -> None:
        target = self._map("specs")
        key = ffi.new("uint32_t *")
        for key[0], spec in enumerate(specs):
            size = ffi.sizeof("struct lbt_spec")
            check(lib.bpf_map__update_elem(target, key, 4, spec, size, 0), "write a probe's spec")


def open_object() -> Any:
    """The object of this machine, opened but not loaded. Raises `KernelError`."""
    name = f"trace.{platform.machine()}.bpf.o"
    data = (Path(__file__).parent / "objects" / name).read_bytes()
    options = ffi.new("struct bpf_object_open_opts *")
    options.sz = ffi.sizeof("struct bpf_object_open_opts")
    title = ffi.new("char[]", b"lbtrace")
    options.object_name = title
    opened = lib.bpf_object__open_mem(data, len(data), options)
    return check_pointer(opened, f"open {name}")

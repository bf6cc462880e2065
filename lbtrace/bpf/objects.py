"""The BPF object, from opened to loaded to attached."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.bpf.aggregates import (
    ADDITION,
    AGGREGATES,
    BUCKETS,
    EXCHANGE,
    ROOMS,
    Merge,
    count_open,
    read,
    shape,
)
from lbtrace.bpf.backup_programs import TURN, TURNS, loses, served_by
from lbtrace.bpf.features import finds_mappings, has_btf, may_sleep, typed_task
from lbtrace.bpf.followed import FollowedPids
from lbtrace.bpf.gate import check, check_pointer, start_log
from lbtrace.bpf.kernel_links import KernelLinks
from lbtrace.bpf.specs import Specs
from lbtrace.bpf.stack_tables import leave_out_maps
from lbtrace.errors import KernelError
from lbtrace.model import Aggregate, Losses
from lbtrace.system.procfs import read_bytes
from lbtrace.system.signals import held_back


class Loading(Struct, frozen=True):
    """How a program is loaded: with an attach type of the kernel's (enum bpf_attach_type), if it
    needs one. Programs that read the memory of a process ``may_sleep``, where the kernel lets
    them. Of those that have ``fetches``, those that may not are in an object of their own. Misses
    are losses where they are ``counted``."""

    attach_type: int | None = None
    may_sleep: bool = False
    fetches: bool = True
    counted: bool = True


class Whom(Struct, frozen=True):
    """Whose hits are traced: of process ``root`` (0: of all), and of followed ones if one is to
    ``follow``; only in the ``cgroup`` of this number (0: in any), and not of process ``own``."""

    root: int = 0
    follow: bool = False
    cgroup: int = 0
    own: int = 0


Programs: TypeAlias = dict[str, Loading]
"""Names of programs, and how they are loaded."""

MET_STACKS = 16384
"""Different user stacks that are kept; what has no room is counted."""

INITIAL_PIDNS = "pid:[4026531836]"
"""PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h."""

ALLOCATING = ("followed", "met_stacks", "open_calls", "outermost", "rooms")
"""Maps of which most entries are seldom used."""


class TraceObject:
    """``trace.bpf.o``, loaded: its programs and maps.

    ``programs`` are those to load. ``copies`` are further ones, by the cookie of the one probe each
    set of them serves: for kernels whose programs cannot ask for the cookie; ``tick`` is called for
    each. ``whom`` narrows tracing to some processes. ``later`` is how many specs there is room for
    besides. Raises `KernelError`.
    """

    def __init__(
        self,
        specs: Specs,
        programs: Programs,
        *,
        ring_size: int,
        copies: dict[int, Programs] | None = None,
        whom: Whom | None = None,
        later: int = 0,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        start_log()
        _require_types()
        if specs.walks_stacks and not finds_mappings():
            raise KernelError("stacks need Linux 5.17", "count the calls: lbtrace count")
        self._typed_task = typed_task()
        waits = may_sleep()
        may_fault = specs.memory and waits
        self._counted: list[tuple[str, Any]] = []
        self._rooms = specs.rooms
        self._awaits_returns = specs.deferred
        self._backups: dict[str, list[Any]] = {}
        self._programs = tuple(programs)
        self.copies: dict[int, Any] = {}
        self.kernel_links = KernelLinks()

        def opened(name: str = "") -> tuple[Any, Any]:
            handle = open_object(name)
            held.callback(lib.bpf_object__close, handle)
            config = self._config(handle)
            config.may_fault = may_fault and not name
            for field, value in (*asdict(whom or Whom()).items(), *specs.switches()):
                setattr(config, field, value)
            config.backups = any(map(served_by, programs))
            config.refusals = programs.keys() >= {*TURNS}
            config.finds_mappings = specs.stacks and self._typed_task and finds_mappings()
            if not specs.walks_stacks:
                leave_out_maps(handle)
            return handle, config

        with ExitStack() as held:
            self._object, config = opened()
            # waits: both are new in 6.1
            self._shape_maps(specs, ring_size, later, early=not waits, by_backup=config.backups)
            atomic = {n: how for n, how in programs.items() if how.fetches and not how.may_sleep}
            others = {n: how for n, how in programs.items() if n not in atomic}
            self._load(self._object, others, waits=may_fault)
            self._atomic: dict[str, Any] = {}
            if atomic:
                handle, _ = opened("atomic")
                _share_maps(self._object, handle)
                self._load(handle, atomic, waits=False)
                self._atomic = dict.fromkeys(atomic, handle)
                for name in (each for each in TURNS if each in programs):
                    _lead_to(name, handle)
            self._filled = 0
            self.fill(specs)
            self.followed = FollowedPids(self.map("followed"))
            specs.returning.write(self.map)
            for cookie, own in (copies or {}).items():
                copy, config = opened()
                config.use_only_cookie = True
                config.only_cookie = cookie
                _share_maps(self._object, copy)
                self._load(copy, own, waits=may_fault)
                self.copies[cookie] = copy
                tick()
            self._resources = held.pop_all()

    def close(self) -> None:
        """Free programs and maps; links hold on to what they need."""
        self._resources.close()

    def program(self, name: str, cookie: int | None = None) -> Any:
        """Return the libbpf handle of a program; of the copy for ``cookie``, where there is one."""
        handle = self._atomic.get(name, self._object)
        return _program(handle if cookie is None else self.copies.get(cookie, handle), name)

    def serving(self, name: str) -> tuple[str, ...]:
        """Return what is to be attached for a program, in order: it and its backup programs."""
        first = name + TURN if name + TURN in self._programs else name
        return (first, *(each for each in self._programs if served_by(each) == first))

    def set_cookie(self, program: str, number: int, cookie: int) -> None:
        """Tell ``program`` the cookie of its probe at the event of this number: by its map
        ``PROGRAM_cookies``."""
        target = _map(self._atomic.get(program, self._object), f"{program}_cookies")
        at, value = ffi.new("uint32_t *", number), ffi.new("uint64_t *", cookie + 1)
        code = lib.bpf_map__update_elem(target, at, 4, value, 8, 0)
        check(code, "write a probe's cookie")

    def fill(self, specs: Specs) -> None:
        """Let programs know of the specs that are new. Raises `KernelError` where there is no
        room for them."""
        target = self.map("specs")
        key, size = ffi.new("uint32_t *"), ffi.sizeof("struct lbt_spec")
        for key[0] in range(self._filled, len(specs)):
            code = lib.bpf_map__update_elem(target, key, 4, specs[key[0]], size, 0)
            check(code, "write a probe's spec")
        self._filled = len(specs)

    def ring_fd(self) -> int:
        """Return the file descriptor of the ring buffer."""
        return check(lib.bpf_map__fd(self.map("ring")), "use the ring buffer")

    def wake_at(self) -> Any:
        """Return where the programs look whether to wake the ring's reader: ``uint64_t *``."""
        memory = lib.bpf_map__initial_value(self.map(".bss.wake_at"), ffi.new("size_t *"))
        return ffi.cast("uint64_t *", check_pointer(memory, "share memory with the programs"))

    def losses(self) -> Losses:
        """Return what the kernel side has lost so far."""
        totals = self._totals()
        return Losses(
            ring_full_entry=totals[lib.LBT_RING_FULL + lib.LBT_OPEN],
            ring_full_return=totals[lib.LBT_RING_FULL + lib.LBT_CLOSE],
            # what is of no kind that is counted by itself: forks
            ring_full_point=totals[lib.LBT_RING_FULL + lib.LBT_POINT] + totals[lib.LBT_RING_FULL],
            uncounted=totals[lib.LBT_UNCOUNTED],
            return_depth=totals[lib.LBT_TOO_DEEP],
            string_fault=totals[lib.LBT_STRING_FAULT],
            nested_miss=self.missed(),
            uncompared_tail=totals[lib.LBT_TAIL_UNCOMPARED],
            uncompared_open=totals[lib.LBT_LEFT_UNCOMPARED] + self._count_open(),
            uncomputed=totals[lib.LBT_UNCOMPUTED],
            stacks=totals[lib.LBT_STACKS_LOST],
            in_interrupt=totals[lib.LBT_IN_INTERRUPT],
            unsplit=totals[lib.LBT_UNSPLIT],
            switch_missed=totals[lib.LBT_SWITCH_MISSED],
            unhooked=self.kernel_links.unhooked(),
        )

    def _count_open(self) -> int:
        """Calls that wait for their returns."""
        return count_open(self.map("open_calls")) if self._awaits_returns else 0

    def aggregated(self, action: str, merge: Merge) -> Iterator[Aggregate]:
        """Return what an action has aggregated so far, on all CPUs together."""
        return read(self.map(f"{action}_map"), merge, shared=self._rooms and action != "stacks")

    def map(self, name: str) -> Any:
        """Return the libbpf handle of a map."""
        return _map(self._object, name)

    def children(self) -> int:
        """Return how many processes those that are followed have forked so far."""
        return self._totals()[int(lib.LBT_CHILDREN)]

    def _totals(self) -> list[int]:
        """The counters, summed over the CPUs."""
        cpus = check(lib.libbpf_num_possible_cpus(), "count the CPUs")
        cells = ffi.new("uint64_t[]", cpus)
        key = ffi.new("uint32_t *")
        totals: list[int] = []
        for key[0] in range(lib.LBT_COUNTERS):
            size = ffi.sizeof(cells)
            code = lib.bpf_map__lookup_elem(self.map("counters"), key, 4, cells, size, 0)
            check(code, "read the counters")
            totals.append(sum(cells) & (1 << 64) - 1)  # one CPU may take back what another counted
        return totals

    def missed(self) -> int:
        """Hits of probes at which the kernel ran no program, nor a backup program of it."""
        missed = sum(_misses(program) for _, program in self._counted)
        if not (missed and self._backups):
            return missed
        # Asked in this order, what a backup program is about to handle is not among them.
        by_all = sum(
            min(_misses(each) for each in (program, *self._backups.get(name, ())))
            for name, program in self._counted
        )
        return max(0, min(by_all, missed - self._totals()[int(lib.LBT_BY_BACKUP)]))

    def pending_losses(self) -> list[tuple[int, int, int, tuple[int, ...]]]:
        """Losses that no later event reported: pid, tid, goroutine, and the number of events by
        kind."""
        found: list[tuple[int, int, int, tuple[int, ...]]] = []
        key, following = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        loss = ffi.new("struct lbt_loss *")
        pending, before = self.map("pending_losses"), ffi.NULL
        while lib.bpf_map__get_next_key(pending, before, following, 8) == 0:
            key[0], before = following[0], key
            if lib.bpf_map__lookup_elem(pending, key, 8, loss, ffi.sizeof("struct lbt_loss"), 0):
                continue
            goroutine = key[0] % (1 << lib.LBT_LANE_BITS) if key[0] >> lib.LBT_LANE_BITS else 0
            found.append((loss.pid, loss.tid, goroutine, tuple(loss.lost)))
        return found

    def _config(self, handle: Any) -> Any:
        """The part of an object's configuration that depends on the machine."""
        size = ffi.new("size_t *")
        memory = lib.bpf_map__initial_value(_map(handle, ".rodata.config"), size)
        config = ffi.cast("struct lbt_config *", check_pointer(memory, "configure"))
        if os.readlink("/proc/self/ns/pid") != INITIAL_PIDNS:
            namespace = os.stat("/proc/self/ns/pid")
            config.pidns_device, config.pidns_inode = namespace.st_dev, namespace.st_ino
        config.typed_task = self._typed_task
        return config

    def _shape_maps(
        self, specs: Specs, ring_size: int, later: int, *, early: bool, by_backup: bool
    ) -> None:
        """Size the maps; with ``early``, let them have all their memory from the start: older
        kernels warn of programs of probes that allocate some (check_map_prog_compatibility() in
        kernel/bpf/verifier.c)."""
        sizes = {"ring": ring_size, "specs": max(1, len(specs) + later)}
        sizes |= specs.returning.sizes()
        if not by_backup:
            sizes["handled"] = 1
        sizes["rooms"] = ROOMS if specs.rooms else 1
        if not specs.off_cpu:
            sizes["thread_times"] = 1
        for name in specs.actions:
            sizes[f"{name}_map"] = shape(self.map(f"{name}_map"), name, specs)
        sizes["met_stacks"] = MET_STACKS if "stacks" in specs.actions else 1
        if specs.nesting:
            sizes["innermost_calls"] = BUCKETS
            sizes["unsure_calls"] = AGGREGATES if specs.times_inner else 1
        for name, entries in sizes.items():
            code = lib.bpf_map__set_max_entries(self.map(name), entries)
            check(code, f"size the map {name}")
        for name in ALLOCATING if early else ():
            code = lib.bpf_map__set_map_flags(self.map(name), 0)
            check(code, f"choose how to allocate the map {name}")

    def _load(self, handle: Any, programs: Programs, *, waits: bool) -> None:
        for name, how in programs.items():
            program = _program(handle, name)
            check(lib.bpf_program__set_autoload(program, True), "choose programs")
            if how.attach_type is not None:
                code = lib.bpf_program__set_expected_attach_type(program, how.attach_type)
                check(code, "set an attach type")
            if waits and how.may_sleep:
                code = lib.bpf_program__set_flags(program, lib.BPF_F_SLEEPABLE)
                check(code, "let programs sleep")
            if served := served_by(name):
                self._backups.setdefault(served, []).append(program)
            elif how.counted and loses(name):
                self._counted.append((name, program))
        with held_back():  # a signal ends the verifier's work: EAGAIN, do_check() in verifier.c
            check(lib.bpf_object__load(handle), "load the BPF programs")


def open_object(name: str = "") -> Any:
    """Return an object for this machine and kernel, opened, not loaded: of programs that may sleep,
    or that of the others, ``atomic``. Raises `KernelError`."""
    name = name or ("trace" if finds_mappings() else "early")
    name = f"{name}.{platform.machine()}.bpf.o"
    data = read_bytes(os.path.join(os.path.dirname(__file__), "objects", name))
    if not finds_mappings():
        data = data.replace(EXCHANGE, ADDITION)
    options = ffi.new("struct bpf_object_open_opts *")
    options.sz = ffi.sizeof("struct bpf_object_open_opts")
    title = ffi.new("char[]", b"lbtrace")
    options.object_name = title
    opened = lib.bpf_object__open_mem(data, len(data), options)
    return check_pointer(opened, f"open {name}")


def _misses(program: Any) -> int:
    """How often the kernel skipped a program."""
    return max(0, int(lib.lbt_program_misses(lib.bpf_program__fd(program))))


def _program(handle: Any, name: str) -> Any:
    program = lib.bpf_object__find_program_by_name(handle, name.encode())
    return check_pointer(program, f"find the BPF program {name}")


def _map(handle: Any, name: str) -> Any:
    found = lib.bpf_object__find_map_by_name(handle, name.encode())
    return check_pointer(found, f"find the BPF map {name}")


def _lead_to(name: str, handle: Any) -> None:
    """Let programs go on to one of the same object, by its map ``NAME_program``."""
    fd = ffi.new("int *", lib.bpf_program__fd(_program(handle, name)))
    target, first = _map(handle, f"{name}_program"), ffi.new("uint32_t *")
    check(lib.bpf_map__update_elem(target, first, 4, fd, 4, 0), f"lead to {name}")


def _share_maps(loaded: Any, copy: Any) -> None:
    """Let ``copy`` use the maps of ``loaded`` that it has, too; its constants stay its own."""
    own = lib.bpf_object__next_map(copy, ffi.NULL)
    while own != ffi.NULL:
        name = ffi.string(lib.bpf_map__name(own)).decode()
        shared = lib.bpf_object__find_map_by_name(loaded, name.encode())
        if shared != ffi.NULL and not name.endswith(".config"):
            code = lib.bpf_map__reuse_fd(own, lib.bpf_map__fd(shared))
            check(code, f"share the map {name}")
        own = lib.bpf_object__next_map(copy, own)


def _require_types() -> None:
    """Raise `KernelError` where the kernel's types cannot be read, which loading needs."""
    if not os.path.isdir("/sys/kernel"):
        raise KernelError("/sys is not there, where the kernel describes its types", "mount /sys")
    if not has_btf():
        raise KernelError(
            "this kernel has no type information: /sys/kernel/btf/vmlinux is missing",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are",
        )

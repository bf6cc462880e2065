"""How probes may use the long nops with which functions begin, in the processes of a target.

From Linux 6.18 on the kernel puts a call in the place of such a nop when a probe on it is hit
(``arch_uprobe_optimize``, arch/x86/kernel/uprobes.c). That costs a third of a breakpoint. But the
call leads to a page that kernels (seen on 6.18) do not copy to a forked process, which has the call
and crashes, whether it is traced or not; it writes below the stack pointer; and it makes a system
call: where that is emulated (``PTRACE_SYSEMU``) or dispatched to the program itself
(``PR_SET_SYSCALL_USER_DISPATCH``), hits are lost, and the program sees a call that it did not make.

What this kernel does with an instruction is found by a trial, once a boot (some 30 ms). Where it
puts a call in its place, only a process that does none of this, as far as its files show, is
probed there.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from lbtrace.elf.cache import Cache, directory
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure, closure
from lbtrace.elf.symbols import SHF_EXECINSTR
from lbtrace.elf.unwind import Unwind
from lbtrace.errors import BinaryError
from lbtrace.machine import Machine
from lbtrace.machine.long_nops import UNASKED, NopUse
from lbtrace.model import Target
from lbtrace.system.procfs import read_text
from lbtrace.targets.abilities import C_LIBRARY, find_abilities
from lbtrace.targets.reach import Abilities, Reach, find_reach
from lbtrace.targets.watchers import find_watcher

BOOT = "/proc/sys/kernel/random/boot_id"

DISPATCHES = "prctl"
"""What programs call to serve their system calls themselves."""

REPLACED = (bytes.fromhex("0f1f440000"), bytes.fromhex("662e0f1f840000000000"))
"""What kernels put calls in the place of: the first one from Linux 6.18 to 7.1, the second one from
7.2 on (``x86_nops`` of arch/x86/include/asm/nops.h)."""

INSTEAD = "the kernel would put a call in its place"
"""What reasons begin with."""

QUICK = NopUse(safe=True, quick=True, reason="the kernel puts a call in its place")

PLAIN = NopUse(safe=True)


class Circumstances(NamedTuple):
    """Whose system calls and children matter: the process maps ``around``, is ``able`` to do
    that, has that ``watcher`` of its system calls; the probes ``reach`` it, and maybe others."""

    around: Closure | None
    able: Abilities
    reach: Reach
    watcher: str


class LongNops:
    """Answers for one target (`lbtrace.machine.long_nops.AskNop`). ``find`` is called when the
    first question needs it."""

    def __init__(self, find: Callable[[], Circumstances]) -> None:
        self._find = cache(find)
        self._hazard = cache(self._find_hazard)

    def __call__(self, raw: bytes) -> NopUse:
        """Return how a probe may use the instruction ``raw`` at the start of a function."""
        trial = try_nop(raw)
        if trial is None:
            return UNASKED
        if not trial.replaced:
            return PLAIN
        reason = self._hazard(trial.forks) if trial.exact else ", which changes more than that"
        return NopUse(False, reason=INSTEAD + reason) if reason else QUICK

    def _find_hazard(self, forks: bool) -> str:
        """Why such a call would do harm, on a kernel on which processes may fork then or not."""
        around, able, reach, watcher = self._find()
        if able.forks and not forks:
            return ": a process that it may fork would crash there"
        if reach.everyone or around is None or around.missing:
            return ", also in processes outside the request"
        if watcher:
            return f": its system call would be watched by {watcher}"
        return next(filter(None, map(_hazard_of_file, around.paths)), "")


def of_file(image: Image) -> LongNops:
    """Return the answers for a program that is started alone; for a library, in any process."""

    def find() -> Circumstances:
        if not image.is_program:
            return Circumstances(None, Abilities(), find_reach(Target(), None, Abilities()), "")
        target = Target(command=(image.path,))
        around = closure(image.path, os.environ)
        able = find_abilities(target, around)
        reach = find_reach(target, None, able)
        return Circumstances(around, able, reach, find_watcher(target, around))

    return LongNops(find)


class Trial(NamedTuple):
    """What the kernel does with a probe on an instruction: it is ``replaced`` by a call, is
    ``exact`` at the start of functions, ``forks`` says that so it is in forked processes."""

    replaced: bool
    exact: bool
    forks: bool


@cache
def try_nop(raw: bytes) -> Trial | None:
    """Return what the running kernel does with the instruction ``raw``; None where it cannot be
    tried, for example without privileges."""
    from lbtrace.bpf._libbpf import lib  # imported here because few functions need it

    kept = _kept(raw)
    found = kept.load() or lib.lbt_try_nop(raw, len(raw))
    if not found & lib.LBT_NOP_TRIED:
        return None
    kept.store(found)
    return Trial(
        bool(found & lib.LBT_NOP_REPLACED),
        bool(found & lib.LBT_NOP_EXACT),
        bool(found & lib.LBT_NOP_FORKS),
    )


class _Kept:
    """The findings of a trial, kept as long as the kernel runs."""

    def __init__(self, boot: str, raw: bytes) -> None:
        self._key = repr((boot, tuple(os.uname()), raw)).encode()
        name = f"{zlib.crc32(self._key):x}-{zlib.adler32(self._key):x}"
        self._cache = Cache(directory() if boot else None, name)
        self._stored = False

    def load(self) -> int:
        """Return them; 0 where there are none."""
        found = self._cache.load(".nop")
        content = found.data[found.start :] if found else b""
        self._stored = content[1:] == self._key
        return content[0] if self._stored else 0

    def store(self, findings: int) -> None:
        """Keep them, if that is possible."""
        if not self._stored:
            self._cache.store(".nop", (bytes((findings,)), self._key))


def _kept(raw: bytes) -> _Kept:
    boot = ""
    with suppress(OSError):  # /proc is not mounted
        boot = read_text(BOOT)
    return _Kept(boot, raw)


def _hazard_of_file(path: str) -> str:
    """Why a file that a process maps speaks against more system calls in it; its own may fork it,
    or serve those that it makes."""
    try:
        image = Image.open(path)
    except BinaryError:
        return ""  # mapped, but no code
    dynamic = image.once(Dynamic)
    if C_LIBRARY.match(dynamic.soname):
        return ""
    if DISPATCHES in dynamic.imports:
        return f": the program may serve its system call ({path} imports {DISPATCHES})"
    address = next(_system_calls(image), None)
    if address is None:
        return ""
    return f": {path} makes system calls by itself ({address:#x}), which may fork it"


def _system_calls(image: Image) -> Iterator[int]:
    unwind = Unwind(image)
    machine = Machine(image.machine)
    places = [(s.address, s.size) for s in image.sections if s.flags & SHF_EXECINSTR]
    for address, size in places or [(s.address, s.size) for s in image.executable_segments]:
        yield from machine.find_system_calls(image.view(address, size), address, unwind.start_of)

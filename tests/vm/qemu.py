"""Booting a guest in QEMU, with a time limit, its serial console in a file."""

from __future__ import annotations

import os
import re
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from power import Power

RESULTS_SIZE = 64 << 20
"""Bytes of the disk on which the guest hands back an archive; a sparse file."""

TRIAL_SECONDS = 30

# pauth-impdef: QEMU's emulation of the standard pointer authentication is very slow.
EMULATED = {
    "amd64": ("qemu-system-x86_64", "-M", "q35", "-cpu", "max"),
    "arm64": ("qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"),
}
VIRTUALISED = {
    "amd64": ("qemu-system-x86_64", "-M", "q35", "-cpu", "host"),
    "arm64": ("qemu-system-aarch64", "-M", "virt,gic-version=host", "-cpu", "host"),
}
CONSOLE = {"amd64": "ttyS0", "arm64": "ttyAMA0"}

PARAMETERS = "quiet panic=-1 oops=panic mitigations=off init_on_alloc=0 log_buf_len=1M"
"""Of the kernel. Debian's zeroes each page that it gives away: a fifth of the processor time of an
emulated guest. The log must not forget where the tests began."""


@dataclass(frozen=True)
class Machine:
    """A guest to boot: its architecture as Debian names it, its kernel and initrd."""

    architecture: str
    kernel: Path
    initrd: Path
    memory: int = 1536
    """In MiB."""
    processors: int = 2
    """Under KVM; an emulated machine has one. QEMU 7.2's emulation of several now and then
    runs code that another one has just patched: kernels panicked as perf events came and
    went, in ``__schedule`` on x86 and ``perf_ctx_sched_task_cb`` on arm64; and its cmpxchg16b of
    several processors made kernels from 6.12 on fault while booting."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    ``status`` is the exit status the guest said, None if it said none; ``ended`` is
    False where its time was over.
    """

    status: int | None
    ended: bool
    seconds: float
    accelerated: bool


def run(
    machine: Machine, root: Path, payload: Path, results: Path, limit: float, power: Power
) -> Outcome:
    """Boot ``machine`` with its two disks and unpack what it hands back into ``results``.

    The console goes to ``serial.log`` there. After ``limit`` seconds the
    machine is switched off. Raises `OSError` or `tarfile.TarError` where the results
    cannot be laid down, and `power.SwitchedOff`.
    """
    serial = results / "serial.log"
    accelerated = _kvm_works(machine, power)
    start = time.monotonic()
    with TemporaryDirectory(dir=results) as directory:
        disk = Path(directory) / "results.img"
        with disk.open("wb") as file:
            file.truncate(RESULTS_SIZE)
        # A test mounts the payload again, to write there: it is this run's own.
        disks = [*_disk("root", root, True), *_disk("payload", payload, False)]
        disks += _disk("results", disk, False)
        ended = _boot(machine, disks, serial, limit, power, kvm=accelerated)
        seconds = time.monotonic() - start
        console = serial.read_bytes() if serial.exists() else b""
        said = re.search(rb"^lbtrace-vm: exit status (\d+)", console, re.MULTILINE)
        # QEMU ends with 0 after a panic as well: only the guest's own word counts.
        if said:
            with tarfile.open(disk) as archive:
                # Python 3.11 has filters from 3.11.4 on.
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(results)
    return Outcome(int(said[1]) if said else None, ended, seconds, accelerated)


def _kvm_works(machine: Machine, power: Power) -> bool:
    """Whether a trial boot under KVM ends as it should: that the device opens proves nothing."""
    native = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
    if machine.architecture != native or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with TemporaryDirectory() as directory:
        serial = Path(directory) / "serial.log"
        _boot(machine, [], serial, TRIAL_SECONDS, power, kvm=True, parameters="lbtrace.trial")
        return serial.exists() and b"lbtrace-vm: trial boot works" in serial.read_bytes()


def _boot(
    machine: Machine,
    disks: list[str],
    serial: Path,
    limit: float,
    power: Power,
    *,
    kvm: bool,
    parameters: str = "",
) -> bool:
    """Whether the machine ended by itself."""
    cpu = (VIRTUALISED if kvm else EMULATED)[machine.architecture]
    console = CONSOLE[machine.architecture]
    command = [
        *cpu,
        *("-accel", "kvm" if kvm else "tcg"),
        *("-m", str(machine.memory), "-smp", str(machine.processors if kvm else 1)),
        *("-kernel", str(machine.kernel), "-initrd", str(machine.initrd)),
        *("-append", f"console={console} {PARAMETERS} {parameters}"),
        *("-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{serial}"),
        *("-device", "virtio-rng-pci"),
        *disks,
    ]
    # What QEMU itself says, for the case that it cannot start at all.
    return power.run(command, serial.with_name("qemu.log"), limit)


def _disk(name: str, file: Path, read_only: bool) -> list[str]:
    # The guest distinguishes its disks by their serial numbers, not by their order.
    drive = f"if=none,id={name},format=raw,file={file},readonly={'on' if read_only else 'off'}"
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={name},serial={name}"]

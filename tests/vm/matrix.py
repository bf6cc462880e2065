"""Runs tests/kernel with a wheel on a matrix of kernels, each in its own virtual machine.

    python tests/vm/matrix.py --kernels "5.10 6.1 6.12 newest arm64-6.12" --wheel dist/….whl

Results are left in build/out/vm/results, a directory a kernel: junit.xml,
serial.log and dmesg.txt. Ends with 1 if any kernel failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import initrd
import kernel_package
import payload
import qemu
import rootfs
import table
import wheels
from cache import OUT, REPOSITORY
from interpreter import Interpreter
from kernels import KERNELS, Kernel
from packages import PackageError

RESULTS = OUT / "results"


@dataclass(frozen=True)
class Job:
    """A machine made ready: what `qemu.run` needs."""

    kernel: Kernel
    machine: qemu.Machine
    root: Path
    payload: Path
    results: Path


def main() -> int:
    """The command line; returns the exit status."""
    options = _parse()
    interpreter = Interpreter()
    runs: dict[str, Future[bool]] = {}
    failed = []
    # While one machine runs, the next is made ready.
    with ThreadPoolExecutor(options.jobs) as pool:
        for name in options.kernels:
            try:
                job = _prepare(KERNELS[name], interpreter, options)
            except (PackageError, wheels.WheelError) as error:
                _say(f"{name}: {error}")
                failed.append(name)
            else:
                runs[name] = pool.submit(_run, job, options.limit)
    failed += [name for name, run in runs.items() if not run.result()]
    if failed:
        _say(f"failed: {' '.join(failed)}")
    return 1 if failed else 0


def _prepare(kernel: Kernel, interpreter: Interpreter, options: argparse.Namespace) -> Job:
    start = time.monotonic()
    results = RESULTS / kernel.name
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    files = kernel_package.fetch(kernel)
    job = Job(
        kernel,
        qemu.Machine(kernel.architecture, files.image, initrd.build(kernel, files)),
        rootfs.build(kernel.architecture, interpreter),
        results / "payload.ext4",
        results,
    )
    payload.build(
        job.payload,
        kernel,
        interpreter,
        wheel=wheels.choose(options.wheel, kernel.machine),
        tests=options.tests,
        programs=_programs(options.programs, kernel),
        environment=_environment(kernel, files.release, options),
    )
    _say(f"{kernel.name}: {files.release} made ready in {time.monotonic() - start:.0f} s")
    return job


def _run(job: Job, limit: float) -> bool:
    outcome = qemu.run(job.machine, job.root, job.payload, job.results, limit)
    job.payload.unlink()
    return _report(job.kernel, outcome, job.results)


def _report(kernel: Kernel, outcome: qemu.Outcome, results: Path) -> bool:
    how = "KVM" if outcome.accelerated else "emulated"
    took = f"{outcome.seconds:.0f} s, {how}"
    if outcome.status == 0 and (results / "junit.xml").exists():
        missed = "; ".join(sorted(set(table.skipped(results / "junit.xml"))))
        _say(f"{kernel.name}: {f'FAILED, skipped: {missed}' if missed else 'passed'} ({took})")
        return not missed
    console = (results / "serial.log").read_text(errors="replace").splitlines()
    end = "no exit status" if outcome.status is None else f"exit status {outcome.status}"
    _say("\n".join([*console[-60:], f"{kernel.name}: FAILED, {end} ({took}); see {results}"]))
    return False


def _say(text: str) -> None:
    print(text, flush=True)


def _environment(kernel: Kernel, release: str, options: argparse.Namespace) -> dict[str, str]:
    return {
        "LBTRACE_REQUIRE": os.environ.get("LBTRACE_REQUIRE", "kernel"),
        "LBTRACE_VM_RELEASE": release,
        "LBTRACE_VM_MACHINE": kernel.machine,
        "LBTRACE_VM_FEATURES": ",".join(sorted(kernel.features)),
        "LBTRACE_VM_TESTS": options.select,
        # Ends in time to hand back what there is by then.
        "LBTRACE_VM_SECONDS": str(round(options.limit * 0.9)),
    }


def _programs(directory: Path | None, kernel: Kernel) -> Path | None:
    """The programs for the kernel's machine, if there is a directory for each machine."""
    if directory and (directory / kernel.machine).is_dir():
        return directory / kernel.machine
    return directory


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--kernels",
        type=str.split,
        default=list(KERNELS),
        help=f"names out of: {' '.join(KERNELS)} (default: all)",
    )
    parser.add_argument(
        "--wheel", type=Path, action="append", required=True, help="a wheel; one a machine"
    )
    parser.add_argument(
        "--tests", type=Path, default=REPOSITORY / "tests", help="the directory tests/"
    )
    parser.add_argument(
        "--select",
        default="tests/kernel",
        help="what pytest runs, seen from the repository (default: tests/kernel)",
    )
    parser.add_argument(
        "--programs", type=Path, help="programs compiled for the tests; may hold one per machine"
    )
    parser.add_argument("--limit", type=float, default=900, help="seconds a machine may run")
    parser.add_argument("--jobs", type=int, default=1, help="machines that run at once")
    options = parser.parse_args()
    if unknown := set(options.kernels) - set(KERNELS):
        parser.error(f"no such kernel: {' '.join(sorted(unknown))} (there are {' '.join(KERNELS)})")
    for file in (*options.wheel, options.tests, options.programs):
        if file is not None and not file.exists():
            parser.error(f"{file} does not exist")
    return options


if __name__ == "__main__":
    sys.exit(main())

"""Runs tests/kernel with a wheel on a matrix of kernels, each in its own virtual machine.

    python tests/vm/matrix.py --kernels "5.10 6.1 6.12 newest arm64-6.12" --wheel dist/….whl

Results are left in build/out/vm/results, a directory a kernel: junit.xml,
serial.log and dmesg.txt. Ends with 1 if any kernel failed, or complained of itself.
Interrupted, it leaves no machine running and nothing half made.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import initrd
import kernel_log
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
from power import Power, SwitchedOff

PAYLOAD = "payload.ext4"

UNREADY = (PackageError, wheels.WheelError, OSError, subprocess.CalledProcessError)
"""What goes wrong outside of lbtrace: the archive, the network, the disk."""

INTERESTING = 60
"""Lines of a console that are shown of a failure."""


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
    signal.signal(signal.SIGTERM, _interrupt)
    power = Power()
    try:
        failed = _matrix(options, power)
    except UNREADY as error:
        _say(f"no machine can be made ready: {error}")
        return 1
    except KeyboardInterrupt:
        _say("interrupted: all machines are switched off")
        return 130
    if failed:
        _say(f"failed: {' '.join(failed)}")
    _say(f"figures: {_figures(options, failed)}")
    return 1 if failed else 0


def _figures(options: argparse.Namespace, failed: list[str]) -> str:
    """How many kernels and tests passed, as far as there are results."""
    kernels = options.kernels
    files = [options.results / name / "junit.xml" for name in kernels]
    runs = [table.read(file) for file in files if file.exists()]
    tests = sum((counts for run in runs for counts in run.results.values()), Counter[str]())
    passed = f"{len(kernels) - len(failed)} of {len(kernels)} kernels passed"
    return f"{passed}: {tests[table.PASSED]:,} tests passed, {tests[table.FAILED]:,} failed"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _matrix(options: argparse.Namespace, power: Power) -> list[str]:
    """Run the chosen kernels; return those that failed."""
    interpreter = Interpreter()
    runs: dict[str, Future[bool]] = {}
    failed = []
    # While one machine runs, the next is made ready.
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            for name in options.kernels:
                try:
                    job = _prepare(KERNELS[name], interpreter, options)
                except UNREADY as error:
                    _say(f"{name}: cannot be made ready: {error}")
                    failed.append(name)
                else:
                    runs[name] = pool.submit(_run, job, options.limit, power)
            return failed + [name for name, run in runs.items() if not run.result()]
        except BaseException:
            power.off()
            pool.shutdown(cancel_futures=True)
            for name in options.kernels:
                (options.results / name / PAYLOAD).unlink(missing_ok=True)
            raise


def _prepare(kernel: Kernel, interpreter: Interpreter, options: argparse.Namespace) -> Job:
    start = time.monotonic()
    results = options.results / kernel.name
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    files = kernel_package.fetch(kernel)
    job = Job(
        kernel,
        qemu.Machine(
            kernel.architecture,
            files.image,
            initrd.build(kernel, files),
        ),
        rootfs.build(kernel.architecture, interpreter, options.packages),
        results / PAYLOAD,
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


def _run(job: Job, limit: float, power: Power) -> bool:
    try:
        outcome = qemu.run(job.machine, job.root, job.payload, job.results, limit, power)
    except SwitchedOff:
        return False
    except (OSError, tarfile.TarError) as error:
        _say(f"{job.kernel.name}: FAILED, {error}")
        return False
    finally:
        job.payload.unlink(missing_ok=True)
    return _report(job.kernel, outcome, job.results)


def _report(kernel: Kernel, outcome: qemu.Outcome, results: Path) -> bool:
    how = "KVM" if outcome.accelerated else "emulated"
    took = f"{outcome.seconds:.0f} s, {how}"
    complaints = kernel_log.complaints(results / "dmesg.txt")
    if outcome.status == 0 and (results / "junit.xml").exists():
        missed = sorted(set(table.skipped(results / "junit.xml")))
        wrong = [f"skipped: {reason}" for reason in missed]
        wrong += [f"the kernel says: {complaint}" for complaint in complaints]
        verdict = f"FAILED, {'; '.join(wrong)}; see {results}" if wrong else "passed"
        _say(f"{kernel.name}: {verdict} ({took})")
        return not wrong
    logs = [results / name for name in ("qemu.log", "serial.log")]
    lines = [
        line
        for log in logs
        if log.exists()
        for line in log.read_text(errors="replace").splitlines()[-INTERESTING:]
    ]
    end = _end(outcome, lines)
    _say("\n".join([*lines, *complaints, f"{kernel.name}: FAILED, {end} ({took}); see {results}"]))
    return False


def _end(outcome: qemu.Outcome, lines: list[str]) -> str:
    """How a machine ended that failed."""
    if not outcome.ended:
        return "switched off at its time limit (--limit)"
    if outcome.status is not None:
        return f"exit status {outcome.status}"
    if any("Kernel panic" in line for line in lines):
        return "its kernel panicked"
    return "it ended without an exit status"


def _say(text: str) -> None:
    print(text, flush=True)


def _environment(kernel: Kernel, release: str, options: argparse.Namespace) -> dict[str, str]:
    return {
        "LBTRACE_REQUIRE": os.environ.get("LBTRACE_REQUIRE", "kernel"),
        "LBTRACE_READBACK": os.environ.get("LBTRACE_READBACK", "1"),
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
    parser.add_argument(
        "--packages", type=str.split, default=[], help="of Debian, which the tests want as well"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=OUT / "results",
        help="where results are left (default: %(default)s)",
    )
    parser.add_argument("--limit", type=float, default=1500, help="seconds a machine may run")
    parser.add_argument("--jobs", type=int, default=1, help="machines that run at once")
    options = parser.parse_args()
    if unknown := set(options.kernels) - set(KERNELS):
        parser.error(f"no such kernel: {' '.join(sorted(unknown))} (there are {' '.join(KERNELS)})")
    if not options.kernels:
        parser.error(f"--kernels names none (there are {' '.join(KERNELS)})")
    for file in (*options.wheel, options.tests, options.programs):
        if file is not None and not file.exists():
            parser.error(f"{file} does not exist")
    return options


if __name__ == "__main__":
    sys.exit(main())

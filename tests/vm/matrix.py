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
from pathlib import Path

import initrd
import kernel_package
import payload
import qemu
import rootfs
import wheels
from cache import OUT, REPOSITORY
from interpreter import Interpreter
from kernels import KERNELS, Kernel
from packages import PackageError

RESULTS = OUT / "results"


def main() -> int:
    """The command line; returns the exit status."""
    options = _parse()
    interpreter = Interpreter()
    failed = [name for name in options.kernels if not _run(KERNELS[name], interpreter, options)]
    if failed:
        print(f"failed: {' '.join(failed)}")
    return 1 if failed else 0


def _run(kernel: Kernel, interpreter: Interpreter, options: argparse.Namespace) -> bool:
    results = RESULTS / kernel.name
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    start = time.monotonic()
    try:
        files = kernel_package.fetch(kernel)
        machine = qemu.Machine(kernel.architecture, files.image, initrd.build(kernel, files))
        root = rootfs.build(kernel.architecture, interpreter)
        image = results / "payload.ext4"
        payload.build(
            image,
            kernel,
            interpreter,
            wheel=wheels.choose(options.wheel, kernel.machine),
            tests=options.tests,
            programs=_programs(options.programs, kernel),
            environment=_environment(kernel, files.release, options),
        )
    except (PackageError, wheels.WheelError) as error:
        print(f"{kernel.name}: {error}", flush=True)
        return False
    print(
        f"{kernel.name}: {files.release} made ready in {time.monotonic() - start:.0f} s", flush=True
    )
    outcome = qemu.run(machine, root, image, results, options.limit)
    image.unlink()
    return _report(kernel, outcome, results)


def _report(kernel: Kernel, outcome: qemu.Outcome, results: Path) -> bool:
    how = "KVM" if outcome.accelerated else "emulated"
    took = f"{outcome.seconds:.0f} s, {how}"
    if outcome.status == 0 and (results / "junit.xml").exists():
        print(f"{kernel.name}: passed ({took})", flush=True)
        return True
    console = (results / "serial.log").read_text(errors="replace").splitlines()
    print("\n".join(console[-60:]))
    end = "no exit status" if outcome.status is None else f"exit status {outcome.status}"
    print(f"{kernel.name}: FAILED, {end} ({took}); see {results}", flush=True)
    return False


def _environment(kernel: Kernel, release: str, options: argparse.Namespace) -> dict[str, str]:
    return {
        "LBTRACE_REQUIRE": os.environ.get("LBTRACE_REQUIRE", "kernel"),
        "LBTRACE_VM_RELEASE": release,
        "LBTRACE_VM_MACHINE": kernel.machine,
        "LBTRACE_VM_FEATURES": ",".join(sorted(kernel.features)),
        "LBTRACE_VM_TESTS": options.select,
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
    parser.add_argument("--limit", type=float, default=600, help="seconds a machine may run")
    options = parser.parse_args()
    if unknown := set(options.kernels) - set(KERNELS):
        parser.error(f"no such kernel: {' '.join(sorted(unknown))} (there are {' '.join(KERNELS)})")
    for file in (*options.wheel, options.tests, options.programs):
        if file is not None and not file.exists():
            parser.error(f"{file} does not exist")
    return options


if __name__ == "__main__":
    sys.exit(main())

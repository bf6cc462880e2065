"""Lays out what `vagrant up` brings into the guest, and the kernel it may boot.

    python vagrant/stage.py --wheel dist/….whl [--kernel 5.10]

The Vagrantfile looks for it in build/out/vm/vagrant.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "vm"))

import initrd  # noqa: E402
import kernel_package  # noqa: E402
import wheels  # noqa: E402
from cache import OUT, REPOSITORY  # noqa: E402
from interpreter import Interpreter  # noqa: E402
from kernels import KERNELS, Kernel  # noqa: E402

STAGE = OUT / "vagrant"


def stage_kernel(kernel: Kernel, directory: Path) -> None:
    """Put ``vmlinuz`` and ``initrd`` into ``directory``: they boot any box from its own disk."""
    files = kernel_package.fetch(kernel)
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(files.image, directory / "vmlinuz")
    shutil.copy(initrd.build(kernel, files, HERE / "init", ["virtio_net"]), directory / "initrd")


def stage_tests(
    wheel: Path, machine: str, tests: Path, programs: Path | None, kernel: Kernel | None
) -> None:
    """Lay out the directory that the guest sees as ``/lbtrace``."""
    stage = STAGE / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    shutil.copytree(wheels.download(wheel, machine, Interpreter().version), stage / "wheels")
    shutil.copy(wheel, stage / "wheels")
    shutil.copytree(tests, stage / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", stage)
    known = ",".join(sorted(kernel.features)) if kernel else ""
    (stage / "environment").write_text(f"export LBTRACE_VM_FEATURES={shlex.quote(known)}\n")
    for script in ("install", "test"):
        shutil.copy(HERE / script, stage)
    if programs:
        shutil.copytree(programs, stage / "programs", symlinks=True)


def main() -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--wheel", type=Path, action="append", required=True)
    parser.add_argument("--kernel", choices=KERNELS, help="a kernel to boot the box with")
    parser.add_argument("--tests", type=Path, default=REPOSITORY / "tests")
    parser.add_argument("--programs", type=Path, help="programs compiled for the tests")
    options = parser.parse_args()
    machine = KERNELS[options.kernel].machine if options.kernel else "x86_64"
    kernel = KERNELS[options.kernel] if options.kernel else None
    wheel = wheels.choose(options.wheel, machine)
    stage_tests(wheel, machine, options.tests, options.programs, kernel)
    if kernel:
        stage_kernel(kernel, STAGE / "kernels" / kernel.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

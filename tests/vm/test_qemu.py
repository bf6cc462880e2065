"""How the runner judges a guest that does not end as it should. Each boots for real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Timer

import initrd
import kernel_package
import pytest
import qemu
import rootfs
from image import make_image
from interpreter import Interpreter
from kernels import KERNELS
from power import Power, SwitchedOff

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine(qemu_installed: None) -> qemu.Machine:
    kernel = KERNELS["6.12"]
    files = kernel_package.fetch(kernel)
    return qemu.Machine(kernel.architecture, files.image, initrd.build(kernel, files))


@pytest.fixture(scope="module")
def root(qemu_installed: None) -> Path:
    return rootfs.build("amd64", Interpreter())


def _boot(
    machine: qemu.Machine,
    root: Path,
    script: str,
    path: Path,
    limit: float,
    power: Power | None = None,
) -> qemu.Outcome:
    tree, results = path / "payload", path / "results"
    tree.mkdir()
    results.mkdir()
    (tree / "run").write_text(script)
    make_image(tree, path / "payload.ext4", "payload")
    return qemu.run(machine, root, path / "payload.ext4", results, limit, power or Power())


def test_status_and_files_come_back(machine: qemu.Machine, root: Path, tmp_path: Path) -> None:
    script = """
        mkdir /results
        uname -r >/results/release
        tar -c -f /dev/results -C /results .
        echo "lbtrace-vm: exit status 7"
        busybox poweroff -f
    """
    outcome = _boot(machine, root, script, tmp_path, 120)
    assert outcome.status == 7
    assert (tmp_path / "results/release").read_text().startswith("6.12.")


def test_panic_is_no_success(machine: qemu.Machine, root: Path, tmp_path: Path) -> None:
    outcome = _boot(machine, root, "echo c >/proc/sysrq-trigger", tmp_path, 120)
    assert outcome.status is None
    assert outcome.ended
    assert "panic" in (tmp_path / "results/serial.log").read_text(errors="replace")


def test_hanging_guest_is_switched_off(machine: qemu.Machine, root: Path, tmp_path: Path) -> None:
    outcome = _boot(machine, root, "echo waiting; sleep 1000", tmp_path, 25)
    assert outcome.status is None
    assert not outcome.ended
    assert "waiting" in (tmp_path / "results/serial.log").read_text(errors="replace")


def test_interrupted_run_leaves_nothing(machine: qemu.Machine, root: Path, tmp_path: Path) -> None:
    power = Power()
    Timer(5, power.off).start()
    with pytest.raises(SwitchedOff):
        _boot(machine, root, "sleep 1000", tmp_path, 120, power)
    left = {path.name for path in (tmp_path / "results").iterdir()}
    assert left <= {"qemu.log", "serial.log"}


def test_machine_that_cannot_start(machine: qemu.Machine, root: Path, tmp_path: Path) -> None:
    outcome = _boot(replace(machine, kernel=tmp_path / "none"), root, "", tmp_path, 120)
    assert (outcome.status, outcome.ended) == (None, True)
    assert "none" in (tmp_path / "results/qemu.log").read_text()

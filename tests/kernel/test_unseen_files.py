"""Processes that run what no probe reaches, though the file has probes: this is said."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]

pytestmark = pytest.mark.host

PT_LOAD, PF_X, PF_W = 1, 1, 2
UNSEEN = "has no probes in"


@pytest.fixture
def overlaid(programs: Path, tmp_path: Path) -> Iterator[Path]:
    """A program in the lower layer of an overlay, as those of a container's image are."""
    lower, upper, work, merged = (tmp_path / each for each in ("lower", "upper", "work", "merged"))
    for each in (lower, upper, work, merged):
        each.mkdir()
    shutil.copy(programs / "loop", lower)
    layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, merged], check=True)
    try:
        yield merged / "loop"
    finally:
        subprocess.run(["umount", "--lazy", merged], check=True)


def test_a_program_that_an_overlay_has_copied(start: Start, lbtrace: Run, overlaid: Path) -> None:
    loop = start(overlaid, 1000)
    loop.wait_for("ready", "stdout")
    words = ("attach", "--func", "tick", "--pid", loop.pid, "--duration", "300ms")
    before = lbtrace(*words)
    assert UNSEEN not in before.stderr
    assert "tick(" in before.stdout
    overlaid.chmod(0o700)
    after = lbtrace(*words)
    assert f"process {loop.pid} {UNSEEN} {overlaid}" in after.stderr
    assert " 0 calls" in after.stderr
    # One that runs the copy is traced.
    newer = lbtrace("attach", "--func", "tick", "--", overlaid, 1000, 9)
    assert "tick(" in newer.stdout


def test_code_that_is_writable(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    """By the program's header, as linkers make it with ``-N``."""
    image = bytearray((programs / "fib").read_bytes())
    for number in range(int.from_bytes(image[56:58], "little")):
        header = int.from_bytes(image[32:40], "little") + 56 * number
        if image[header] == PT_LOAD and image[header + 4] & PF_X:
            image[header + 4] |= PF_W
    program = tmp_path / "writable"
    program.write_bytes(image)
    program.chmod(0o700)
    assert subprocess.run([program, "3"], check=True, capture_output=True).stdout
    done = lbtrace("attach", "--func", "fib", "--", program, 3)
    assert done.returncode == 1
    assert "the kernel places no probes in writable code" in done.stderr


@pytest.mark.parametrize("layer", ["same", "other"])
def test_callers_in_files_of_an_overlay(
    lbtrace: Run, programs: Path, tmp_path: Path, layer: str
) -> None:
    """As in containers. Where its layers are of several file systems stat(2) tells numbers that the
    kernel has not; the kernel maps the file of the lower layer."""
    lower, merged = tmp_path / "lower", tmp_path / "merged"
    with TemporaryDirectory(dir=tmp_path if layer == "same" else "/dev/shm") as above:
        for each in (lower, merged, above / Path("upper"), above / Path("work")):
            each.mkdir()
        shutil.copy(programs / "save", lower)
        layers = f"lowerdir={lower},upperdir={above}/upper,workdir={above}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, merged], check=True)
        try:
            words = ("attach", "--syscall", "fsync", "--stack", "10", "--")
            shown = lbtrace(*words, merged / "save", tmp_path / "saved").stdout
        finally:
            subprocess.run(["umount", "--lazy", merged], check=True)
    assert len(re.findall(r"← put\+0x\w+ \(save\)\n.*← save\+.*\n.*← main\+", shown)) == 3, shown

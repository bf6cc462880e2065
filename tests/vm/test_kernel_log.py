"""Complaints of a kernel, as dmesg prints them."""

from __future__ import annotations

from pathlib import Path

import kernel_log
import pytest

BEGIN = f"[   10.000001] {kernel_log.BEGIN}\n"
WARNING = "WARNING: CPU: 0 PID: 99 at kernel/events/uprobes.c:1 uprobe_unregister+0x1/0x2"


@pytest.mark.parametrize(
    ("log", "complaints"),
    [
        ("[    0.100000] Linux version 6.1\n" + BEGIN, []),
        (f"[    1.000000] {WARNING}\n" + BEGIN, []),
        (BEGIN + f"[   11.000000] {WARNING}\n", [WARNING]),
        (
            BEGIN + "[  100.500000] BUG: kernel NULL pointer dereference, address: 00\n",
            ["BUG: kernel NULL pointer dereference, address: 00"],
        ),
        (BEGIN + "[   11.000000] watchdog: BUG: soft lockup - CPU#0 stuck for 26s!\n", []),
        (BEGIN + "[   11.000000] BUG: workqueue lockup - pool cpus=0 stuck for 31s!\n", []),
        (BEGIN + "[   11.000000] traps: exact[5] general protection fault ip:0 sp:0\n", []),
        ("[    0.100000] Linux version 6.1\n", ["nothing of where the tests began"]),
        ("", ["nothing of where the tests began"]),
    ],
)
def test_complaints(tmp_path: Path, log: str, complaints: list[str]) -> None:
    (tmp_path / "dmesg.txt").write_text(log)
    assert kernel_log.complaints(tmp_path / "dmesg.txt") == complaints


def test_lost_guests_have_no_log(tmp_path: Path) -> None:
    assert kernel_log.complaints(tmp_path / "dmesg.txt") == []

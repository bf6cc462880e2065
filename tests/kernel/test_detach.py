"""Attaching and detaching where it takes long: it is announced, shown, and can be broken off."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROBES = re.compile(r"detaching may take about (\d+) s")


@pytest.fixture(autouse=True)
def _patient_kernel() -> Iterator[None]:
    """Grace periods take what they take by default: the tests' machines may hurry them."""
    hurry = Path("/sys/kernel/rcu_expedited")
    former = hurry.read_text()
    hurry.write_text("0")
    yield
    hurry.write_text(former)


def test_many_plain_probes(start_lbtrace: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    tracer = start_lbtrace(
        *("attach", "--mode", "plain", "--func", "/^many_\\d\\d?$/", "--format", "jsonl"),
        *("-o", output, "--", many),
    )
    announced = PROBES.search(tracer.wait_for("detaching may take"))
    assert announced
    assert int(announced[1]) >= 10
    tracer.wait_for("Ctrl-C leaves the rest to the kernel")
    tracer.process.send_signal(signal.SIGINT)
    status, _, error = tracer.finish(timeout=60)
    assert status == 0
    assert "34 calls" in error
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [r["name"] for r in records if r["type"] == "call"] == [
        f"many_{n}" for n in range(0, 100, 3)
    ]
    assert records[-1]["type"] == "summary"


def test_interrupted_while_attaching(
    start_lbtrace: Callable[..., Any], start: Callable[..., Any], many: Path
) -> None:
    tracer = start_lbtrace("attach", "--mode", "plain", "--func", "many_*", "--", many)
    announced = tracer.wait_for("detaching may take")
    assert int(announced.split("about ")[1].split(" s")[0]) > 1000
    tracer.wait_for("Ctrl-C gives up")
    tracer.process.send_signal(signal.SIGINT)
    status, _, error = tracer.finish(timeout=60)
    assert (status, error) == (130, "")
    status, *_ = start(many).finish(timeout=60)
    assert status == 0

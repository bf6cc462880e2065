"""Run in the guest before the tests: is this the machine they are meant for?"""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _properties(record_testsuite_property) -> None:
    machine = os.uname()
    record_testsuite_property("release", machine.release)
    record_testsuite_property("machine", machine.machine)


def test_kernel_is_the_one_asked_for() -> None:
    machine = os.uname()
    expected = os.environ["LBTRACE_VM_RELEASE"], os.environ["LBTRACE_VM_MACHINE"]
    assert (machine.release, machine.machine) == expected

"""Run in the guest before the tests: is this kernel, with its features, the one they are meant for?

A feature that is not found where the kernel is known to have it would make
other tests take another path silently; so it is a failure here.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from lbtrace.bpf.features import survey


@pytest.fixture(scope="session")
def found(record_testsuite_property: Callable[[str, object], None]) -> dict[str, bool]:
    """What lbtrace's probes find, recorded for the table of kernels as well."""
    record_testsuite_property("release", os.uname().release)
    record_testsuite_property("machine", os.uname().machine)
    features = {feature.name: feature.works for feature in survey()}
    for name, works in features.items():
        record_testsuite_property(f"feature {name}", "yes" if works else "no")
    return features


def test_kernel_is_the_one_asked_for() -> None:
    expected = os.environ["LBTRACE_VM_RELEASE"], os.environ["LBTRACE_VM_MACHINE"]
    assert (os.uname().release, os.uname().machine) == expected


def test_features_are_those_the_kernel_is_known_to_have(found: dict[str, bool]) -> None:
    known = os.environ["LBTRACE_VM_FEATURES"].split(",")
    assert sorted(name for name, works in found.items() if works) == known

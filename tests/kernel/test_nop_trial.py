"""What the trial of long nops finds on whatever kernel this is."""

from __future__ import annotations

import platform

from lbtrace.bpf import features
from lbtrace.targets import long_nops


def test_one_nop_is_replaced_at_most_and_exactly() -> None:
    trials = [long_nops.try_nop(nop) for nop in long_nops.REPLACED]
    if platform.machine() != "x86_64" or not features.probe().multi:
        assert trials == [None, None]
        return
    assert all(trials)
    replaced = [trial for trial in trials if trial and trial.replaced]
    assert len(replaced) <= 1
    assert all(trial.exact for trial in replaced)


def test_what_is_no_long_nop_is_left_in_place() -> None:
    for code in ("90", "0f1f4000", "660f1f440000"):
        trial = long_nops.try_nop(bytes.fromhex(code))
        assert trial is None or trial == long_nops.Trial(replaced=False, exact=True, forks=True)

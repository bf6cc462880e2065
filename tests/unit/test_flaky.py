"""What tests/flaky.toml says of tests that failed once."""

from __future__ import annotations

import pytest

from tests.runs import everyday


def test_the_ledger_is_complete() -> None:
    tomllib = pytest.importorskip("tomllib")
    ledger = tomllib.loads((everyday.ROOT / "tests/flaky.toml").read_text())
    for entry in ledger.get("flaky", ()):
        assert {"test", "cause", "seen", "until"} == set(entry), entry
        assert entry["seen"] < entry["until"], entry
        name, _, test = entry["test"].partition("::")
        text = (everyday.ROOT / name).read_text()
        assert f"def {test.partition('[')[0]}(" in text, f"{entry['test']} is gone: remove it"

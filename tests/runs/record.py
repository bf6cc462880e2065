"""A plugin of pytest: writes down which tests fail, and whether all that were found came to an end.

    pytest -p tests.runs.record --record FILE

A line of JSON for each failure, with the last lines of what it said, and one for the end. Where
workers run the tests, the process that leads them writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

LINES = 25
"""Lines of a failure that are kept."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="where to write down failures")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--record")
    if path and "PYTEST_XDIST_WORKER" not in os.environ:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        config.pluginmanager.register(Recorder(path), "recorder")


class Recorder:
    """Appends each failure to a file at once: what crashes later takes none away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pid = os.getpid()
        self._found = 0
        self._begun: set[str] = set()
        self._passed: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Called when all tests are found, where no workers do that."""
        self._found = max(self._found, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Called for each worker, all of which find the same."""
        self._found = max(self._found, len(ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for the start, the test and the end of each; any of them may fail."""
        self._begun.add(report.nodeid)
        if report.failed:
            self._write_failure(report.nodeid, report.longreprtext)
        elif report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each file that is read."""
        if report.failed:
            self._write_failure(report.nodeid, str(report.longrepr), crashed=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Called by pytest-xdist for a worker that is gone."""
        self._write_failure(crashitem, "the worker that ran it ended", crashed=True)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Called last of all; a pytest that ended otherwise lacks this line."""
        passed = len(self._passed)
        self._write({"found": self._found, "begun": len(self._begun), "passed": passed})

    def _write_failure(self, test: str, text: str, crashed: bool = False) -> None:
        said = "\n".join(text.splitlines()[-LINES:])
        # A child of a test that goes on as pytest would fail and pass for its parent.
        crashed = crashed or os.getpid() != self._pid
        self._write({"test": test, "said": said, "crashed": crashed})

    def _write(self, line: dict[str, object]) -> None:
        with self._path.open("a") as file:
            print(json.dumps(line), file=file)

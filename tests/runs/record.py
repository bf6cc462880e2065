"""A plugin of pytest: writes down which tests fail, with the last lines of what they said.

    pytest -p tests.runs.record --record FILE

A line of JSON for each failure. Where workers run the tests, the process that leads them writes.
"""

from __future__ import annotations

import json
import os
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

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for the start, the test and the end of each; any of them may fail."""
        if report.failed:
            self._write(report.nodeid, report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each file that is read."""
        if report.failed:
            self._write(report.nodeid, str(report.longrepr), crashed=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Called by pytest-xdist for a worker that is gone."""
        self._write(crashitem, "the worker that ran it ended", crashed=True)

    def _write(self, test: str, text: str, crashed: bool = False) -> None:
        said = "\n".join(text.splitlines()[-LINES:])
        with self._path.open("a") as file:
            print(json.dumps({"test": test, "said": said, "crashed": crashed}), file=file)

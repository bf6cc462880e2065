"""Writes docs/kernels.md, the table of kernels, features and results, from a matrix's JUnit files.

    python tests/vm/table.py build/out/vm/results docs/kernels.md

Every figure in it comes from those files; none is typed by hand.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from kernels import KERNELS

HEADER = """\
# Kernels

Made by `make kernels-table` from the results of `make vm-matrix`: one wheel, its objects
compiled once for each architecture, and the same tests on every kernel.
"""

FEATURE = "feature "
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Run:
    """The tests' results on one kernel."""

    kernel: str
    properties: dict[str, str]
    results: dict[str, Counter[str]]
    """Of each test module: how many tests passed, failed or were skipped."""

    @property
    def features(self) -> dict[str, str]:
        """What lbtrace's probes found there: ``yes`` or ``no``, by name."""
        return {
            name.removeprefix(FEATURE): value
            for name, value in self.properties.items()
            if name.startswith(FEATURE)
        }


def read(junit: Path) -> Run:
    """Read the JUnit file that pytest wrote on one kernel."""
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    if suite is None:
        raise ValueError(f"{junit} is no JUnit file")
    properties = {
        found.attrib["name"]: found.attrib["value"] for found in suite.iterfind("properties/*")
    }
    results: dict[str, Counter[str]] = {}
    for case in suite.iterfind("testcase"):
        module = case.attrib["classname"].rpartition("test_")[2] or case.attrib["classname"]
        results.setdefault(module, Counter())[_result(case)] += 1
    return Run(suite.attrib["name"], properties, results)


def skipped(junit: Path) -> list[str]:
    """Why tests were skipped on one kernel."""
    found = ElementTree.parse(junit).getroot().iterfind("testsuite/testcase/skipped")
    return [skip.attrib.get("message", "") for skip in found]


def render(runs: Sequence[Run]) -> str:
    """The document for ``runs``, a column a kernel in the order given."""
    kernels = [run.kernel for run in runs]
    features = _union(run.features for run in runs)
    modules = _union(run.results for run in runs)
    sections = [
        HEADER,
        "## Features\n",
        _table(
            ["", *kernels],
            [
                ["release", *(run.properties.get("release", "") for run in runs)],
                ["machine", *(run.properties.get("machine", "") for run in runs)],
                *([name, *(run.features.get(name, "") for run in runs)] for name in features),
            ],
        ),
        "## Tests that passed\n",
        _table(
            ["", *kernels],
            [[name, *(_counts(run.results.get(name)) for run in runs)] for name in modules],
        ),
    ]
    return "\n".join(sections)


def _result(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return FAILED
    return PASSED if case.find("skipped") is None else SKIPPED


def _counts(results: Counter[str] | None) -> str:
    """Such as ``12`` if all passed, ``12 passed, 1 failed``; empty where the module did not run."""
    counts = results or Counter()
    if set(counts) == {PASSED}:
        return str(counts[PASSED])
    return ", ".join(f"{counts[key]} {key}" for key in (PASSED, FAILED, SKIPPED) if counts[key])


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for group in names for name in group))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> int:
    """The command line; returns the exit status."""
    if len(sys.argv) != 3:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    results, page = map(Path, sys.argv[1:])
    files = {name: results / name / "junit.xml" for name in KERNELS}
    runs = [read(file) for file in files.values() if file.exists()]
    if not runs:
        print(f"{results} holds no results: run `make vm-matrix` first", file=sys.stderr)
        return 1
    page.write_text(render(runs))
    if missing := [name for name, file in files.items() if not file.exists()]:
        print(f"{page}: without {' '.join(missing)}, of which there are no results")
    return 0


if __name__ == "__main__":
    sys.exit(main())

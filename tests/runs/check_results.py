"""What came of the long checks: kept as JSON, a file each, and shown as tables."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

TABLE = "docs/development.md"
"""The page with the results: writing them into it does not make a tree another one."""

BEGIN, END = "<!-- results of the checks -->", "<!-- end of the results -->"

NOT_RUN = "not run"

FIGURES = re.compile(r"^figures: (.+)$", re.M)
PYTEST = re.compile(r"\b((?:\d+ [a-z]+, )*\d+ [a-z]+) in [\d.]+s\b")
"""pytest's last line: ``12 passed, 1 skipped in 3.21s``."""


@dataclass(frozen=True)
class Tree:
    """The commit that is checked, and whether there are changes beside it."""

    commit: str
    dirty: bool


@dataclass(frozen=True)
class Result:
    """What came of one check. ``variables`` were given to it, ``began`` is UTC."""

    check: str
    commit: str
    dirty: bool
    variables: str
    began: str
    seconds: float
    verdict: str
    figures: str

    @property
    def passed(self) -> bool:
        """Whether it ended with status 0, in time."""
        return self.verdict == "passed"

    def stands_for(self, tree: Tree, variables: str) -> bool:
        """Whether a run of the check on ``tree`` would only repeat this one."""
        same = (self.commit, self.variables) == (tree.commit, variables)
        return self.passed and same and not self.dirty and not tree.dirty


def tree_of(repository: Path) -> Tree:
    """The commit of a repository, and whether files differ from it or are new."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(repository), *words]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    changes = git("status", "--porcelain", "--", ".", f":!{TABLE}")
    return Tree(git("rev-parse", "HEAD").strip(), bool(changes))


def figures(log: Path) -> str:
    """The last line of figures that a check printed: its own, else pytest's; empty if none."""
    text = log.read_text(errors="replace")
    for pattern in (FIGURES, PYTEST):
        if found := pattern.findall(text):
            return str(found[-1]).strip()
    return ""


def keep(out: Path, result: Result) -> None:
    """Write a result; whoever reads meanwhile finds the one before, or this one."""
    file = out / f"{result.check}.json"
    made = file.with_suffix(".new")
    made.write_text(json.dumps(asdict(result), indent=2) + "\n")
    os.replace(made, file)


def read(out: Path, check: str) -> Result | None:
    """The result of a check, None where there is none that can be read."""
    file = out / f"{check}.json"
    if not file.exists():
        return None
    try:
        return Result(**json.loads(file.read_text()))
    except (ValueError, TypeError):  # cut, or of another layout
        return None


def overview(names: Sequence[str], out: Path) -> str:
    """A line for each check, for a terminal."""
    rows = []
    for name in names:
        result = read(out, name)
        rows.append([f"check-{name}", *(_cells(result) if result else (NOT_RUN, "", "", "", ""))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _cells(result: Result) -> tuple[str, str, str, str, str]:
    """How it ended, the commit, the date, how long it took, and the figures."""
    minutes = round(result.seconds / 60)
    took = f"{minutes // 60}:{minutes % 60:02} h" if minutes >= 60 else f"{result.seconds:.0f} s"
    verdict = f"{result.verdict} ({result.variables})" if result.variables else result.verdict
    commit = result.commit[:7] + (" and changes" if result.dirty else "")
    return verdict, commit, result.began[:10], took, result.figures


def write_page(page: Path, shown: Mapping[str, str], out: Path) -> None:
    """Put the results between the marks of a page, ``shown`` being what each check shows.

    A check without a result keeps what the page says of it.
    """
    before, begin, rest = page.read_text().partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no lines {BEGIN} and {END}")
    rows = [[cell.strip() for cell in line.split("|")] for line in old.splitlines()]
    kept = {row[1]: row[3:5] for row in rows if len(row) == 6}
    lines = ["| | what it shows | the last run | figures |", "|---|---|---|---|"]
    for name, shows in shown.items():
        last, reported = kept.get(f"`check-{name}`", (NOT_RUN, ""))
        if result := read(out, name):
            verdict, commit, date, took, reported = _cells(result)
            last = f"{verdict} on {date} with {commit}, in {took}"
        lines.append(f"| `check-{name}` | {shows} | {last} | {reported.replace('|', '/')} |")
    page.write_text("\n".join([before + begin, *lines, end + after]))

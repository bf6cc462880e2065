"""The results of comparisons: a line each, in a log from which a later run continues."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

KINDS = ("same", "refused", "given up", "different")

LINE = re.compile(rf"({'|'.join(KINDS)}) +(.+?) \| (.*)")

CALLS = re.compile(r"([\d,]+) calls")


class Log:
    """What was run, with its results; printed at once, and kept in ``file`` if given."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._found: dict[str, tuple[str, str]] = {}
        if file and file.exists():
            for line in file.read_text().splitlines():
                if found := LINE.fullmatch(line):
                    self._found[found[2]] = found[1], found[3]

    def has(self, run: str) -> bool:
        """Whether the run need not be made again."""
        return self._found.get(run, ("different", ""))[0] != "different"

    def add(self, kind: str, run: str, reported: str) -> None:
        """Note what came of a run."""
        self._found[run] = kind, reported
        line = f"{kind:9} {run} | {reported}"
        print(line, flush=True)
        if self._file:
            with self._file.open("a") as file:
                print(line, file=file)

    @property
    def different(self) -> list[str]:
        """The runs that differ from those untraced."""
        return [run for run, (kind, _) in self._found.items() if kind == "different"]

    def summary(self) -> str:
        """The counts, and what differs."""
        counts = Counter(kind for kind, _ in self._found.values())
        programs = {run.partition(":")[0] for run in self._found}
        calls = [
            int(found[1].replace(",", ""))
            for kind, reported in self._found.values()
            if kind == "same" and (found := CALLS.match(reported))
        ]
        return (
            f"{len(programs)} programs: {counts['same']} traced runs"
            f" ({sum(calls):,} calls; none in {calls.count(0)}) the same as untraced,"
            f" {counts['refused']} refused, {counts['given up']} given up,"
            f" {counts['different']} different"
        ) + "".join(f"\n  {run}" for run in self.different)

"""Prints how many of the exits of a file are watched at instructions that the kernel emulates.

    python tests/bench/exit_sites.py [FILE ...]

Counted are the probes that end calls in a plan of all functions with ``--returns sites``, beside
what they would be if all returns were seen at ``ret``. Without arguments: redis-server, libstdc++,
node and hugo.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lbtrace.errors import BinaryError
from lbtrace.model import Site
from lbtrace.plan import binary_plan
from lbtrace.plan.planner import make_plan
from lbtrace.plan.selection import Selection

FILES = ("redis-server", "libstdc++.so.6", "node", "hugo")


def exits(path: str) -> list[Site]:
    """The sites of a plan at which calls end."""
    plan = make_plan(path, Selection(("*",), returns="sites", force=True))
    return [probe.site for probe in plan.probes if probe.role in ("closes", "tail")]


def show(path: str) -> None:
    """Print the share of one file."""
    now = exits(path)
    return_sites = binary_plan.return_sites
    binary_plan.return_sites = lambda exit, fetches, *_: iter([(exit.site, tuple(fetches))])
    before = exits(path)
    binary_plan.return_sites = return_sites
    shares = [sum(site.emulated for site in sites) / len(sites) for sites in (before, now)]
    print(
        f"{path}: of {len(before):,} exits {shares[0]:.1%} at emulated instructions if at ret,"
        f" of {len(now):,} {shares[1]:.1%} as planned"
    )


def main(paths: Sequence[str] = FILES) -> None:
    """Print the share of each file that there is."""
    for path in paths:
        try:
            show(path)
        except BinaryError as error:
            print(f"{path}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:] or FILES)

"""``lbtrace help``: the pages of the documentation, and the options of commands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from lbtrace.errors import UsageError, propose

PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

MAINTAINERS = ("architecture", "dependencies", "development", "extending")
"""Pages that users do not need."""

ALSO = {
    **dict.fromkeys(("bpftrace", "gdb", "ltrace", "perf", "strace", "uftrace"), "coming-from"),
    "containers": "processes",
    "exceptions": "returns",
    "formats": "json-lines",
    "libraries": "processes",
    "notebook": "python",
    "privileges": "security",
    "slow": "answers",
    "usdt": "markers",
    "where": "expressions",
}
"""What else a user may call a page."""


def pages() -> Mapping[str, str]:
    """Return the paths of the pages, which wheels hold, by their names."""
    places = (os.path.join(PACKAGE, "docs"), os.path.join(os.path.dirname(PACKAGE), "docs"))
    here = next(filter(os.path.isdir, places), "")
    files = sorted(os.listdir(here)) if here else []
    found = {
        file.removesuffix(".md"): os.path.join(here, file)
        for file in files
        if file.endswith(".md") and file.removesuffix(".md") not in MAINTAINERS
    }
    return found | {also: found[name] for also, name in ALSO.items() if name in found}


def topics() -> list[str]:
    """Return the names of the pages, each once."""
    return [name for name in pages() if name not in ALSO]


def show(topic: str, commands: Sequence[str]) -> int:
    """Show a page, in a pager on a terminal; of a command it names the options' place first. Raises
    `UsageError` where there is none."""
    found = pages()
    if topic not in found:
        known = dict.fromkeys((*commands, *topics()))
        listed = f"there is on: {', '.join(known)}"
        hint = propose(topic, {*known, *found}, listed, 0.75)
        raise UsageError(f"there is no help on {topic}", hint)
    # Imported here: they take long.
    from pathlib import Path
    from pydoc import pager

    options = f"lbtrace {topic} --help shows its options.\n\n" if topic in commands else ""
    pager(options + Path(found[topic]).read_text())
    return 0

"""``lbtrace help``: the pages of the documentation, and the options of commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lbtrace.errors import UsageError

PACKAGE = Path(__file__).resolve().parents[1]

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


def pages() -> Mapping[str, Path]:
    """Return the pages, which wheels hold, by their names."""
    places = (PACKAGE / "docs", PACKAGE.parent / "docs")
    here = next((place for place in places if place.is_dir()), places[0])
    found = {page.stem: page for page in sorted(here.glob("*.md"))}
    found = {name: page for name, page in found.items() if name not in MAINTAINERS}
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
        raise UsageError(f"there is no help on {topic}", f"there is on: {', '.join(known)}")
    from pydoc import pager  # imported here: it takes long

    options = f"lbtrace {topic} --help shows its options.\n\n" if topic in commands else ""
    pager(options + found[topic].read_text())
    return 0

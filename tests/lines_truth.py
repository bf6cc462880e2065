"""Compares the variables that points show with those that gdb shows at the same stops.

    python tests/lines_truth.py FILE:LINES HITS PROGRAM [ARG ...]

At most HITS hits of each place are compared, the first ones. The program must come to each place
with the same values in every run; what either shows otherwise in a second run is left out.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # wherever it is run from

import lbtrace
from lbtrace import Unreadable

Client = Callable[[], AbstractContextManager[Any]]
"""What talks to the program while it runs."""

SAME, VARIED = ("setarch", "-R", "env", "-i"), ("env", "-i", "GODEBUG=asyncpreemptoff=1")
"""Run a program at the same addresses each time, or at others, with the environment that it has
under gdb; of Go without the signals that make gdb stop twice."""

COMPOSED = (lbtrace.Elements, lbtrace.Fields, lbtrace.Variant)

SCRIPT = """
import gdb, json
for words in ("pagination off", "confirm off", "debuginfod enabled off", "width 0",
              "exec-wrapper " + {wrapper!r}, "disable-randomization " + ("on" if {same} else "off"),
              "print frame-arguments none",
              "auto-load no", "schedule-multiple off"):
    gdb.execute("set " + words)
gdb.execute("handle SIGALRM SIGCHLD SIGUSR1 SIGUSR2 SIGPIPE nostop noprint pass", to_string=True)
gdb.execute("set args " + {args!r} + " > /dev/null 2>&1")
gdb.execute("starti")
shift = 0
if {pie}:
    maps = open("/proc/%d/maps" % gdb.selected_inferior().pid)
    shift = min(int(line.split("-")[0], 16) for line in maps if {name!r} in line) - {first}
WHOLE = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_PTR,
         gdb.TYPE_CODE_ENUM)
seen, left = [], 0

def text(value):
    raw = b""
    try:
        for at in range(64):
            byte = gdb.selected_inferior().read_memory(int(value) + at, 1).tobytes()
            if byte == b"\\0":
                break
            raw += byte
    except gdb.error:
        return None
    return raw.decode("latin-1")

def shown(value):
    kind = value.type.strip_typedefs()
    if value.is_optimized_out:
        return None
    if kind.code == gdb.TYPE_CODE_FLT:
        return ["real", float(value), ""]
    found = int(value)
    if kind.code == gdb.TYPE_CODE_PTR:
        target = kind.target().unqualified().strip_typedefs()
        if target.sizeof == 1 and target.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR):
            return ["pointer", found, text(value)]
        if target.code == gdb.TYPE_CODE_FUNC:
            return ["pointer", found, str(value)]
        return ["pointer", found, None]
    if kind.code == gdb.TYPE_CODE_CHAR:  # gdb 13 fails to write one that is none
        return ["number", found, ""]
    return ["enum" if kind.code == gdb.TYPE_CODE_ENUM else "number", found, str(value)]

def variables(frame):
    values, line = {{}}, frame.find_sal().line
    block = gdb.block_for_pc(frame.pc())
    while block is not None:
        for symbol in block:
            if not (symbol.is_variable or symbol.is_argument) or symbol.print_name in values:
                continue
            if not {same} and not symbol.is_argument and symbol.line >= line:
                continue  # not set yet
            kind = symbol.type.strip_typedefs()
            if kind.code not in (*WHOLE, gdb.TYPE_CODE_FLT) or kind.sizeof > 8:
                continue
            try:
                values[symbol.print_name] = shown(symbol.value(frame))
            except (gdb.error, gdb.MemoryError, OverflowError) as error:
                values[symbol.print_name] = ["error", 0, str(error)]
        if block.function:
            break
        block = block.superblock
    return values

class Place(gdb.Breakpoint):
    hits = 0

    def stop(self):
        global left
        self.hits += 1
        if self.hits <= {hits}:
            frame = gdb.newest_frame()
            seen.append([frame.pc() - shift, variables(frame)])
        if self.hits == {hits}:
            self.enabled = False
            left -= 1
        return not left

for address in {addresses}:
    Place("*%d" % (address + shift))
    left += 1
gdb.execute("continue", to_string=True)
json.dump(seen, open({output!r}, "w"))
if gdb.selected_inferior().pid:
    gdb.execute("kill")
"""

Shown = dict[str, list[Any] | None]
"""What gdb shows of the variables at a stop: their kinds, numbers and texts."""


@dataclass
class Result:
    """How many values were ``equal``, ``unread`` by lbtrace but not by gdb, by the reason,
    unread by ``both``, and ``varied`` from run to run; of how many ``other`` ones gdb shows the
    address and lbtrace what is there; what was ``wrong``."""

    stops: int = 0
    equal: int = 0
    both: int = 0
    varied: int = 0
    other: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            **{name: getattr(self, name) for name in ("stops", "equal", "both", "varied", "other")},
            "unread": sum(self.unread.values()),
            "reasons": dict(self.unread.most_common()),
            "wrong": len(self.wrong),
        }


def of_gdb(
    command: Sequence[str], addresses: Sequence[int], hits: int, directory: Path, *, same: bool
) -> dict[int, list[Shown]]:
    """The first ``hits`` stops at each of ``addresses``."""
    output, script = directory / "gdb.json", directory / "stops.py"
    output.unlink(missing_ok=True)
    words = ["readelf", "-hlW", command[0]]
    header = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    script.write_text(
        SCRIPT.format(
            addresses=list(addresses),
            hits=hits,
            same=same,
            wrapper=" ".join(SAME[2:] if same else VARIED),
            output=str(output),
            pie="DYN (" in header,
            first=next(line.split()[2] for line in header.splitlines() if " LOAD " in line),
            args=shlex.join(command[1:]),
            name=str(Path(command[0]).resolve()),
        )
    )
    words = ["gdb", "-batch", "-nx", "-x", script, command[0]]
    done = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert output.exists(), done.stderr.decode(errors="replace")[-3000:]
    found: dict[int, list[Shown]] = {}
    for address, values in json.loads(output.read_text()):
        found.setdefault(address, []).append(values)
    return found


def of_points(
    command: Sequence[str], lines: Sequence[str], hits: int, *, same: bool
) -> dict[int, list[Any]]:
    """The same of points, with all local variables; also the places that were never reached."""
    first: dict[int, int] = {}
    found: dict[int, list[Any]] = {}
    with lbtrace.trace(
        command=[*(SAME if same else VARIED), *command],
        binary=command[0],
        lines=list(lines),
        locals=True,
        options=lbtrace.Options(ring_size=256 << 20),
    ) as session:
        for number, probe in enumerate(session.plan.probes):
            first.setdefault(probe.site.address, number)
            found.setdefault(probe.site.address, [])
        places = [probe.site.address for probe in session.plan.probes]
        left = len(found)
        for point in session.calls():
            at = found[places[point.probe]]
            if first[places[point.probe]] != point.probe or len(at) == hits:
                continue  # two lines begin with the same instruction
            at.append(point)
            left -= len(at) == hits
            if not left:
                session.stop()
                break
        lost = session.losses()
        assert not lost.ring_full_point + lost.nested_miss, lost
    return found


def compare(
    command: Sequence[str],
    lines: Sequence[str],
    hits: int,
    directory: Path,
    client: Client = nullcontext,
    truth: Sequence[str] = (),
    *,
    same: bool = True,
) -> Result:
    """Compare at most ``hits`` stops at each place of ``lines``; gdb runs the command ``truth``,
    if that is not the same. ``same``: runs have the same
    pointers, and the same in variables that are not set yet."""
    with client():
        points = of_points(command, lines, hits, same=same)
    with client():
        stops = of_gdb(truth or command, sorted(points), hits, directory, same=same)
    result = Result()
    suspects: dict[tuple[int, int, str], str] = {}
    for address, shown in points.items():
        true = stops.get(address, [])
        if same and len(shown) != len(true):  # others may act by the time, which gdb takes
            text = f"{address:#x} is reached {len(shown)} times, for gdb {len(true)}"
            suspects[address, 0, ""] = text
        for number, (point, values) in enumerate(zip(shown, true, strict=False)):
            result.stops += 1
            for name, text in _differences(point, values, result, same):
                suspects[address, number, name] = f"{point.name} {address:#x}: {text}"
    for _ in range(1 if same else 4):
        if not suspects:
            break
        with client():
            points_again = of_points(command, lines, hits, same=same)
        with client():
            stops_again = of_gdb(truth or command, sorted(points), hits, directory, same=same)
        runs: Any = ((points, points_again), (stops, stops_again))
        for suspect in list(suspects):
            if any(_found(one, *suspect) != _found(other, *suspect) for one, other in runs):
                result.varied += 1
                del suspects[suspect]
    result.wrong += suspects.values()
    return result


def _found(run: dict[int, list[Any]], address: int, number: int, name: str) -> object:
    """What a run found of a variable; without a name, how often it came to the place."""
    shown = run.get(address, [])
    if not name:
        return len(shown)
    if number >= len(shown):
        return None
    values = shown[number]
    return repr((values if isinstance(values, dict) else _innermost(values)).get(name))


def _innermost(point: Any) -> dict[str, Any]:
    """The variables of a point; of several with the same name the innermost, which is the first."""
    found: dict[str, Any] = {}
    for argument in point.args:
        found.setdefault(argument.name, argument.value)
    return found


def _differences(
    point: Any, values: Shown, result: Result, same: bool
) -> Iterator[tuple[str, str]]:
    """The variables of which a point shows something else than gdb; counts the others."""
    ours = _innermost(point)
    for name, true in values.items():
        own = ours.get(name, "?")
        text = f"{name}={own!r}, gdb has {true}"
        if own == "?":
            if true is None:  # of a block that the compiler left nothing of
                result.both += 1
            else:
                yield name, text
        elif isinstance(own, Unreadable):
            if true is None or true[0] == "error":
                result.both += 1
            else:
                result.unread[own.reason] += 1
        elif true and true[0] == "pointer" and not _comparable(own, same):
            result.other += 1
        elif true is None or true[0] == "error" or not _alike(own, *true):
            yield name, text
        else:
            result.equal += 1


def _comparable(own: Any, same: bool) -> bool:
    """Whether a value can be gdb's, where that is a pointer."""
    return not isinstance(own, COMPOSED) and (
        same or isinstance(own, lbtrace.Text | lbtrace.Symbol)
    )


def _alike(own: Any, kind: str, number: Any, text: str | None) -> bool:
    """Whether a value is gdb's."""
    if isinstance(own, lbtrace.Text):
        return text is None or bytes(own).decode("latin-1")[:60] == text[:60]
    if isinstance(own, lbtrace.Symbol):
        return str(own).partition("(")[0] in (text or "")
    if kind == "enum" and not isinstance(own, int):
        return str(own) in (text or "")
    return _same_number(own, kind, number)


def _same_number(own: Any, kind: str, number: Any) -> bool:
    if isinstance(own, lbtrace.Char):
        return ord(own) & 0xFF == int(number) & 0xFF
    if isinstance(own, bool):  # gdb shows what no truth value can be
        return own == bool(number)
    if kind == "real":
        return bool(own == number) or (math.isnan(own) and math.isnan(number))
    try:
        return int(getattr(own, "address", own)) & ((1 << 64) - 1) == number & ((1 << 64) - 1)
    except (TypeError, ValueError):
        return False


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        program = [str(Path(sys.argv[3]).resolve()), *sys.argv[4:]]
        made = compare(program, [sys.argv[1]], int(sys.argv[2]), Path(scratch))
    print(*made.wrong, sep="\n", file=sys.stderr)
    print(json.dumps(made.counts()))
    sys.exit(bool(made.wrong))

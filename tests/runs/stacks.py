"""Compares callers with gdb's, frame by frame, by file and offset:

    PYTHONPATH=. .venv/bin/python tests/runs/stacks.py --func malloc@libc.so.6 -- python3 -c ''

The program runs twice, without randomized addresses. With ``--srcline`` inlined functions are
compared as well, frames by source file and line where these are known; clang's code of no line is
none here, and of the line before it for gdb. A line is printed for docs/development.md:
stops, frames, how many of these are gdb's, and what ended those stacks that gdb shows to be longer.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import lbtrace
from lbtrace.targets import frame_names

ADDR_NO_RANDOMIZE = 0x0040000
"""include/uapi/linux/personality.h; the program inherits it."""

Stack = tuple[tuple[str, int], ...]

GDB = """
import gdb, json, os
found, function, binary, most, out = [], {function!r}, {binary!r}, {most}, {out!r}
srcline = {srcline}
ranges = []
def place(pc):
    for again in (False, True):
        for start, end, moved, path in ranges:
            if start <= pc < end:
                return os.path.basename(path), pc - moved
        del ranges[:]
        for line in open(f"/proc/{{gdb.selected_inferior().pid}}/maps"):
            words = line.split(None, 5)
            if len(words) == 6 and "x" in words[1] and words[5].startswith("/"):
                start, end = (int(each, 16) for each in words[0].split("-"))
                ranges.append((start, end, start - int(words[2], 16), words[5].strip()))
    return "", pc
class Stop(gdb.Breakpoint):
    def stop(self):
        frame, stack = gdb.newest_frame(), []
        while frame is not None:
            inlined = frame.type() == gdb.INLINE_FRAME
            sal = frame.find_sal() if srcline else None
            if sal and sal.symtab and sal.line:
                if frame.type() != gdb.TAILCALL_FRAME:
                    stack.append((os.path.basename(sal.symtab.filename), sal.line))
            elif not inlined and frame.type() != gdb.TAILCALL_FRAME:
                stack.append(place(frame.pc()))
            try:
                frame = frame.older()
            except gdb.error:
                break
        while not stack[-1][0]:  # what gdb finds beyond the outermost function
            stack.pop()
        if srcline or not binary or stack[0][0].startswith(binary):
            found.append(stack[1:])
        return len(found) >= most
gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set breakpoint pending on")
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace limit 400")
gdb.execute("handle all nostop noprint pass")
gdb.execute("handle SIGTRAP SIGINT stop")
Stop(function, internal=True)
gdb.execute("run")
json.dump(found, open(out, "w"))
gdb.execute("kill") if gdb.selected_inferior().pid else None
"""


def of_gdb(
    function: str, binary: str, most: int, command: list[str], *, srcline: bool
) -> list[Stack]:
    """The callers at each stop in a function."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "stops.py", Path(folder) / "stops.json"
        names: dict[str, Any] = {"function": function, "binary": binary, "most": most}
        names |= {"out": str(out), "srcline": srcline}
        script.write_text(GDB.format(**names))
        words = ["gdb", "-batch", "-nx", "-x", script, "--args", *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        found = json.loads(out.read_text()) if out.exists() else []
        if not found:
            sys.exit(f"gdb found nothing: {done.stdout}{done.stderr}")
        return [tuple((file, at) for file, at in stack) for stack in found]


def of_lbtrace(pattern: str, most: int, command: list[str], more: dict[str, Any]) -> Any:
    """The callers of each call, and why they end."""
    frame_names._Code.name = lambda self, place: ("", place.offset)  # type: ignore[method-assign]
    options = lbtrace.Options(max_events=most, ring_size=256 << 20)
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)
    session = lbtrace.trace(
        command=command, functions=pattern, stack=127, args=0, options=options, **more
    )
    with session:
        calls = sorted(session.calls(), key=lambda call: call.start)
    if session.losses().total:
        sys.exit(f"lost: {session.losses()}")
    for call in calls:
        if call.callers is not None:
            frames = call.callers.frames
            yield tuple(map(_place, frames)), call.callers.end


def _place(frame: Any) -> tuple[str, int]:
    if frame.line:
        return os.path.basename(frame.source), frame.line
    return _name(frame.binary), frame.offset


def _name(path: str) -> str:
    return os.path.basename(os.path.realpath(path)) if path else ""


def main() -> None:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--func", required=True, help="NAME or NAME@BINARY")
    parser.add_argument("--stops", type=int, default=1000)
    parser.add_argument("--returns", default="auto")
    parser.add_argument("--srcline", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    function, _, binary = args.func.partition("@")
    more: dict[str, Any] = {"binary": binary} if binary else {}
    more["srcline"] = args.srcline
    mine = [*of_lbtrace(args.func, args.stops, args.command, {"returns": args.returns, **more})]
    theirs = of_gdb(function, binary, args.stops + 100, args.command, srcline=args.srcline)
    known, frames, equal = Counter(theirs), 0, 0
    causes: Counter[str] = Counter()
    for number, (stack, end) in enumerate(mine):
        frames += len(stack)
        if known[stack]:
            equal += len(stack)
            continue
        near = min(number, len(theirs) - 1)
        other = max(theirs[max(0, near - 100) : near + 101], key=lambda each: same(stack, each))
        agreed = same(stack, other)
        equal += agreed
        causes[end if agreed == len(stack) else "differs"] += 1
        if args.verbose:
            print(end, agreed, stack[agreed - 1 :], other[agreed - 1 :], sep="\n  ")
    share = f"{equal / frames:.3%}" if frames else "-"
    name = os.path.basename(args.command[0])
    ends = ", ".join(f"{cause}: {count:,}" for cause, count in causes.most_common())
    print(f"| {name} | {len(mine):,} | {frames:,} | {equal:,} ({share}) | {ends or '-'} |")


def same(mine: Stack, theirs: Stack) -> int:
    """How many frames agree, from the innermost on."""
    pairs = zip(mine, theirs, strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if one != other), min(len(mine), len(theirs))
    )


if __name__ == "__main__":
    main()

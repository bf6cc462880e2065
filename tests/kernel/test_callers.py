"""The callers of calls: ``attach --stack``, compared with what the program logs, and with gdb."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lbtrace import trace as lbtraced

Run = Callable[..., subprocess.CompletedProcess[str]]

FIRST = ("main", "thread")
"""What the program calls first of its own."""


def calls_of(text: str) -> list[dict[str, Any]]:
    """The calls of leaf(), in JSON Lines."""
    rows = map(json.loads, text.splitlines())
    return [row for row in rows if row["type"] == "call" and row["name"] == "leaf"]


def path_of(call: dict[str, Any]) -> str:
    """The functions of the program that led to a call."""
    names = [frame["name"] for frame in reversed(call["callers"]["frames"])]
    return ";".join(names[next(n for n, name in enumerate(names) if name in FIRST) :])


@pytest.mark.parametrize("way", ["sites", "uretprobe"])
def test_callers_are_those_of_the_program(
    programs: Path, tmp_path: Path, lbtrace: Run, way: str
) -> None:
    """Of code without frame pointers; with return addresses that uretprobes have replaced."""
    log, capture = tmp_path / "log", tmp_path / "run.lbt"
    traced = ["--func", "leaf", "--func", "north", "--func", "south", "--returns", way]
    command = ["--", programs / "paths", log, "40"]
    done = lbtrace("attach", *traced, "--stack", "40", "-o", capture, *command)
    assert "nothing lost" in done.stderr
    found = calls_of(lbtrace("export", capture, "--format", "jsonl").stdout)
    paths = Counter(line.split()[1].removesuffix(";leaf") for line in log.read_text().splitlines())
    assert Counter(map(path_of, found)) == paths
    assert {call["callers"]["end"] for call in found} == {"outermost"}
    tree = lbtrace("export", capture).stdout
    assert len(re.findall(r"← work\+0x[0-9a-f]+ \(paths\)\n", tree)) >= len(found)


def test_as_gdb(programs: Path, tmp_path: Path, lbtrace: Run) -> None:
    """To the outermost function, through the C library; what is cut says so."""
    command = [programs / "paths", tmp_path / "log", "3"]
    script = ["-ex", "set backtrace past-main", "-ex", "break leaf", "-ex", "run"]
    script += [word for _ in range(5) for word in ("-ex", "bt", "-ex", "continue")]
    said = subprocess.run(
        ["gdb", "-batch", "-nx", *script, "--args", *command],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    stacks, inlined = [], "go"
    for stack in re.split(r"^#0 .*\n", said, flags=re.M)[1:]:
        names = re.findall(r"^#\d+ +(?:0x\w+ in )?(\w+)", stack, re.M)
        stacks.append([name for name in names if name != inlined])
    options = ["--func", "leaf", "--stack", "30", "--format", "jsonl"]
    found = calls_of(lbtrace("attach", *options, "--", *command).stdout)
    shown = [[frame["name"] for frame in call["callers"]["frames"]] for call in found]
    assert len(stacks) == 5
    assert [stack[:-2] for stack in shown[:5]] == [
        stack[: len(mine) - 2] for stack, mine in zip(stacks, shown, strict=False)
    ]
    assert [len(stack) for stack in shown[:5]] == [len(stack) for stack in stacks]
    with lbtraced(command=command, functions="leaf", stack=2) as session:
        callers = next(session.calls()).callers
    assert [frame.name for frame in callers.frames] == stacks[0][:2]
    assert callers.end == "limit"
    row = re.compile(r"^#\d+ +(?:0x\w+ in )?(\w+) (?:.* at (?:.*/)?(\S+):(\d+))?", re.M)
    lines = [row.findall(stack) for stack in re.split(r"^#0 .*\n", said, flags=re.M)[1:]]
    assert lines[0][0][0] == inlined
    capture = tmp_path / "run.lbt"
    lbtrace("attach", *options[:4], "--srcline", "-o", capture, "--", *command)
    calls = calls_of(lbtrace("export", capture, "--format", "jsonl").stdout)
    for call, stack in zip(calls[:5], lines, strict=True):
        frames = call["callers"]["frames"]
        at = [(f["inlined"], Path(f["source"]).name, str(f["line"] or "")) for f in frames]
        assert at == [(name == inlined, file, line) for name, file, line in stack]
    folded = lbtrace("stacks", capture, "--format", "folded").stdout
    assert f"work;{inlined}_[i];" in folded
    assert re.search(r"← go \(inlined\) at paths\.c:\d+\n", lbtrace("export", capture).stdout)


def test_answers_of_a_capture(programs: Path, tmp_path: Path, lbtrace: Run) -> None:
    """Callers stand before calls in folded stacks, once, however deep they were recorded; calls are
    counted by them."""
    log, capture = tmp_path / "log", tmp_path / "run.lbt"
    traced = ["--func", "leaf", "--func", "north", "--stack"]
    own = re.compile(r"^.*?\b((?:main|thread);\S+) (\d+)$", re.M)
    for depth in ("60", "3"):
        command = ["--", programs / "paths", log, "40"]
        log.unlink(missing_ok=True)
        lbtrace("attach", *traced, depth, "-o", capture, "--force", *command)
        logged = Counter(line.split()[1] for line in log.read_text().splitlines())
        if depth == "60":
            folded = lbtrace("export", capture, "--format", "folded").stdout
            paths = [path for path, _ in own.findall(folded) if path.endswith(";leaf")]
            assert sorted(paths) == sorted(logged)
            calls = json.loads(lbtrace("export", capture, "--format", "speedscope").stdout)
            assert calls["profiles"][0]["unit"] == "nanoseconds"
            assert opened(calls) >= set(logged)
        options = ["--func", "leaf", "--format"]
        found = lbtrace("stacks", capture, *options, "folded").stdout
        if depth == "60":
            assert {path: int(count) for path, count in own.findall(found)} == logged
        rows = json.loads(lbtrace("stacks", capture, *options, "json").stdout)["stacks"]
        assert sum(row["count"] for row in rows) == logged.total()
        assert {row["end"] for row in rows} <= {"outermost", "limit"}
        assert all(len(row["frames"]) <= int(depth) + 1 for row in rows)
    sized = lbtrace("stacks", capture, "--func", "leaf", "--sum", "size", "--top", "1").stdout
    assert int(sized.split()[-1]) > 100
    each = lbtrace("stacks", capture, "--each", "--func", "leaf").stdout
    assert each.count(" leaf\n") == logged.total()


def opened(speedscope: dict[str, Any]) -> set[str]:
    """The paths of the program that are open at some time, and that all are closed at the end."""
    names = [frame["name"] for frame in speedscope["shared"]["frames"]]
    found = set()
    for profile in speedscope["profiles"]:
        path: list[int] = []
        latest = profile["startValue"]
        for event in profile["events"]:
            assert event["at"] >= latest
            latest = event["at"]
            if event["type"] == "O":
                path.append(event["frame"])
                steps = [names[frame] for frame in path]
                first = [n for n, name in enumerate(steps) if name in FIRST]
                found.add(";".join(steps[first[0] :]) if first else "")
            else:
                assert path.pop() == event["frame"]
        assert not path
        assert latest <= profile["endValue"]
    return found


def test_libraries_of_programs_that_have_ended(tmp_path: Path, lbtrace: Run) -> None:
    """One that is loaded and left before anybody looks, and the frame of a signal, as gdb calls
    them."""
    (tmp_path / "late.c").write_text(
        """
        #include <signal.h>
        void leaf(int n);
        __attribute__((noinline)) static void handler(int n) { leaf(n); __asm__(""); }
        void plug(void) { signal(SIGUSR1, handler); raise(SIGUSR1); leaf(2); __asm__(""); }
        """
    )
    (tmp_path / "main.c").write_text(
        """
        #include <dlfcn.h>
        __attribute__((noinline)) void leaf(int n) { __asm__("" : : "r"(n)); }
        int main(int count, char **words)
        {
            void (*plug)(void) = dlsym(dlopen(words[1], RTLD_NOW), "plug");
            plug();
            return 0;
        }
        """
    )
    late, main = tmp_path / "liblate.so", tmp_path / "main"
    flags = ["gcc", "-O2", "-w", "-fomit-frame-pointer"]
    subprocess.run([*flags, "-shared", "-fPIC", tmp_path / "late.c", "-o", late], check=True)
    subprocess.run([*flags, "-rdynamic", tmp_path / "main.c", "-o", main, "-ldl"], check=True)
    options = ["--func", "leaf", "--stack", "30", "--format", "jsonl", "--", main, late]
    found = [call["callers"] for call in calls_of(lbtrace("attach", *options).stdout)]
    names = [[frame["name"] for frame in callers["frames"]] for callers in found]
    assert [stack[0] for stack in names] == ["handler", "plug"]
    assert {callers["frames"][0]["binary"] for callers in found} == {str(late)}
    for callers in found:
        assert callers["end"] in ("table not loaded yet", "outermost")
    if found[0]["end"] == "outermost":
        assert names[0][1] == "<signal handler called>"


def test_frames_of_signals(tmp_path: Path, lbtrace: Run) -> None:
    """As gdb shows them."""
    (tmp_path / "main.c").write_text(
        """
        #include <signal.h>
        __attribute__((noinline)) void leaf(int n) { __asm__("" : : "r"(n)); }
        static void handler(int n) { leaf(n); __asm__(""); }
        int main(void) { signal(SIGUSR1, handler); raise(SIGUSR1); return 0; }
        """
    )
    main = tmp_path / "main"
    subprocess.run(["gcc", "-O2", tmp_path / "main.c", "-o", main], check=True)
    said = subprocess.run(
        ["gdb", "-batch", "-nx", "-ex", "handle SIGUSR1 nostop", "-ex", "break leaf"]
        + ["-ex", "run", "-ex", "bt", main],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    stack = re.findall(r"^#\d+ +(?:0x\w+ in )?(<signal handler called>|\w+)", said, re.M)
    options = ["--func", "leaf", "--stack", "30", "--format", "jsonl", "--", main]
    (call,) = calls_of(lbtrace("attach", *options).stdout)
    names = [frame["name"] for frame in call["callers"]["frames"]]
    assert stack[1:3] == ["handler", "<signal handler called>"] == names[:2]
    assert names[-4:-2] == ["main", "__libc_start_call_main"]
    tree = lbtrace("stacks", *options[:2], "--", main).stdout
    assert "  <signal handler called>\n" in tree

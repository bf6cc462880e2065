"""Measures lbtrace beside empty probes and bpftrace, in one run: make bench.

Only the ratios mean something beyond this machine. Each figure is the median
of several runs that alternate with those it is compared with.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import answers
import attaching
import bpftraces
import decode
import empty
import live
import markers
import off_cpu
import planning
import starts
import system_calls
import threads
from reported import nanoseconds

from lbtrace.bpf.features import probe
from lbtrace.capture import read_capture
from lbtrace.model import CLOSE, KIND, OPEN
from lbtrace.model.wire import decode as events_of
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.return_strategy import Returns

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build/out/programs"
LBTRACE = [sys.executable, "-m", "lbtrace"]
ROUNDS = 5
BOUNDED: dict[str, bool] = {}
"""The ratios that have a limit, and whether they keep it."""


def main() -> None:
    subprocess.run([sys.executable, ROOT / "tests/programs/build.py", PROGRAMS], check=True)
    empty.compile_object()
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        for function, calls in (("push", 200_000), ("step", 50_000)):
            for returns in ("auto", "uretprobe"):
                call(function, calls, here, returns)
        typed(here)
        start_to_exit(here)
        starts.main(PROGRAMS / "fib")
        until_attached()
    planning.main()
    attaching.main()
    markers.main(ratio)
    answers.main(ratio)
    off_cpu.main(ratio)
    system_calls.main(ratio)
    threads.main(ratio)
    for wheel in (ROOT / "dist").glob("*.whl"):
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB (at most 1)")
    decode.main()
    live.main()
    beyond = [name for name, kept in BOUNDED.items() if not kept]
    print(
        f"figures: {len(BOUNDED) - len(beyond)} of {len(BOUNDED)} ratios within their limits",
        *beyond,
        sep="; beyond: ",
    )


def call(function: str, calls: int, here: Path, returns: Returns) -> None:
    """What a traced call costs the program, in ns, with its return, beside empty probes at the same
    two places."""
    hot = PROGRAMS / "hot"
    command = [hot, function, str(calls)]
    capture = here / f"{function}.lbt"
    plan = make_plan(str(hot), Selection((function,), returns=returns))
    modes = ["plain", *["multi"] * probe().multi]
    modes += ["session"] * (probe().session and returns == "uretprobe")

    def ours() -> float:
        words = ["attach", "--func", function, "-o", capture, "--force", "--strict"]
        return nanoseconds(*LBTRACE, *words, "--returns", returns, "--", *command)

    def bare(mode: str) -> Callable[[], float]:
        def run() -> float:
            with empty.attached(mode, plan):  # type: ignore[arg-type]
                return nanoseconds(*command)

        return run

    def theirs(bpftrace: str) -> float:
        script = f'uprobe:{hot}:{function} {{ printf("{function}(%d)\\n", arg0); }}'
        script += f' uretprobe:{hot}:{function} {{ printf("= %d\\n", retval); }}'
        run = f"{hot} {function} {calls}"
        return nanoseconds(bpftrace, "-o", here / "bpftrace.out", "-e", script, "-c", run)

    rivals = {"lbtrace": ours} | {f"empty {mode}": bare(mode) for mode in modes}
    rivals |= {name: partial(theirs, path) for name, path in bpftraces.find().items()}
    costs = alternate(rivals)
    with read_capture(str(capture)) as written:
        # A capture also says when returns may not be seen.
        events = (event.kind & KIND for batch in written.batches() for event in events_of(batch))
        kinds = Counter(events)
        assert kinds[OPEN] == kinds[CLOSE] == calls, f"{kinds} of {calls} calls"
        assert not written.losses.total
    places = " and ".join(probe.site.displaced for probe in plan.probes)
    print(f"a traced call of {function}() (--returns {returns}, probes on {places}), ns:")
    print("  " + ", ".join(f"{name} {cost:,.0f}" for name, cost in costs.items()))
    least = min(cost for name, cost in costs.items() if name.startswith("empty"))
    ratio("lbtrace / cheapest empty pair", costs["lbtrace"] / least, 1.1)
    for name in bpftraces.find():
        ratio(f"lbtrace / {name}", costs["lbtrace"] / costs[name], None)


def typed(here: Path) -> None:
    """What a call costs of which two integers and a string of 16 bytes are read."""
    command = [PROGRAMS / "hot", "text", "200000"]

    def ours(*options: str) -> Callable[[], float]:
        words = ["attach", "--func", "text", *options, "-o", here / "text.lbt", "--force"]
        return lambda: nanoseconds(*LBTRACE, *words, "--ring-size", "64M", "--", *command)

    costs = alternate({"integers": ours("--args", "2"), "and a string": ours()})
    print("a traced call of text(int, int, const char *), ns:")
    print("  " + ", ".join(f"{name} {cost:,.0f}" for name, cost in costs.items()))
    ratio("with a string / integers only", costs["and a string"] / costs["integers"], 1.5)


def start_to_exit(here: Path) -> None:
    """A whole trace of a program that ends at once: its plan is kept, as after the first time."""
    fib = PROGRAMS / "fib"
    words = ["attach", "--func", "fib", "--format", "racket", "-o", here / "t", "--force", "--"]
    script = f'uprobe:{fib}:fib {{ printf("fib(%d)\\n", arg0); }}'
    script += f' uretprobe:{fib}:fib {{ printf("= %d\\n", retval); }}'
    rivals: dict[str, list[object]] = {"lbtrace": [*LBTRACE, *words, fib, "4"]}
    for name, path in bpftraces.find().items():
        rivals[name] = [path, "-e", script, "-c", f"{fib} 4"]
    variables = {**os.environ, "XDG_CACHE_HOME": str(here / "cache")}
    starts.measure(rivals["lbtrace"], variables)
    rounds = [
        {name: starts.measure(words, variables) for name, words in rivals.items()}
        for _ in range(ROUNDS)
    ]
    took = {
        name: [median(column) for column in zip(*(each[name] for each in rounds), strict=True)]
        for name in rivals
    }
    print("from start to exit, fib 4 in racket format, s (of the processor):")
    print("  " + ", ".join(f"{name} {wall:.3f} ({cpu:.3f})" for name, (wall, cpu) in took.items()))
    ours = took.pop("lbtrace")
    for name, theirs in took.items():
        ratio(f"lbtrace / {name}, by the clock", ours[0] / theirs[0], 0.35)
        ratio(f"lbtrace / {name}, processor time", ours[1] / theirs[1], 1.3)


def until_attached() -> None:
    """From the start of Python to attached probes, in ms."""

    def run() -> float:
        words = [*LBTRACE, "attach", "--func", "fib", "--binary", PROGRAMS / "fib"]
        start = time.perf_counter()
        process = subprocess.Popen(words, stderr=subprocess.PIPE)
        assert process.stderr
        assert any(b"Ctrl-C ends" in line for line in process.stderr)
        spent = time.perf_counter() - start
        process.send_signal(2)
        process.communicate()
        return spent

    print(f"from start to attached: {alternate({'': run})[''] * 1000:.0f} ms (at most 150)")


def alternate(rivals: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each, measured in turns."""
    figures: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, run in rivals.items():
            figures[name].append(run())
    return {name: median(values) for name, values in figures.items()}


def ratio(name: str, value: float, limit: float | None) -> None:
    bound = f" (at most {limit})" if limit else ""
    line = f"{name}: {value:.3f}{bound}"
    if limit:
        BOUNDED[line] = value <= limit
    print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()

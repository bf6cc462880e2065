"""What starting lbtrace takes: to help, to an error, to a plan that is kept, and to a new one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from glob import glob
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from shutil import which
from statistics import median

from lbtrace.files.search_path import find

ROOT = Path(__file__).resolve().parents[2]
LBTRACE = [sys.executable, "-m", "lbtrace"]
ROUNDS = 7

PLAN = ["attach", "--dry-run", "--quiet", "--func"]


def main(fib: Path) -> None:
    """Print for each start the median of its wall-clock and of its processor time, in ms."""
    starts: dict[str, list[object]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import of the planner": [sys.executable, "-c", "import lbtrace.session.planning"],
        "--help": [*LBTRACE, "--help"],
        "attach --help": [*LBTRACE, "attach", "--help"],
        "an error": [*LBTRACE, "attach", "--nonsense"],
    }
    llvm = sorted(glob("/usr/lib/*/libLLVM*.so*"))[:1]
    node = [path for path in [which("node")] if path]
    for name, path in (
        ("fib", fib),
        ("malloc", find("libc.so.6")),
        *(("LLVMContextCreate", path) for path in llvm),
        *(("uv_fs_open", path) for path in node),
    ):
        plan = [*LBTRACE, *PLAN, name, "--binary", path]
        starts |= {f"plan of {name}, kept": plan, f"plan of {name}, new": [*plan, "--no-cache"]}
    with tempfile.TemporaryDirectory() as cache:
        variables = {**os.environ, "XDG_CACHE_HOME": cache}
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in starts}
        for number in range(ROUNDS + 2):  # the first ones fill the caches
            for name, command in starts.items():
                took = measure(command, variables)
                if number > 1:
                    figures[name].append(took)
    print("starts, ms (of the processor):")
    for name, took in figures.items():
        wall, cpu = (1000 * median(values) for values in zip(*took, strict=True))
        print(f"  {name}: {wall:.0f} ({cpu:.0f})", flush=True)


def measure(command: list[object], variables: dict[str, str]) -> tuple[float, float]:
    """Return the seconds that a command takes, and those of the processor."""
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    words = [str(word) for word in command]
    subprocess.run(words, capture_output=True, check=False, cwd=ROOT, env=variables)
    wall, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main(ROOT / "build/out/programs/fib")

"""Fuzzes a reader with coverage, by atheris (libFuzzer for Python).

    python tests/fuzz/fuzz.py HARNESS [SECONDS] [CORPUS]

Inputs that reach new code are kept in CORPUS. Ends with 0 where nothing was found; the
input that was is written to the present directory.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))
with atheris.instrument_imports(include=["lbtrace", "rust_demangler"]):
    import harnesses

MEMORY, PATIENCE = 1024, 10
"""MB, with all that instrumentation takes; seconds for one input."""


def main() -> None:
    name = sys.argv[1]
    seconds = sys.argv[2] if len(sys.argv) > 2 else "20"
    corpus = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    logging.disable()
    with tempfile.TemporaryDirectory() as begin:
        for number, seed in enumerate(harnesses.seeds(name)):
            (Path(begin) / str(number)).write_bytes(seed)
        kept = Path(__file__).parent / "corpus" / name
        harness = harnesses.HARNESSES[name]

        def run(data: bytes) -> None:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            harness(data)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            assert after - before < 200 << 10, f"{after - before} KiB for one input"

        options = [f"-max_total_time={seconds}", f"-timeout={PATIENCE}", f"-rss_limit_mb={MEMORY}"]
        options += [f"-seed={int(os.environ.get('LBTRACE_SEED', '0')) & 0xFFFFFFFF}"]
        options += [f"-max_len={harnesses.LARGEST}", "-print_final_stats=1", "-verbosity=1"]
        where = [str(corpus), begin, *([str(kept)] if kept.is_dir() else [])]
        atheris.Setup([sys.argv[0], *options, *where], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

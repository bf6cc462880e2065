"""``python -m lbtrace``, and the command ``lbtrace``."""

# First of all, and without the module signal, whose imports take milliseconds: until this
# line Python answers Ctrl-C with a traceback; from here on it ends lbtrace at once and in
# silence, but where a trace has to end in order (commands/control.py).
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import gc
import os
import sys

from lbtrace.system.limits import explain

# What a start makes stays until the end: to look for garbage in it every 700 objects, as Python
# does by itself, finds none.
gc.set_threshold(50_000)

# msgspec imports it where it is installed, and does without where it is not: nothing that lbtrace
# has in its structs needs it, and it takes as long as all the rest of msgspec.
sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type]  # "not there"


def start() -> int:
    """Run lbtrace as a program, and return its exit status."""
    try:
        from lbtrace.commands import main

        return main()
    except (OSError, MemoryError, ImportError, RuntimeError) as error:
        lines = explain(error)
        if lines is None:
            raise
        sys.stderr.write(f"lbtrace: {lines[0]}\n  {lines[1]}\n")
        return 1


def run() -> None:
    """Run lbtrace as a program, and end the process without freeing what the kernel frees with
    it: the objects of a large plan take Python a tenth of a second."""
    status = start()
    from lbtrace.errors import LbtraceError  # imported by now

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (LbtraceError, OSError, ValueError):
        sys.exit(status)  # which reports that
    os._exit(status)


if __name__ == "__main__":
    run()

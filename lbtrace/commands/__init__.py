"""The command line. Each command is a module of this package with ``arguments``
and ``run``; `main` alone prints errors and decides the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from lbtrace.errors import KernelError, LbtraceError

COMMANDS = {
    "attach": "trace calls: the tree, live or into a file",
    "list": "functions of a binary, with their signatures",
    "export": "a capture into any format",
    "doctor": "what this machine can do, and what is missing",
}
"""What there is, in the order of the help. Only the module asked for is imported."""

SYSTEM = ("/proc", "/sys")
"""Where the kernel tells what lbtrace needs to know."""

BROKEN_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status.

    0 is fine, 1 failed, 2 wrong usage, 3 events were lost and ``--strict`` was
    given; ``attach`` returns the traced command's own.
    """
    # Not list(): importing the module of that command gives the name to it, here.
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except LbtraceError as error:
        _complain(error)
        return error.status
    except FileNotFoundError as error:
        if not str(error.filename).startswith(SYSTEM):
            raise
        _complain(KernelError(f"{error.filename} is not there", f"mount {' and '.join(SYSTEM)}"))
        return KernelError.status
    except BrokenPipeError:
        # Whoever read has seen enough. Nothing may be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return 130


def _run(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        import argparse

        module = import_module(f"lbtrace.commands.{words[0]}")
        parser = argparse.ArgumentParser(
            prog=f"lbtrace {words[0]}",
            description=f"{COMMANDS[words[0]]}.".capitalize(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=getattr(module, "EPILOG", None),
        )
        module.arguments(parser)
        options, command = words[1:], []
        if "--" in options:
            here = options.index("--")
            options, command = options[:here], options[here + 1 :]
        parsed = parser.parse_args(options)
        if command or "--" in words:
            if not hasattr(module, "COMMAND"):
                parser.error("nothing is run, so no command can follow --")
            parsed.command = command
        status: int = module.run(parsed)
        return status
    if words and words[0] in ("--version", "-V"):
        from importlib.metadata import version

        print(f"lbtrace {version('lbtrace')}")
        return 0
    asked = not words or words[0] in ("--help", "-h", "help")
    text = _usage() if asked else f"lbtrace: no command is called {words[0]!r}\n{_usage()}"
    print(text, file=sys.stdout if asked else sys.stderr, end="")
    return 0 if asked and words else 2


def _usage() -> str:
    rows = "".join(f"  {name:<8} {purpose}\n" for name, purpose in COMMANDS.items())
    return (
        "usage: lbtrace COMMAND [OPTION ...]\n\n"
        "Shows how a compiled program runs, call by call, without changing it.\n\n"
        f"{rows}\n"
        "first trace:  lbtrace attach --binary ./fib --func fib\n"
        "more:         lbtrace COMMAND --help\n"
    )


def _complain(error: LbtraceError) -> None:
    if error.detail:
        print(error.detail, file=sys.stderr)
    print(f"lbtrace: {error.message}\n  {error.hint}", file=sys.stderr)

"""The command line. Each command is a module of this package with ``arguments``
and ``run``; `main` alone prints errors and decides the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import lbtrace
from lbtrace.commands import streams
from lbtrace.errors import KernelError, LbtraceError, OutputError, UsageError, propose
from lbtrace.text import shortened

COMMANDS = {
    "attach": "trace calls, live or into a file",
    "count": "count calls in the kernel, or show how a value is distributed",
    "latency": "show how long functions take, from the shortest call to the longest",
    "stacks": "show from where functions are called, how often or with how much",
    "list": "list the functions of a binary with their signatures",
    "export": "write a capture in any format",
    "report": "show what calls took, by function: of a trace, or of a capture",
    "doctor": "show what this machine can do and what is missing",
    "completion": "print what a shell needs to complete options and functions",
}
"""The commands, in the order of the help. Only the module of the one that runs is imported."""

OWN = frozenset(
    {
        *("--func", "--arg", "--where", "--pid", "--syscall", "--tracepoint"),
        *("--usdt", "--within", "--libcalls", "--off-cpu", "--slow"),
    }
)
"""Options that say what is traced, and hardly any other program has: see ``lbtrace ./prog``."""

FIRST = "lbtrace attach --func fib -- ./fib"
"""An example for beginners."""

SYSTEM = ("/proc", "/sys")
"""File systems through which the kernel describes itself and its processes."""

LONGEST = 2000
"""Characters of a message that are shown: what a user has pasted may be of any length."""

BROKEN_PIPE = 141
"""The status that shells report for a program that SIGPIPE ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    0 is success, 1 failure, 2 wrong usage, 3 events lost under ``--strict``; ``attach`` returns the
    traced command's own.
    """
    if arguments is None:
        streams.prepare()
    # Not list(): importing the module of that command gives the name to it, here.
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    if words[:1] == ["help"] and words[1:2] and words[1] in COMMANDS and not _has_page(words[1]):
        words = [words[1], "--help"]
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except LbtraceError as error:
        _complain(error)
        if isinstance(error, OutputError):
            streams.discard()
        return error.status
    except FileNotFoundError as error:
        if not str(error.filename).startswith(SYSTEM):
            raise
        _complain(KernelError(f"{error.filename} is not there", f"mount {' and '.join(SYSTEM)}"))
        return KernelError.status
    except BrokenPipeError:
        # The reader has seen enough. Nothing may be flushed into the pipe at exit.
        streams.discard()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return 130


def _has_page(command: str) -> bool:
    from lbtrace.commands import help  # imported here because few ask for it

    return command in help.pages()


def _run(words: list[str]) -> int:
    if words and "/" in words[0]:
        if (option := "".join(words[1:2]).partition("=")[0]) in OWN:
            way = f"before the program: lbtrace attach {option} … -- {words[0]}"
            streams.say([f"{option} is passed to {words[0]}; options of lbtrace stand {way}"])
        words = ["attach", "--", *words]
    if words and words[0] in COMMANDS:
        from lbtrace.commands.options import Parser  # imported here because --version needs none

        module = import_module(f"lbtrace.commands.{words[0]}")
        if hasattr(module, "instead"):
            module = module.instead(words[1:]) or module
        parser = Parser(
            prog=f"lbtrace {words[0]}",
            description=f"{COMMANDS[words[0]]}.".capitalize(),
            epilog=getattr(module, "EPILOG", None),
        )
        module.arguments(parser)
        parser.words, parser.meant = words, getattr(module, "MEANT", "")
        options, command = words[1:], []
        # It also ends the options before arguments of a command of lbtrace.
        ends = hasattr(module, "COMMAND") or not parser.positionals
        if "--" in options and ends:
            here = options.index("--")
            options, command = options[:here], options[here + 1 :]
        try:
            parsed = parser.parse_args(options)
            if "--" in words and ends:
                if not hasattr(module, "COMMAND"):
                    parser.error("nothing is run, so no command can follow --")
                parsed.command = command
        except SystemExit as ended:  # of --help, too, which may not be written
            return int(ended.code or 0)
        parsed.parser = parser
        status: int = module.run(parsed)
        return status
    if words and words[0] in ("--version", "-V"):
        print(f"lbtrace {lbtrace.__version__}")
        return 0
    if words[:1] == ["help"] and words[1:]:
        from lbtrace.commands import help  # imported here because few ask for it

        return help.show(words[1], [*COMMANDS])
    if words and words[0] not in ("--help", "-h", "help"):
        known = f"there are {', '.join(COMMANDS)}; first trace: {FIRST}"
        hint = propose(words[0], COMMANDS, known)
        paths = os.environ.get("PATH", "").split(":")
        if any(os.access(f"{path}/{words[0]}", os.X_OK) for path in paths):
            from shlex import join  # imported here because it takes long

            hint = f"to trace the program, write: lbtrace attach -- {join(words)}"
        raise UsageError(f"no command is called {words[0]}", hint)
    print(_usage(), end="")
    return 0 if words else 2


def _usage() -> str:
    # Imported here because few ask for it.
    from textwrap import fill

    from lbtrace.commands.help import topics

    indent = " " * 14
    listed = ", ".join(topics())
    pages = fill(
        listed, 80, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    rows = "".join(f"  {name:<10} {purpose}\n" for name, purpose in COMMANDS.items())
    return (
        "usage: lbtrace COMMAND [OPTION ...]\n\n"
        "Shows how a compiled program runs, call by call, without changing it.\n\n"
        f"{rows}\n"
        f"first trace:  {FIRST}, or just lbtrace ./fib\n"
        "options:      lbtrace COMMAND --help\n"
        f"manual:       lbtrace help TOPIC, on\n{pages}\n"
    )


def _complain(error: LbtraceError) -> None:
    message, hint = (shortened(line, LONGEST) for line in error.command_line)
    streams.report([*error.detail.splitlines(), f"lbtrace: {message}", f"  {hint}"])

"""What to say where a command runs a shell or the like, and a program that this starts is meant:
`sh -c './server 80'`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator

from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError, CommandError, LbtraceError, option
from lbtrace.files.scripts import why_not_run
from lbtrace.session.request import Request
from lbtrace.targets.command import find_command

SHELLS = frozenset({"sh", "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "tcsh", "zsh"})

STARTERS = frozenset(
    {"chroot", "chrt", "doas", "env", "find", "flock", "ionice", "make", "nice", "nohup", "nsenter"}
    | {"parallel", "setpriv", "setsid", "stdbuf", "sudo", "taskset", "time", "timeout", "unshare"}
    | {"watch", "xargs"}
)
"""Programs that are there to start another one."""

SEPARATORS = re.compile(r"""[\s'"`(){};&|<>=,]+""")
"""What is around the names of programs in shell scripts, and in other languages."""

READ = 1 << 16
"""Bytes of a script that are searched for names of programs."""

TRIED = 16
"""Programs that are looked at."""


def advise(error: LbtraceError, request: Request, try_plan: Callable[[str], object]) -> None:
    """Let ``error``, which says that the program of the command has not what is asked for, say
    which one has that the command starts. ``try_plan`` plans a file, or raises `LbtraceError`."""
    try:
        program = find_command(*request.target.command)
    except CommandError:
        return
    script = _read_script(program)
    if why_not_run(os.fsencode(script)):
        return  # it starts nothing
    for path in _named(request.target.command, script, program):
        try:
            try_plan(path)
        except LbtraceError:
            continue
        error.advise(_hint(program, script, shlex.quote(path)))
        return
    starts = os.path.basename(program) in SHELLS | STARTERS
    if starts or script:
        error.advise(_hint(program, script, "FILE"))


def _hint(program: str, script: str, path: str) -> str:
    name = os.path.basename(program)
    kind = ", a shell" if name in SHELLS else ", a script" if script else ""
    return f"the command runs {name}{kind}; to trace what it starts, add {option('binary', path)}"


def _read_script(program: str) -> str:
    """The text of a script, empty where ``program`` is none."""
    try:
        with open(os.open(program, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(READ)
    except OSError:
        return ""
    return "" if text.startswith(b"\x7fELF") or b"\0" in text else os.fsdecode(text)


def _named(command: tuple[str, ...], script: str, program: str) -> Iterator[str]:
    """Programs that the words of a command, or its script, name besides the one that it runs."""
    seen = {os.path.realpath(program)}
    lines = [*command[1:], script.partition("\n")[2] if script.startswith("#!") else script]
    for word in dict.fromkeys(each for line in lines for each in (line, *SEPARATORS.split(line))):
        try:
            path = find_command(word)
        except (CommandError, ValueError):  # ValueError: it holds a NUL
            continue
        if (real := os.path.realpath(path)) not in seen and _is_program(path):
            seen.add(real)
            yield path
        if len(seen) > TRIED:
            return


def _is_program(path: str) -> bool:
    try:
        return Image.open(path).is_program
    except BinaryError:
        return False

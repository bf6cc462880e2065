"""What a process may do that decides how far probes reach, by the files that it maps."""

from __future__ import annotations

import re

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.go.build import is_go
from lbtrace.elf.image import Image
from lbtrace.elf.loaded_files import Closure
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError
from lbtrace.model import Target
from lbtrace.targets.reach import Abilities

FORKING = frozenset(
    {
        *("fork", "_Fork", "vfork", "clone", "__clone", "clone3", "syscall", "daemon", "forkpty"),
        *("posix_spawn", "posix_spawnp", "system", "popen", "wordexp", "dlopen", "dlmopen"),
        *(
            "execve",
            "execv",
            "execvp",
            "execvpe",
            "execl",
            "execle",
            "execlp",
            "execveat",
            "fexecve",
        ),
        *("rcmd", "login_tty", "g_spawn_async", "rexec"),
    }
)
"""Functions that start other processes or load code that may: another program, a plugin."""

CHECKED = frozenset({"sigaltstack", "prctl"})
"""What may make a hook harmful that a session's program then refuses: handlers on stacks of
their own; system calls that the program serves itself (PR_SET_SYSCALL_USER_DISPATCH)."""

_WANTED = Wanted(FORKING | CHECKED)

C_LIBRARY = re.compile(r"(libc|libpthread|libm|libdl|librt)\.so\.|ld-|ld64\.so|libc\.musl-")
"""Libraries, by DT_SONAME, that do such things for those that ask them to."""


def find_abilities(target: Target, process: Closure | None) -> Abilities:
    """Return what the process of ``target`` may do, which maps ``process``; anything where that is
    not known, where it is one of several, or where its children are traced as well."""
    if target.follow or len(target.pids) > 1 or not (target.pids or target.command):
        return Abilities()
    if process is None or process.missing or not process.paths:
        return Abilities()
    checked = False
    for number, path in enumerate(process.paths):
        try:
            image = Image.open(path)
        except BinaryError:
            continue  # mapped, but no code
        dynamic = image.once(Dynamic)
        if C_LIBRARY.match(dynamic.library):
            continue
        static = number == 0 and not dynamic.interpreter
        used = dynamic.imports.wanted(_WANTED)
        if static or is_go(image) or used & FORKING:
            return Abilities()
        checked |= bool(used & CHECKED)
    return Abilities(forks=False, checked=checked)

"""The exceptions lbtrace raises on purpose.

    LbtraceError                 status 1
    ├── UsageError               status 2   the request contradicts itself
    │   └── NoMatchError                    a pattern selects no function
    ├── BinaryError                         the file cannot be traced
    ├── TargetError                         the process or command cannot be traced
    │   └── CommandError     status 126, 127    the command cannot be started
    ├── KernelError                         the kernel refused something
    │   └── PrivilegeError                  privileges are missing
    ├── CaptureError                        a capture cannot be read
    ├── DependencyError                     a package is missing that an extra installs
    └── OutputError                         the output cannot be written

Every error carries one line that says what is wrong and one that says what
to do about it. Only ``lbtrace.commands.main`` prints them. Where they name an option, they
do so by `option`: on the command line it is ``--where``, in Python ``where=``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from errno import ENOENT
from typing import NamedTuple

from lbtrace.naming import NAMING, option_of

_MARK = "\0"
"""Before and after an option in a line: no argument and no name in a file holds this character."""

_IN_PYTHON = {name: f"{each.keyword}=" for name, each in NAMING.items() if each.keyword} | {
    "mode": "Options(mode)",
    "force": "force=True",
    "unsafe": "unsafe=True",
    "follow": "follow=True",
    "all": "all=True",
    "provider": "providers=",
}
"""How to write an option for `lbtrace.trace`, where that is not its name and ``=``."""

_LISTS = (*NAMING, "exclude", "arg", "within", "by")
_NUMBERS = ("pid", "args")


def option(name: str, value: object = "") -> str:
    """Return what names an option of ``lbtrace attach``, with a ``value`` for it, in a message
    or hint of a `LbtraceError`: ``--pid 1`` on the command line, ``pid=1`` in Python."""
    return f"{_MARK}{name} {value}".rstrip() + _MARK


def _spell(line: str, spell: Callable[[str, str, bool], str]) -> str:
    """``line`` with its options as ``spell`` writes them: their names, values, and whether a
    colon follows."""
    parts = line.split(_MARK)
    for number in range(1, len(parts) - 1, 2):
        name, _, value = parts[number].partition(" ")
        parts[number] = spell(name, value, parts[number + 1].startswith(":"))
    return "".join(parts)


def _for_command_line(name: str, value: str, _heads: bool) -> str:
    return f"{option_of(name)} {value}".rstrip()


def _for_python(name: str, value: str, heads: bool) -> str:
    known = _IN_PYTHON.get(name, f"{name}=")
    if value:
        shown = value if name in _NUMBERS else f'"{value}"'
        return f"{known}[{shown}]" if name in _LISTS else f"{known}{shown}"
    return known.rstrip("=") if heads else known


class LbtraceError(Exception):
    """Base of all errors of lbtrace.

    ``message`` says what is wrong, ``hint`` what to do; both are one line.
    ``detail`` holds further lines, such as the end of a verifier log.
    ``status`` is the exit status of a command that ends with this error.
    ``command_line`` are message and hint in the words of the command line.
    """

    status = 1

    def __init__(self, message: str, hint: str = "", *, detail: str = "") -> None:
        self._marked = message, hint
        self.message = _spell(message, _for_python)
        self.hint = _spell(hint, _for_python)
        self.detail = detail
        self.command_line = _spell(message, _for_command_line), _spell(hint, _for_command_line)
        super().__init__(self.message)

    def rename(self, name: str, instead: str) -> None:
        """Call an option otherwise, where another one had given it its value."""
        for mark in (" ", _MARK):
            old, new = (f"{_MARK}{each}{mark}" for each in (name, instead))
            self._marked = (self._marked[0].replace(old, new), self._marked[1].replace(old, new))
        message, hint = self._marked
        LbtraceError.__init__(self, message, hint, detail=self.detail)

    def advise(self, hint: str) -> None:
        """Give another ``hint``, where more is known than at the place of the error."""
        self.hint = _spell(hint, _for_python)
        self.command_line = self.command_line[0], _spell(hint, _for_command_line)

    def specify(self, where: str) -> None:
        """Add to the message ``where`` something is wrong, which is not known at its place."""
        message, hint = self.command_line
        self.command_line = f"{message}, {where}", hint
        self.message = f"{self.message}, {where}"
        self.args = (self.message,)


class Understood(NamedTuple):
    """How much of the expressions of a request fits what they are about, the more the greater: the
    whole ``condition``, all ``names``, or what precedes a character."""

    condition: bool = False
    names: bool = False
    at: int = 0


class UsageError(LbtraceError):
    """The request itself is wrong, whatever the machine. Where it is an expression that is wrong
    for some function, so much of it is ``understood``."""

    status = 2
    understood = Understood()


class NoMatchError(UsageError):
    """A pattern selects no function of the binary."""


class BinaryError(LbtraceError):
    """The file is missing, is no ELF file, or is one that cannot be traced."""


class TargetError(LbtraceError):
    """The process is gone, or the command cannot be started."""


class CommandError(TargetError):
    """The command cannot be executed, for the reason ``errno``.

    ``status`` is that of shells and env(1): 127 where it is not found, else 126.
    """

    def __init__(self, message: str, hint: str, *, errno: int) -> None:
        super().__init__(message, hint)
        self.errno = errno
        self.status = 127 if errno == ENOENT else 126


class KernelError(LbtraceError):
    """The kernel, or libbpf for it, refused an operation.

    ``errno`` is the positive error number, 0 where there is none.
    """

    def __init__(self, message: str, hint: str, *, detail: str = "", errno: int = 0) -> None:
        super().__init__(message, hint, detail=detail)
        self.errno = errno


class PrivilegeError(KernelError):
    """CAP_BPF, CAP_PERFMON or their substitute is missing."""


class CaptureError(LbtraceError):
    """The file is no capture, or is of a version this lbtrace cannot read."""


class DependencyError(LbtraceError, ImportError):
    """A package is not installed that one of lbtrace's extras brings. Also an `ImportError`."""


class OutputError(LbtraceError):
    """The output exists already, cannot be created, or the disk is full."""


ALIKE = 3
"""Names that an error proposes."""


def propose(wanted: str, names: Iterable[str], otherwise: str, alike: float = 0.6) -> str:
    """Return the advice to write one of ``names`` that are like what was ``wanted``."""
    from difflib import get_close_matches  # imported here because only a mistyped name needs it

    near = get_close_matches(wanted, [*names], ALIKE, alike)
    return f"nearest names: {', '.join(near)}" if near else otherwise

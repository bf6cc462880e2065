"""The user that a command runs as; only lbtrace itself runs as root."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from msgspec import Struct

from lbtrace.errors import UsageError, option
from lbtrace.text import in_quotes

SUDO = ("SUDO_COMMAND", "SUDO_GID", "SUDO_UID", "SUDO_USER")
"""Variables in which sudo(8) describes its caller to the program that it runs."""


class User(Struct, frozen=True):
    """A user as the password database knows it, with its groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


def find_user(name: str) -> User:
    """Return the user of that name or number. Raises `UsageError` where there is none."""
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        try:
            entry = pwd.getpwuid(int(name))
        except (KeyError, ValueError, OverflowError):
            raise UsageError(
                f"no user is called {in_quotes(name)}", "list users with: getent passwd"
            ) from None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    shell = entry.pw_shell or "/bin/sh"
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, shell)


def caller() -> str:
    """Return the user who called sudo, if that runs us as root; empty without sudo, or for root."""
    name = os.environ.get("SUDO_USER", "")
    return name if os.geteuid() == 0 and name != "root" else ""


def choose(asked: str) -> str:
    """Return the name of the user that a command runs as: the user ``asked`` for, else the one who
    called sudo; empty if that is the present one. Raises `UsageError` if there is none."""
    name = asked or caller()
    try:
        user = find_user(name) if name else None
    except UsageError as error:
        if not asked:
            raise UsageError(
                f"SUDO_USER says who called sudo, but {error.message}",
                f"choose with {option('user', 'NAME')};"
                f" {option('user', 'root')} runs the command as root",
            ) from None
        raise
    return user.name if user and user.uid != os.geteuid() else ""


def become(user: User) -> None:
    """Make this process the user's, for good. Raises `PermissionError` without CAP_SETUID
    and CAP_SETGID."""
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)


def environment(user: User, variables: Mapping[str, str]) -> dict[str, str]:
    """Return ``variables`` as the user's programs expect them, as sudo(8) and setpriv(1) set
    them."""
    kept = {name: value for name, value in variables.items() if name not in SUDO}
    own = {"HOME": user.home, "SHELL": user.shell, "USER": user.name, "LOGNAME": user.name}
    return kept | own

"""Makes lbtrace's tables of system calls: their numbers, arguments, and the names of constants.

Numbers and constants come from the headers of Linux and glibc that zig brings along. What no such
header has are the prototypes (prototypes.txt, of the kernel's include/linux/syscalls.h), and which
constants belong to which arguments (names.txt).
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import constants

HERE = Path(__file__).resolve().parent

HEADERS = (
    *("fcntl.h", "unistd.h", "signal.h", "sched.h", "time.h", "termios.h", "sys/file.h"),
    *("sys/mman.h", "sys/socket.h", "sys/wait.h", "sys/resource.h", "sys/epoll.h"),
    *("sys/eventfd.h", "sys/timerfd.h", "sys/signalfd.h", "sys/inotify.h", "sys/random.h"),
    *("sys/mount.h", "sys/prctl.h", "sys/stat.h", "sys/uio.h", "sys/ioctl.h"),
    *("netinet/in.h", "netinet/tcp.h", "linux/futex.h", "linux/fs.h", "linux/memfd.h"),
    *("linux/falloc.h", "linux/sockios.h", "sys/xattr.h", "sys/ptrace.h", "sys/time.h"),
    *("netinet/udp.h", "linux/netlink.h", "linux/close_range.h", "linux/capability.h"),
    *("linux/securebits.h", "linux/seccomp.h", "linux/bpf.h", "linux/mempolicy.h"),
    *("linux/membarrier.h", "linux/mman.h"),
)
"""What defines the constants."""

OWN_HEADERS = {"x86_64": ("asm/prctl.h",), "aarch64": ()}

REAL_TIME = {f"SIGRT_{n}": 32 + n for n in range(33)}
"""Signals, as strace calls them."""

DUMPABLE = {"SUID_DUMP_DISABLE": 0, "SUID_DUMP_USER": 1, "SUID_DUMP_ROOT": 2}
"""As the kernel's include/linux/sched/coredump.h has them."""

OTHERS = {"SOL_UDP": 17, **DUMPABLE, **REAL_TIME}
"""Constants that no header has."""

EXTRA = "".join(f"#define {name} {value}\n" for name, value in OTHERS.items())

LINUX = {"x86_64": "x86-linux-any", "aarch64": "aarch64-linux-any"}
"""What zig calls the headers of each machine."""


def make(machine: str, work: Path) -> bytes:
    """Return the table of a machine, as JSON."""
    groups = list(_read_groups())
    values = _evaluate(machine, work)
    rows: dict[str, str] = {}
    chosen: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for name, way, patterns, arguments in groups:
        constants = _select(values, patterns)
        field = {"one": -1, "all": 0}.get(way, int(way) if way.isdigit() else 0)
        named[name] = [field, sorted((v, n) for n, v in constants.items())]
        for argument, chooser, keys in _read_arguments(arguments):
            if chooser:
                cases = chosen.setdefault(argument, [chooser, []])[1]
                cases.append([[values[key] for key in keys], name])
            else:
                rows[argument] = name
    calls = {}
    numbers = _numbers(machine)
    for call, arguments in _prototypes(machine):
        if call not in numbers:
            continue
        shown = [
            [name, type, rows.get(f"{call}.{name}", rows.get(f"*.{name}", ""))]
            for type, name in arguments
        ]
        calls[call] = [numbers[call], shown]
    missing = {*rows, *chosen} - {f"{c}.{a[0]}" for c, (_, all) in calls.items() for a in all}
    unknown = [row for row in missing if not row.startswith("*") and machine == "x86_64"]
    if unknown:
        raise SystemExit(f"names.txt: there are no arguments {', '.join(sorted(unknown))}")
    filled = {"structures": {}, "filled": {}}
    for title, members, arguments in _read_structures():
        filled["filled"] |= dict.fromkeys(arguments, title)
        if members:
            filled["structures"][title] = _lay_out(machine, work, title, members)
    table = {"calls": calls, "groups": named, "chosen": chosen, **filled}
    return json.dumps(table, separators=(",", ":")).encode()


def _read_structures() -> Iterator[tuple[str, list[str], list[str]]]:
    text = re.sub(r"^#.*\n", "", (HERE / "structures.txt").read_text(), flags=re.M)
    for title, members, arguments in re.findall(r"^(\S.*):(.*)\n((?:    .*\n)+)", text, re.M):
        yield title, members.split(), arguments.split()


def _lay_out(machine: str, work: Path, title: str, members: list[str]) -> Any:
    """The size of a structure, of each member that is shown the name, offset, size, whether it is
    signed, and how it is written, and how many others there are."""
    own = [each.partition("/") for each in members if each[0] != "+"]
    more = sum(int(each) for each in members if each[0] == "+")
    asked = {"whole": f"sizeof({title})"}
    for name, _, _ in own:
        member = f"(({title} *)0)->{name}"
        asked[f"{name}_at"] = f"__builtin_offsetof({title}, {name})"
        asked[f"{name}_of"] = f"sizeof({member})"
        asked[f"{name}_signed"] = f"(__typeof__({member}))-1 < 0"
    lines = [f"#include <{name}>" for name in HEADERS]
    found = constants.evaluate(machine, work / f"structures.{machine}.c", lines, asked)
    rows = [
        [name, found[f"{name}_at"], found[f"{name}_of"], bool(found[f"{name}_signed"]), written]
        for name, _, written in own
    ]
    return [found["whole"], rows, more]


def _read_groups() -> Iterator[tuple[str, str, list[str], list[str]]]:
    text = re.sub(r"^#.*\n", "", (HERE / "names.txt").read_text(), flags=re.M)
    for head, arguments in re.findall(r"^(\S.*)\n((?:    .*\n)+)", text, re.M):
        title, _, patterns = head.partition(":")
        name, way = title.split()
        yield name, way, patterns.split(), arguments.split()


def _read_arguments(arguments: Iterable[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Arguments, CALL.ARGUMENT, and of each the other one that counts, and its constants."""
    for each in arguments:
        start, _, chooser = each.rstrip("]").partition("[")
        call, _, names = start.partition(".")
        other, _, keys = chooser.partition("=")
        for name in names.split(","):
            whole = name if "." in name else f"{call}.{name}"
            yield whole, other, keys.split("|")


def _prototypes(machine: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for line in (HERE / "prototypes.txt").read_text().splitlines():
        of, _, call = line.rpartition(": ")
        if of not in ("", machine):
            continue
        name, _, inside = call.rstrip(")").partition("(")
        words = [re.fullmatch(r"(.*?)(\w+)", each) for each in inside.split(", ") if each]
        yield name, [(word[1].strip(), word[2]) for word in words if word]


def _numbers(machine: str) -> dict[str, int]:
    text = (_includes() / LINUX[machine] / "asm/unistd_64.h").read_text()
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", text)}


def _select(values: dict[str, int], patterns: Iterable[str]) -> dict[str, int]:
    """The constants that the patterns name, of several for a number the first one."""
    wanted = [p for p in patterns if not p.startswith("-")]
    refused = [p[1:] for p in patterns if p.startswith("-")]
    found: dict[int, str] = {}
    for name, value in sorted(values.items()):
        if any(fnmatch.fnmatchcase(name, p) for p in wanted) and not any(
            fnmatch.fnmatchcase(name, p) for p in refused
        ):
            found.setdefault(value, name)
    return {name: value for value, name in found.items()}


def _includes() -> Path:
    (package,) = importlib.util.find_spec("ziglang").submodule_search_locations
    return Path(package) / "lib/libc/include"


def _evaluate(machine: str, work: Path) -> dict[str, int]:
    """The integers among the macros and enumerators of the headers."""
    lines = [*(f"#include <{name}>" for name in (*HEADERS, *OWN_HEADERS[machine])), EXTRA]
    source = work / f"constants.{machine}.c"
    source.write_text("\n".join(lines))
    macros = constants.preprocess(machine, source, "-dM")
    found = {*re.findall(r"^#define (\w+) .", macros, re.M)}
    found |= {*re.findall(r"\b[A-Z]\w+", constants.preprocess(machine, source))}
    groups = [*_read_groups()]
    wanted = [p for _, _, patterns, _ in groups for p in patterns if p[0] != "-"]
    for _, _, _, arguments in groups:
        wanted += [key for _, _, keys in _read_arguments(arguments) for key in keys if key]
    tested = re.compile("|".join(fnmatch.translate(p) for p in wanted))
    names = sorted(name for name in found if tested.fullmatch(name))
    return constants.evaluate(machine, source, lines, {name: name for name in names})


if __name__ == "__main__":
    print(make(sys.argv[1], Path(sys.argv[2])).decode())

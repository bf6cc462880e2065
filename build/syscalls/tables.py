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
    *("linux/membarrier.h", "linux/mman.h", "poll.h", "sys/select.h", "sys/utsname.h"),
    *("sys/sysinfo.h", "sys/vfs.h", "linux/magic.h", "linux/sched.h", "linux/openat2.h"),
    *("sys/sem.h", "sys/shm.h"),
)
"""What defines the constants."""

OWN_HEADERS = {"x86_64": ("asm/prctl.h",), "aarch64": ()}

REAL_TIME = {f"SIGRT_{n}": 32 + n for n in range(33)}
"""Signals, as strace calls them."""

DUMPABLE = {"SUID_DUMP_DISABLE": 0, "SUID_DUMP_USER": 1, "SUID_DUMP_ROOT": 2}
"""As the kernel's include/linux/sched/coredump.h has them."""

OTHERS = {"SOL_UDP": 17, "SA_RESTORER": 0x4000000, **DUMPABLE, **REAL_TIME}
"""Constants that no header has, beside others that are needed."""

LARGE_FILES = """\
#undef O_LARGEFILE
#ifdef __x86_64__
#define O_LARGEFILE 0100000
#else
#define O_LARGEFILE 0400000
#endif
"""
"""As the kernel has it, which sets it where the C library has no need to."""

EXTRA = LARGE_FILES + "".join(f"#define {name} {value}\n" for name, value in OTHERS.items())

OWN_STRUCTURES = """
#undef sa_handler
struct kernel_sigaction { void *sa_handler; unsigned long sa_flags; void *sa_restorer;
    unsigned long sa_mask; };
typedef struct pollfd polled;
typedef siginfo_t received;
typedef struct timespec stamp;
struct kernel_sched_attr { unsigned size, sched_policy; unsigned long long sched_flags;
    int sched_nice; unsigned sched_priority;
    unsigned long long sched_runtime, sched_deadline, sched_period; };
"""
"""What the kernel lays out otherwise than glibc does (include/linux/signal_types.h), what glibc has
not (include/uapi/linux/sched/types.h), and what has other members that count in other calls."""

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
                cases.append([[_value(values, key) for key in keys], name])
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
    filled: dict[str, list[Any]] = {}
    layouts = {}
    for title, members, arguments in _read_structures():
        if members:
            layouts[title] = members
        for argument, *rest in map(_read_place, arguments):
            by = [[name, [_value(values, key) for key in keys]] for name, keys in rest.pop()]
            filled.setdefault(argument, []).append([title, *rest, by])
    asked = {*rows, *chosen, *(place.removeprefix("<") for place in filled)}
    known = {f"{c}.{a[0]}" for c, (_, all) in calls.items() for a in all}
    missing = asked - known - {f"{call}.retval" for call in calls}
    unknown = [row for row in missing if not row.startswith("*") and machine == "x86_64"]
    if unknown:
        raise SystemExit(f"there are no arguments {', '.join(sorted(unknown))}")
    structures = _lay_out(machine, work, layouts)
    table = {"calls": calls, "groups": named, "chosen": chosen}
    table |= {"structures": structures, "filled": filled}
    return json.dumps(table, separators=(",", ":")).encode()


def _value(values: dict[str, int], key: str) -> int:
    """The number of a constant, or of a sum of several."""
    return sum(values[each] for each in key.split("+"))


def _read_structures() -> Iterator[tuple[str, list[str], list[str]]]:
    text = re.sub(r"^#.*\n", "", (HERE / "structures.txt").read_text(), flags=re.M)
    for title, members, arguments in re.findall(r"^(\S.*?):(.*)\n((?:    .*\n)+)", text, re.M):
        yield title, members.split(), arguments.split()


def _read_place(place: str) -> tuple[str, str, str, list[tuple[str, list[str]]]]:
    """An argument, what counts the structures there, or their bytes, and which other arguments
    decide, with their constants."""
    found = re.fullmatch(r"(<?\w+\.\w+)(?:\*(\w+))?(?:/(\*?\w+))?(?:\[(.*)\])?", place)
    if not found:
        raise SystemExit(f"structures.txt: {place}")
    name, count, length, choosers = found.groups("")
    pairs = [each.partition("=") for each in choosers.split(",") if each]
    return name, count, length, [(by, keys.split("|")) for by, _, keys in pairs]


def _lay_out(machine: str, work: Path, layouts: dict[str, list[str]]) -> dict[str, Any]:
    """Of each structure the size, of each member that is shown the name, offset, size, whether it
    is signed, and how it is written, and how many others there are."""
    asked = {}
    for number, (title, members) in enumerate(layouts.items()):
        asked[f"{number}_whole"] = f"sizeof({title})"
        for at, each in enumerate(members):
            name = each.partition("/")[0]
            member = f"(({title} *)0)->{name}"
            asked[f"{number}_{at}_at"] = f"__builtin_offsetof({title}, {name})"
            asked[f"{number}_{at}_of"] = f"sizeof({member})"
            asked[f"{number}_{at}_signed"] = f"(__typeof__({member}))-1 < 0"
    lines = [*(f"#include <{name}>" for name in HEADERS), OWN_STRUCTURES]
    found = constants.evaluate(machine, work / f"structures.{machine}.c", lines, asked)
    made = {}
    for number, (title, members) in enumerate(layouts.items()):
        rows = []
        for at, each in enumerate(members):
            name, _, written = each.partition("/")
            if each[0] != "+":
                place = [found[f"{number}_{at}_{what}"] for what in ("at", "of")]
                rows.append([name, *place, bool(found.get(f"{number}_{at}_signed")), written])
        more = sum(int(each) for each in members if each[0] == "+")
        made[title] = [found[f"{number}_whole"], rows, more]
    return made


def _read_groups() -> Iterator[tuple[str, str, list[str], list[str]]]:
    text = re.sub(r"^#.*\n", "", (HERE / "names.txt").read_text(), flags=re.M)
    for head, arguments in re.findall(r"^(\S.*)\n((?:    .*\n)*)", text, re.M):
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
        keys = (key for _, _, keys in _read_arguments(arguments) for key in keys if key)
        wanted += [part for key in keys for part in key.split("+")]
    for _, _, arguments in _read_structures():
        choosers = [pair for place in arguments for pair in _read_place(place)[3]]
        wanted += [part for _, keys in choosers for key in keys for part in key.split("+")]
    tested = re.compile("|".join(fnmatch.translate(p) for p in wanted))
    names = sorted(name for name in found if tested.fullmatch(name))
    return constants.evaluate(machine, source, lines, {name: name for name in names})


if __name__ == "__main__":
    print(make(sys.argv[1], Path(sys.argv[2])).decode())

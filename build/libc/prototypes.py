"""Makes lbtrace's tables of the C library's functions: the names and types of their parameters.

They come from the headers of glibc that zig brings along; what a type is, its compiler says.
Functions that take or return records, complex numbers or ``long double`` are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import constants

HEADERS = """
    aio arpa/inet argz ctype dirent dlfcn envz err errno error execinfo fcntl fenv fnmatch fstab
    ftw getopt glob grp iconv ifaddrs inttypes langinfo libgen libintl link locale malloc math
    mntent monetary mqueue net/if netdb netinet/in nl_types obstack poll printf pthread pty pwd
    regex resolv sched search semaphore setjmp shadow signal spawn stdio stdlib string strings
    sys/epoll sys/eventfd sys/file sys/inotify sys/ioctl sys/ipc sys/mman sys/mount sys/msg
    sys/prctl sys/ptrace sys/random sys/resource sys/select sys/sem sys/sendfile sys/shm
    sys/signalfd sys/socket sys/stat sys/statfs sys/statvfs sys/swap sys/syscall sys/sysinfo
    sys/time sys/timerfd sys/times sys/timex sys/types sys/uio sys/un sys/utsname sys/wait
    sys/xattr syslog termios threads time uchar ucontext unistd utime utmp utmpx wchar wctype
    wordexp
"""

NOISE = re.compile(
    r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)"
    r"|__asm__\s*\((?:\s*\"[^\"]*\")+\s*\)"
    r"|\b(?:__extension__|__restrict|restrict|__inline|_Noreturn)\b"
)
"""What is no part of a type."""

DECLARED = re.compile(
    r"(?:^|[;}])\s*(?:extern\s+)?([\w\s*]+?)\b([a-z]\w*)\s*"
    r"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\s*(?=;)"
)
LEFT_OUT = re.compile(r"\w+f(16|32|32x|64|64x|128|128x)|_.*|lgamma\w*_r")
"""Names of functions of types that few have, and those that are not public."""

WITHOUT_TYPE = re.compile(r"\b(const|struct|union|enum|unsigned|signed)\b")
"""What is no type before a word: the word is one."""

TYPES = frozenset({"int", "long", "char", "short"})

KINDS = {1: "integer", 2: "integer", 3: "integer", 4: "integer", 5: "pointer", 8: "float"}
"""What ``__builtin_classify_type`` returns (gcc's typeclass.h)."""


def make(machine: str, work: Path) -> bytes:
    """Return the table of a machine, as JSON."""
    headers = [f"#include <{name}.h>" for name in HEADERS.split()]
    source = work / f"libc.{machine}.c"
    source.write_text("\n".join(headers))
    declared = list(_read(NOISE.sub(" ", constants.preprocess(machine, source, "-P"))))
    texts = sorted({each for _, result, taken in declared for each in (result, *_types(taken))})
    types = _classify(machine, source, headers, texts)
    functions = {
        name: [result, taken]
        for name, result, taken in declared
        if all(each in types or each == "..." for each in (result, *_types(taken)))
    }
    used = {each for result, taken in functions.values() for each in (result, *_types(taken))}
    kept = {text: type for text, type in types.items() if text in used}
    return json.dumps({"types": kept, "functions": functions}, separators=(",", ":")).encode()


def _types(parameters: list[tuple[str, str]]) -> list[str]:
    return [type for _, type in parameters]


def _read(text: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """The functions of a text in C: their names, results and parameters."""
    for words, name, inside in DECLARED.findall(text):
        result = " ".join(words.split())
        if LEFT_OUT.fullmatch(name) or result in ("return", "typedef", "else", ""):
            continue
        parts = [" ".join(each.split()) for each in re.split(r",(?![^(]*\))", inside)]
        taken = [_parameter(number, each) for number, each in enumerate(parts)]
        yield name, result, [] if parts == ["void"] else taken


def _parameter(number: int, text: str) -> tuple[str, str]:
    """The name and the type of a parameter."""
    if text == "...":
        return "", text
    name, type = "", text
    if function := re.search(r"\(\s*\*\s*(\w*)", text):
        name, type = function[1], "void *"
    elif named := re.fullmatch(r"(.+?)(\w+)((?:\s*\[\w*\])*)", text):
        before = WITHOUT_TYPE.sub("", named[1])
        if named[2] not in TYPES and re.search(r"\w", before):
            name, type = named[2], named[1] + "*" * named[3].count("[")
    type = re.sub(r"\b__(CONST_)?SOCKADDR_ARG\b", "struct sockaddr *", type)
    type = re.sub(r"\s*\*", " *", type.strip()).replace("* *", "**").replace("* *", "**")
    return name.lstrip("_") or f"arg{number}", type


def _classify(
    machine: str, source: Path, headers: list[str], texts: list[str]
) -> dict[str, tuple[str, int, bool]]:
    """What each type is, its size, and whether it has a sign."""
    numbered = {
        str(number): text for number, text in enumerate(texts) if text not in ("void", "...")
    }
    asked = {
        **{f"kind_{n}": f"__builtin_classify_type(*({text} *)0)" for n, text in numbered.items()},
        **{f"size_{n}": f"sizeof({text})" for n, text in numbered.items()},
        **{f"sign_{n}": f"({text})-1 < ({text})0" for n, text in numbered.items()},
    }
    values = constants.evaluate(machine, source, headers, asked)
    found = {"void": ("void", 0, False)}
    for n, text in numbered.items():
        kind, size = KINDS.get(values.get(f"kind_{n}", 0), ""), values.get(f"size_{n}", 0)
        if kind and 0 < size <= 8:
            found[text] = kind, size, bool(values.get(f"sign_{n}")) and kind == "integer"
    return found


if __name__ == "__main__":
    print(make(sys.argv[1], Path(sys.argv[2])).decode())

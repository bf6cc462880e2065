"""Compares variables at lines of real programs with what gdb shows there.

    python tests/lines_programs.py [--seed N] [--places N] [PROGRAM:COMPILER:LEVEL ...]

The programs are built from packages of Debian, with the compilers and levels of
`BUILDS`. `PLACES` places of a program are chosen by the seed, and at most `HITS` hits of each
are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # wherever it is run from

from lbtrace.dwarf.lines import SourceLines  # noqa: E402
from lbtrace.dwarf.sources import path_test  # noqa: E402
from lbtrace.elf.image import Image, whole  # noqa: E402
from tests import go_toolchains  # noqa: E402
from tests.debian_packages import binary_package, source_package  # noqa: E402
from tests.lines_truth import Client, Result, compare  # noqa: E402

OUT = ROOT / "build/out/lines"

INPUTS = ROOT / "tests/programs/lines"
"""What the programs are given to do."""

PLACES, HITS = 250, 4

SET = "-ftrivial-auto-var-init=pattern"
"""So that variables that are not set yet are the same in each run."""

COMPILERS = {
    **{"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")},
    **{"rustc": ("rustc",), "go": ("1.27.3",)},
}
"""The commands of each, or its version."""


@dataclass(frozen=True)
class Program:
    """``build`` takes the directory of a build, the compilers of C and C++ and the level;
    ``command`` is what is run there, ``files`` are the sources whose lines are compared.
    ``same``: its runs can have the same pointers, and the same in variables that are not set
    yet."""

    build: Callable[[Path, Sequence[str], str], None]
    command: Sequence[str]
    files: Sequence[str]
    client: Callable[[Path], Client] = lambda _: nullcontext
    compilers: Sequence[str] = ("gcc", "clang")
    same: bool = True


REDIS = (
    "set a 5|incr a|append a xyz|getrange a 0 2|setrange a 2 q|mset k1 v1 k2 v2|mget k1 k2 none"
    "|hset h f1 v1 f2 22|hincrby h f2 4|hgetall h|hdel h f1|rpush l 1 2 3 4|lrange l 0 -1|lpop l"
    "|linsert l before 3 x|sadd s1 a b c|sadd s2 b c d|sinter s1 s2|sunionstore s3 s1 s2|srem s1 a"
    "|zadd z 1 one 2 two 3 three|zincrby z 5 one|zrangebyscore z 2 9 withscores|zrank z two"
    "|zremrangebyrank z 0 0|setbit bits 7 1|bitcount bits|pfadd hll a b c|pfcount hll"
    "|multi|incr a|set m 3|exec|type z|rename k1 k3|exists k3 k1|strlen a|object encoding l"
    "|xadd st 1-1 f v|xrange st - +|geoadd g 13.3 38.1 P 15.0 37.5 C|geodist g P C|sort l alpha"
    "|eval 'return redis.call(\"get\",KEYS[1])' 1 m|lpush l2 c a b|lmove l l2 left right|flushall"
)


def _run(words: Sequence[str | Path], where: Path) -> None:
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"


def build_lua(into: Path, compilers: Sequence[str], level: str) -> None:
    """Lua's interpreter, and a script."""
    source = source_package("lua5.4", OUT) / "src"
    files = [each for each in source.glob("*.c") if each.name != "luac.c"]
    # The package's rules write this header before they build.
    (into / "lua5.4-deb-multiarch.h").write_text('#define DEB_HOST_MULTIARCH "here"\n')
    words = [compilers[0], "-g", level, SET, "-std=gnu99", "-DLUA_USE_POSIX", "-I."]
    words += ["-Dluai_makeseed(L)=7", *files]  # else it depends on the time
    _run([*words, "-o", "lua", "-lm"], into)
    shutil.copy(INPUTS / "run.lua", into)


def build_sqlite(into: Path, compilers: Sequence[str], level: str) -> None:
    """SQLite's shell, of one file, and statements."""
    source = source_package("sqlite3", OUT)
    if not (source / "shell.c").exists():
        _run(["./configure", "--disable-tcl", "--disable-readline"], source)
        _run(["make", "sqlite3.c", "shell.c"], source)
    words = [compilers[0], "-g", level, SET, source / "sqlite3.c", source / "shell.c"]
    _run([*words, "-o", "sqlite3", "-lpthread", "-ldl", "-lm"], into)
    shutil.copy(INPUTS / "run.sql", into)


def build_redis(into: Path, compilers: Sequence[str], level: str) -> None:
    """Redis's server, with the C library's allocator."""
    source = source_package("redis", OUT, patched=False)
    _run(["cp", "-a", f"{source}/.", into], into)
    words = [
        "make",
        "-C",
        "src",
        "MALLOC=libc",
        f"CC={compilers[0]}",
        f"OPTIMIZATION={level} {SET}",
    ]
    _run([*words, "USE_SYSTEMD=no", "redis-server"], into)
    (into / "redis-server").symlink_to("src/redis-server")


def build_tinyxml2(into: Path, compilers: Sequence[str], level: str) -> None:
    """A library of C++ that reads XML, and its authors' test."""
    source = source_package("tinyxml2", OUT)
    words = [compilers[1], "-g", level, SET, source / "tinyxml2.cpp", source / "xmltest.cpp"]
    _run([*words, "-o", "xmltest"], into)
    _run(["cp", "-r", source / "resources", into], into)
    (into / "resources/out").mkdir(exist_ok=True)


def build_regex(into: Path, compilers: Sequence[str], level: str) -> None:
    """A library of Rust that reads regular expressions, and a program that uses it."""
    package = binary_package("librust-regex-syntax-dev", OUT)
    (crate,) = package.glob("usr/share/cargo/registry/regex-syntax-*")
    parts = ("age", "bool", "case", "gencat", "perl", "script", "segment")
    features = ["unicode", *(f"unicode-{part}" for part in parts)]
    words = [compilers[0], "-g", f"-Copt-level={level[2:]}", "--cap-lints=allow", "--edition=2021"]
    chosen = [f'--cfg=feature="{feature}"' for feature in features]
    library = [*chosen, "--crate-type=rlib", "--crate-name=regex_syntax", crate / "src/lib.rs"]
    _run([*words, *library], into)
    used = ["--extern", "regex_syntax=libregex_syntax.rlib"]
    _run([*words, *used, INPUTS / "run.rs", "-o", "run"], into)


def build_go(into: Path, compilers: Sequence[str], level: str) -> None:
    """A program that uses packages of Go's library."""
    flags = ("-buildmode=pie", *(("-gcflags=all=-N -l",) if level == "-O0" else ()))
    go_toolchains.build(compilers[0], INPUTS / "run.go", into / "run", flags)


def redis_client(into: Path) -> Client:
    """Commands that are sent one after the other, and the server's end."""

    @contextmanager
    def talk() -> Iterator[None]:
        (into / "socket").unlink(missing_ok=True)
        commands = "\n".join((*REDIS.split("|"), "shutdown nosave", ""))
        script = "import socket,sys,time\n" + (
            "while True:\n    try:\n"
            "        s = socket.socket(socket.AF_UNIX); s.connect('socket'); break\n"
            "    except OSError: time.sleep(.05)\n"
            "for line in sys.stdin:\n"
            "    s.sendall(line.encode()); s.recv(1 << 16)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script], cwd=into, stdin=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        ) as client:  # fmt: skip
            assert client.stdin
            client.stdin.write(commands)
            client.stdin.close()
            try:
                yield
            finally:
                client.kill()

    return talk


SERVER = (
    "redis-server",
    "--port",
    "0",
    "--unixsocket",
    "socket",
    "--save",
    "",
    "--daemonize",
    "no",
)

PROGRAMS = {
    "lua": Program(build_lua, ("lua", "run.lua"), ("l*.c",)),
    "sqlite": Program(build_sqlite, ("sqlite3", ":memory:", ".read run.sql"), ("sqlite3.c",)),
    "redis": Program(
        build_redis,
        SERVER,
        ("t_*.c", "networking.c", "dict.c", "sds.c", "db.c", "listpack.c", "quicklist.c"),
        redis_client,
        same=False,  # it hashes by random numbers, and acts by the time
    ),
    "tinyxml2": Program(build_tinyxml2, ("xmltest",), ("*.cpp", "tinyxml2.h")),
    "regex": Program(
        build_regex, ("run",), ("ast/*.rs", "hir/*.rs", "run.rs"), compilers=("rustc",)
    ),
    "go": Program(
        build_go,
        ("run",),
        ("strconv/*.go", "encoding/json/*.go", "regexp/syntax/*.go", "go/scanner/*.go", "run.go"),
        compilers=("go",),
        same=False,  # the runtime's own threads take memory, too
    ),
}

BUILDS = [
    f"{program}:{compiler}:{level}"
    for program, how in PROGRAMS.items()
    for compiler in how.compilers
    for level in ("-O0", "-O2")
]


def run(build: str, seed: str, count: int = PLACES) -> Result:
    """Build a program, and compare places in it."""
    name, compiler, level = build.split(":")
    program = PROGRAMS[name]
    into = OUT / build.replace(":", "")
    if not (into / "ready").exists():
        into.mkdir(parents=True, exist_ok=True)
        program.build(into, COMPILERS[compiler], level)
        (into / "ready").touch()
    file = into / program.command[0]
    chosen = choose(file, program.files, random.Random(f"{build} {seed}"), count)
    before = Path.cwd()
    os.chdir(into)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            command = [str(file), *program.command[1:]]
            return compare(
                *(command, chosen, HITS, Path(scratch), program.client(into)),
                same=program.same,
            )
    finally:
        os.chdir(before)


def choose(file: Path, patterns: Sequence[str], dice: random.Random, count: int) -> list[str]:
    """Some lines with code of the files of a program."""
    image = Image.open(str(file))
    with whole([image]):
        lines = SourceLines(image, 0)
        found = {f"{p.path}:{p.line}" for each in patterns for p in lines.places(path_test(each))}
    return dice.sample(sorted(found), min(count, len(found)))


def main() -> int:
    """Compare, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default=os.environ.get("LBTRACE_SEED", "1"))
    parser.add_argument("--places", type=int, default=PLACES)
    parser.add_argument("builds", nargs="*", default=BUILDS)
    args = parser.parse_args()
    stops = equal = wrong = 0
    for build in args.builds:
        started = time.monotonic()
        result = run(build, args.seed, args.places)
        stops, equal = stops + result.stops, equal + result.equal
        wrong += len(result.wrong)
        seconds = time.monotonic() - started
        print(f"{build} {seconds:.0f} s {json.dumps(result.counts())}", flush=True)
        for each in result.wrong:
            print(f"  {each}", flush=True)
    print(
        f"figures: {len(args.builds)} builds, {stops:,} stops, {equal:,} values equal to gdb's,"
        f" {wrong:,} wrong"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""Builds the machine code of the wheel: the BPF objects and the extension modules.

    python build/native.py

The compiler is clang, zig's by default (it comes from the Python package
index, cross-compiles, and links against an old glibc, which is what makes the
wheel run everywhere). ``CLANG=clang`` compiles the BPF objects with another
clang, from 14 on.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import bindings
import limits
import shell_files
import sources
from libc import prototypes
from syscalls import tables

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build/out"
NATIVE = ROOT / "lbtrace/native"
OBJECTS = ROOT / "lbtrace/bpf/objects"
TABLES = {
    ROOT / "lbtrace/syscalls/tables": tables.make,
    ROOT / "lbtrace/libc/tables": prototypes.make,
}
LIBBPF, DEMANGLE = "lbtrace/bpf/_libbpf.abi3.so", "lbtrace/elf/_demangle.abi3.so"
OWN = {
    "lbtrace/calls/_fast_path.abi3.so": (
        "pairing",
        "parts",
        "lines",
        "profile_node",
        "profile_lanes",
        "profile",
        "slow",
        "slow_events",
        "slow_calls",
    ),
    "lbtrace/files/_faults.abi3.so": ("faults",),
    "lbtrace/elf/_symbol_table.abi3.so": ("symbol_table", "symbol_search", "function_names"),
    "lbtrace/elf/_unwind_rows.abi3.so": ("unwind_rows", "unwind_frames", "unwind_rules"),
    "lbtrace/machine/_code_scan.abi3.so": (
        "code_scan",
        "x86_64_code",
        "answers",
        "flow",
        "flow_view",
        "flow_ends",
        "epilogues",
        "exits",
    ),
}
"""Modules that are made of files of lbtrace/native alone."""

GLIBC = "2.17"
"""The oldest glibc the extensions run with: manylinux2014's."""

BPF_TARGET = {"x86_64": "x86", "aarch64": "arm64"}
"""The kernel's name of each machine, as bpf_tracing.h wants it."""


def install() -> None:
    """Everything this machine needs, into the source tree."""
    objects()
    for place, made in modules(platform.machine()).items():
        # A new inode: a process that has the old module mapped keeps it whole.
        (ROOT / place).unlink(missing_ok=True)
        shutil.copy(made, ROOT / place)


def objects() -> None:
    """Compile every ``bpf_src/*.bpf.c`` for every machine into lbtrace/bpf/objects/, and generate
    what Python and the compiler know of the files beside them."""
    limits.generate()
    sources.fetch(OUT / "src")
    libbpf = OUT / "src" / sources.LIBBPF.directory
    headers = OUT / "include/bpf"
    headers.mkdir(parents=True, exist_ok=True)
    for name in ("bpf_helpers.h", "bpf_helper_defs.h", "bpf_tracing.h", "bpf_core_read.h"):
        link = headers / name
        if not link.is_file():
            link.write_bytes((libbpf / "src" / name).read_bytes())
    OBJECTS.mkdir(parents=True, exist_ok=True)
    compiled = OUT / "objects"
    compiled.mkdir(exist_ok=True)
    made = {
        compiled / f"{source.name.split('.')[0]}.{machine}.bpf.o": (source, machine)
        for source in sorted((ROOT / "bpf_src").glob("*.bpf.c"))
        for machine in BPF_TARGET
    }
    commands = {whole: bpf_compile(*of, to=whole) for whole, of in made.items()}
    stale = {whole: command for whole, command in commands.items() if not _is_made(whole, command)}
    _run_all([*stale.values()])
    for whole, command in stale.items():
        _note_of(whole).write_text(shlex.join(command))
    shell_files.make()
    for place, make in TABLES.items():
        place.mkdir(parents=True, exist_ok=True)
        for machine in BPF_TARGET:
            (place / f"{machine}.json").write_bytes(make(machine, OUT))
    strip = str(_strip_debug())
    _run_all([[strip, str(whole), str(OBJECTS / whole.name)] for whole in made])


def bpf_compile(source: Path, machine: str, to: Path) -> list[str]:
    """The command that compiles a BPF program for a machine."""
    clang = shlex.split(os.environ.get("CLANG", f"{shlex.quote(sys.executable)} -m ziglang clang"))
    return (
        [*clang, "--target=bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror"]
        + [f"-D__TARGET_ARCH_{BPF_TARGET[machine]}", "-Wno-unused-command-line-argument"]
        + [f"-fdebug-prefix-map={ROOT}=.", f"-I{ROOT / 'bpf_src'}", f"-I{OUT / 'include'}"]
        + ["-c", str(source), "-o", str(to)]
    )


def _is_made(whole: Path, command: list[str]) -> bool:
    """Whether a BPF object was made by this command from the sources as they are."""
    note = _note_of(whole)
    if not _is_newer(whole) or not note.is_file() or note.read_text() != shlex.join(command):
        return False
    sources = (file for file in (ROOT / "bpf_src").rglob("*") if file.is_file())
    return whole.stat().st_mtime > max(file.stat().st_mtime for file in sources)


def _note_of(whole: Path) -> Path:
    """Where the command stands that has made a BPF object."""
    return whole.with_suffix(".command")


def _strip_debug() -> Path:
    """A program that leaves out what only debuggers read: half of what a BPF object takes in the
    wheel."""
    machine = platform.machine()
    work = OUT / machine
    made = work / "strip_debug"
    (work / "include").mkdir(parents=True, exist_ok=True)
    inputs = _linked_libbpf(machine, work)
    if not _is_newer(made):
        _run([*_cc(machine), *inputs, str(ROOT / "build/strip_debug.c"), "-o", str(made)])
    return made


def modules(machine: str) -> dict[str, Path]:
    """Compile and link the extension modules for ``machine``, this one or another.

    Returns where each belongs in the source tree, and where it was made.
    """
    work = OUT / machine
    work.mkdir(parents=True, exist_ok=True)
    # zig's cross targets take no Python headers of their own: the limited API's
    # are the same on every 64-bit machine, Debian's wrapper aside.
    wrapper = ["-D__x86_64__"] if machine == "aarch64" and platform.machine() == "x86_64" else []
    python = [f"-I{sysconfig.get_paths()['include']}", "-idirafter", "/usr/include", *wrapper]
    link = ["-DPy_LIMITED_API=0x030a0000", "-shared", "-Wl,--gc-sections", "-s"]
    made = {
        LIBBPF: _libbpf(machine, work),
        DEMANGLE: _demangler(machine, work),
        **{place: _own(work, place, names) for place, names in OWN.items()},
    }
    for place, inputs in made.items():
        _run([*_cc(machine), *python, *link, *inputs, "-o", str(work / Path(place).name)])
    return {place: work / Path(place).name for place in made}


def _cc(machine: str, command: str = "cc") -> list[str]:
    cc = [sys.executable, "-m", "ziglang", command, "-target", f"{machine}-linux-gnu.{GLIBC}"]
    # Nothing throws in this code, or unwinds it: the tables for that would be a tenth of it.
    tables = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
    cc += ["-O2", "-fPIC", "-fvisibility=hidden", "-fno-sanitize=undefined", "-DNDEBUG"]
    return [*cc, *tables]


def _libbpf(machine: str, work: Path) -> list[str]:
    """What the module of libbpf is linked from."""
    generated = work / "_libbpf.c"
    bindings.generate(generated)
    own = [NATIVE / f"{name}.c" for name in bindings.NATIVE]
    includes = [f"-I{ROOT / 'bpf_src'}", f"-I{NATIVE}"]
    return [*includes, str(generated), *map(str, own), *_linked_libbpf(machine, work)]


def _linked_libbpf(machine: str, work: Path) -> list[str]:
    """What a program or a module that uses libbpf is compiled and linked with."""
    sources.fetch(OUT / "src")
    cc = _cc(machine)
    libraries = [_library(cc, work, name) for name in ("libbpf", "libelf", "libz")]
    libbpf = OUT / "src" / sources.LIBBPF.directory
    includes = [f"-I{libbpf / 'include/uapi'}", f"-I{libbpf / 'include'}", f"-I{work / 'include'}"]
    headers = work / "include/bpf"
    headers.mkdir(parents=True, exist_ok=True)
    for header in (libbpf / "src").glob("*.h"):
        (headers / header.name).write_bytes(header.read_bytes())
    return [*includes, *map(str, libraries)]


def _demangler(machine: str, work: Path) -> list[str]:
    """What the module of the demangler is linked from: LLVM's, as it comes with zig."""
    generated, compiled = work / "_demangle.c", work / "bounded_demangle.o"
    bindings.generate_demangler(generated)
    if not _is_newer(compiled):
        (package,) = importlib.util.find_spec("ziglang").submodule_search_locations
        abi = Path(package) / "lib/libcxxabi"
        _run(
            [*_cc(machine, "c++"), "-std=c++23", "-fno-exceptions", "-fno-rtti"]
            + ["-ffunction-sections", "-D_LIBCXXABI_BUILDING_LIBRARY", f"-I{abi / 'include'}"]
            + ["-finstrument-functions-after-inlining"]
            + [f"-D{f}=lbt_{f}" for f in ("malloc", "calloc", "realloc", "free")]
            + ["-c", str(abi / "src/cxa_demangle.cpp"), "-o", str(compiled)]
        )
    return [f"-I{NATIVE}", str(generated), str(NATIVE / "demangle.c"), str(compiled)]


def _own(work: Path, place: str, names: Sequence[str]) -> list[str]:
    """What a module of files of lbtrace/native is linked from."""
    generated = work / f"_{names[0]}.c"
    bindings.generate_own(generated, place.partition(".")[0].replace("/", "."), names)
    includes = [f"-I{NATIVE}", f"-I{ROOT / 'bpf_src'}"]
    return [*includes, str(generated), *(str(NATIVE / f"{name}.c") for name in names)]


def _library(cc: list[str], work: Path, name: str) -> Path:
    """A static, position-independent library; kept until this file, with its flags, changes.

    What it does is done once a trace, so that it is compiled to be small.
    """
    archive = work / f"{name}.a"
    if _is_newer(archive):
        return archive
    src = OUT / "src"
    bpf, elf, zlib = (src / s.directory for s in (sources.LIBBPF, sources.ELFUTILS, sources.ZLIB))
    if name == "libbpf":
        files = (bpf / "src").glob("*.c")
        flags = [f"-I{bpf / 'src'}", f"-I{bpf / 'include'}", f"-I{bpf / 'include/uapi'}"]
        flags += [f"-I{elf / 'libelf'}", f"-I{zlib}"]
        flags += ["-D_LARGEFILE64_SOURCE", "-D_FILE_OFFSET_BITS=64", "-std=gnu89", "-w"]
        flags += ["-DLIBBPF_API="]  # hidden, so that what is not called is left out
    elif name == "libelf":
        (work / "config").mkdir(exist_ok=True)
        (work / "config/config.h").write_text(ELFUTILS_CONFIG)
        files = [*(elf / "libelf").glob("*.c"), elf / "lib/crc32.c", elf / "lib/next_prime.c"]
        flags = [f"-I{work / 'config'}", f"-I{elf / 'libelf'}", f"-I{elf / 'lib'}", f"-I{zlib}"]
        flags += ["-DHAVE_CONFIG_H", "-D_GNU_SOURCE", "-std=gnu99", "-w"]
    else:
        files = zlib.glob("*.c")
        flags = ["-DHAVE_UNISTD_H", "-D_LARGEFILE64_SOURCE=1", "-w"]
    objects = work / name
    objects.mkdir(exist_ok=True)
    made = {file: objects / f"{file.stem}.o" for file in sorted(files)}
    _run_all(
        [
            [*cc, "-Os", "-ffunction-sections", "-c", *flags, str(f), "-o", str(o)]
            for f, o in made.items()
        ]
    )
    _run([sys.executable, "-m", "ziglang", "ar", "rcs", str(archive), *map(str, made.values())])
    return archive


def _is_newer(made: Path) -> bool:
    """Whether something was made by this file as it is, with its flags."""
    return made.is_file() and made.stat().st_mtime > Path(__file__).stat().st_mtime


ELFUTILS_CONFIG = """\
#define PACKAGE_NAME "elfutils"
#define PACKAGE_VERSION "0.188"
#define HAVE_DECL_POWEROF2 0
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_RAWMEMCHR 1
#define HAVE_DECL_REALLOCARRAY 0
#define HAVE_DECL_MEMRCHR 1
#define HAVE_GCC_STRUCT 0
#define HAVE_VISIBILITY 1
#define HAVE_FALLTHROUGH 1
#define HAVE_ERROR_H 1
#define HAVE_ERR_H 1
#include <eu-config.h>
"""
"""What elfutils' configure would find with glibc, as far as libelf asks."""


def _run_all(commands: list[list[str]]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_run, commands))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    install()

"""Compares every site that plans of whole files have with what objdump says of the bytes there.

    python tests/check_sites.py [--sample N] [--jobs N] [--seconds N] [--files FILE ...]

Fetches packages into build/out/check-sites (through apt-get), plans all functions of their
programs and libraries in every mode of returns, and looks at each site: does an instruction
begin there, does no other instruction read the bytes there as data, and is it no long nop
within a function (`disassembly`)? Each file has a process, with a limit of time and memory; a
file that reaches one counts as failed. Prints a line for each file and the sum of all; exit
status 1 if a site is wrong or a file failed. ``--sample`` takes some of the files, others for
each commit.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from disassembly import Disassembly

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.errors import LbtraceError
from lbtrace.machine.code import Code
from lbtrace.machine.function_code import Around
from lbtrace.machine.x86_64.exits import Finder
from lbtrace.plan import Selection, make_plan
from lbtrace.plan.return_strategy import Returns

ROOT = Path("build/out/check-sites")

PACKAGES = (
    *("libc6", "libssl3", "libgmp10", "libx264-164", "libavcodec59", "libaom3", "libffi8"),
    *("libopenblas0-pthread", "libgtk2.0-0", "libllvm14", "libstd-rust-1.63", "redis-tools"),
    *("openjdk-17-jre-headless", "libnode108", "postgresql-15", "php8.2-cli", "libruby3.1"),
    *("caddy", "hugo", "gh", "prometheus", "docker.io", "rclone", "kubernetes-client"),
    *("etcd-server", "restic", "syncthing", "podman", "golang-1.19-go", "cpp-12", "lld-14"),
    *("libscalapack-openmpi2.2", "libstdc++6", "python3.11-minimal", "libsqlite3-0", "perl-base"),
    *("libglib2.0-0", "libx265-199", "libvpx7", "libdav1d6", "libgnutls30", "libgcrypt20"),
    *("libnettle8", "libcurl4", "libpng16-16", "libjpeg62-turbo", "libwebp7", "libfreetype6"),
    *("libharfbuzz0b", "libcairo2", "libpixman-1-0", "libgcc-s1", "libzstd1", "liblzma5"),
    *("zlib1g", "libbz2-1.0", "libxml2", "libmpfr6", "libisl23", "git", "gawk", "bash"),
    *("nginx", "lua5.4", "libmariadb3", "libboost-regex1.74.0", "libprotobuf32", "gdb"),
    *("libfftw3-double3", "libgsl27", "ocaml-base", "ocaml", "qemu-utils", "systemd", "ghc"),
    *("libflint17", "libwolfssl35", "libluajit-5.1-2", "erlang-base", "libgphobos3", "libgnat-12"),
)
"""Of them the largest program or library, and whatever else is larger than `SMALL`, `EACH` at
most. Debian strips its programs of Rust, so those of the machine's own toolchain come as well."""

SMALL, EACH = 30_000, 4
MODES: tuple[Returns, ...] = ("auto", "uretprobe", "sites", "none")
Follow = Callable[..., object]
MEMORY = 8 << 30
"""Bytes that the process of one file may map."""

SHOWN = 20
"""Wrong sites that are printed for each file."""


def fetch(package: str) -> Path | None:
    """The content of a package, None where there is none of that name."""
    root = ROOT / package
    if not root.exists():
        done = subprocess.run(
            ["apt-get", "download", package], cwd=ROOT, capture_output=True, check=False
        )
        found = sorted(ROOT.glob(f"{package}_*.deb"))
        if done.returncode or not found:
            return None
        subprocess.run(["dpkg-deb", "-x", found[0].resolve(), root], check=True)
        found[0].unlink()
    return root


def binaries(root: Path) -> list[Path]:
    """The largest ELF files of a package."""
    files = [f for f in root.rglob("*") if f.is_file() and not f.is_symlink()]
    found = []
    once = {f.stat().st_ino: f for f in files}.values()
    for file in sorted(once, key=lambda f: -f.stat().st_size):
        with file.open("rb") as data:
            if data.read(4) == b"\x7fELF" and (file.stat().st_size >= SMALL or not found):
                found.append(file)
    return found[:EACH]


def sites(path: str) -> tuple[dict[int, str], dict[str, str]]:
    """The addresses of all sites that plans of ``path`` have, and their kinds; the modes that
    are refused, and why."""
    found: dict[int, str] = {}
    refused: dict[str, str] = {}
    with ExitStack() as stack:
        for name in ("exits", "reached"):
            once = remembering(getattr(Finder, name))
            stack.enter_context(patch.object(Finder, name, once))
        for mode in MODES:
            try:
                plan = make_plan(path, Selection(("*",), returns=mode, force=True))
            except LbtraceError as error:
                refused[mode] = str(error)
                continue
            # Others are in libraries that switch stacks, which have their own turn.
            mine = (probe for probe in plan.probes if not probe.binary)
            found.update((probe.site.address, probe.role) for probe in mine)
    return found, refused


def remembering(find: Follow) -> Follow:
    """Where control flow leads is the same in every mode, so it is followed once: that is
    most of the time."""
    found: dict[object, object] = {}

    def following(
        finder: Finder,
        parts: Sequence[Code],
        around: Around,
        pads: Sequence[int] = (),
        **how: bool,
    ) -> object:
        key = tuple(parts), tuple(pads), *how.items()
        if key not in found:
            found[key] = find(finder, parts, around, pads, **how)
        return found[key]

    return following


def check(path: str) -> dict[str, object]:
    """What becomes of one file: how many sites it has, how many objdump's sweep did not
    find, and which are wrong."""
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found, refused = sites(path)
    if not found:
        return {"refused": next(iter(refused.values()))}
    planned = time.monotonic() - began
    starts = sorted({f.address for f in symbols.read(Image.open(path)).functions})
    again, wrong = Disassembly(path).suspects(found, starts)
    return {
        "sites": len(found),
        "modes": f"without {', '.join(refused)}" if refused else "all modes",
        "again": again,
        "wrong": [
            f"{suspect.address:#x}, {found[suspect.address]}: {suspect.why}" for suspect in wrong
        ],
        "planned": planned,
        "took": time.monotonic() - began,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def report(path: str, seconds: int) -> dict[str, object]:
    """Have a process `check` a file, and print what it says."""
    command = [sys.executable, __file__, "--one", path]
    name = Path(path).name
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        print(f"{name}: FAILED, not done in {seconds} s", flush=True)
        return {}
    if done.returncode:
        why = (done.stderr.splitlines() or [f"status {done.returncode}"])[-1]
        print(f"{name}: FAILED, {why}", flush=True)
        return {}
    said = json.loads(done.stdout)
    if "refused" in said:
        print(f"{name}: refused, {said['refused']}", flush=True)
        return said
    print(
        f"{name}: {said['sites']:,} sites, {said['again']:,} looked at again,"
        f" {len(said['wrong']):,} wrong; {said['modes']}, planned in {said['planned']:.0f} s of"
        f" {said['took']:.0f} s, with {said['memory']:,} MB",
        *(f"  {line}" for line in said["wrong"][:SHOWN]),
        sep="\n",
        flush=True,
    )
    return said


def toolchain() -> list[Path]:
    """The programs and libraries of Rust itself, which keep their symbols."""
    command = ["rustc", "--print", "sysroot"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    root = Path(done.stdout.strip())
    return binaries(root / "bin") + binaries(root / "lib")


def chosen(sample: int) -> Iterator[str]:
    """The files to check."""
    packages = list(PACKAGES)
    if sample:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=False)
        random.Random(commit.stdout).shuffle(packages)
    count = 0
    for package in (*packages, ""):
        root = fetch(package) if package else None
        if package and root is None:
            print(f"{package}: there is no such package", file=sys.stderr)
            continue
        for path in binaries(root) if root else toolchain():
            if sample and path.stat().st_size > 8 << 20:
                continue
            yield str(path)
            count += 1
            if sample and count == sample:
                return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, metavar="N")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files at once")
    parser.add_argument("--seconds", type=int, default=3600, metavar="N", help="for each file")
    parser.add_argument("--files", nargs="*", default=())
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(check(args.one)))
        return 0
    ROOT.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        files = args.files or [*chosen(args.sample)]
        return summed([*pool.map(lambda path: report(path, args.seconds), files)])


def summed(results: Iterable[dict[str, object]]) -> int:
    """Print the sum of all files, and return the exit status."""
    results = [*results]
    checked = [r for r in results if "sites" in r]
    failed = results.count({})
    sites, again = (sum(r[key] for r in checked) for key in ("sites", "again"))
    wrong = sum(len(r["wrong"]) for r in checked)
    print(
        f"figures: {sites:,} sites, {wrong:,} wrong, {again:,} looked at again;"
        f" {len(checked)} files, {failed} failed, {len(results) - len(checked) - failed} refused",
        flush=True,
    )
    return 1 if wrong or failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())

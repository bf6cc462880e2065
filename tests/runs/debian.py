"""Runs the gate, or another command, on a fresh minimal Debian: what a machine had by chance shows.

    python tests/runs/debian.py [-- COMMAND ...]

Needs root and debootstrap. The system is made in build/out/debian from the archive that this
machine's apt uses, with a clean clone of the commit, an empty home and no more variables than it
takes to reach the archive. It has the kernel, the processes and the network of this machine, and
mounts of its own, in a namespace that ends with its last process. Nothing else is left either.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path += [str(REPOSITORY / "tests" / folder) for folder in ("vm", "harmless")]

from offspring import adopt, kill_all  # noqa: E402
from packages import KEYRING, PackageError, mirror  # noqa: E402

RELEASE = "bookworm"
"""The release that README asks for."""

PRESENT = ("make", "python3")
"""What a machine has to have before `build/bootstrap` can install the rest."""

GATE = ("bash", ".ci/run")

OUT = REPOSITORY / "build/out/debian"

OWN = ("unshare", "--mount", "--propagation", "private")
"""Begins a command whose mounts nobody else sees."""

ENTER = """
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs tmpfs tmp
pivot_root . .
umount -l .
cd /source
shift
exec "$@"
"""
"""`unshare` within tests needs a root that is a mount, which chroot does not make."""

REACH = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT")
"""Variables that say how packages are reached from here; they are kept."""

FETCHING = [f"Acquire::{name}" for name in ("http", "https", "Check-Valid-Until", "Check-Date")]
"""Settings of apt that say so: proxies, and what a mirror that lags needs."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

PATIENCE = 30
"""Seconds that an interrupted command has to tidy up."""


def main() -> int:
    """The command line; returns the command's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("command", nargs="*", default=GATE, help="instead of the gate")
    command = parser.parse_args().command
    if os.geteuid() or shutil.which("debootstrap") is None:
        parser.error("this needs root, and debootstrap")
    adopt()
    # SIGINT as well: a shell's job in the background ignores it, and so would all below it.
    for number in ENDING:
        signal.signal(number, _interrupt)
    try:
        with _fresh() as root:
            _fill(root)
            print(f"a fresh {RELEASE} is up; running: {' '.join(command)}", flush=True)
            status = _run(root, command)
            installed = len(_packages(root))
    except (PackageError, subprocess.CalledProcessError) as error:
        print(f"no system can be made: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: the system is removed", flush=True)
        return 130
    print(f"figures: status {status}, {installed} packages installed in the end", flush=True)
    return status


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _fresh() -> Iterator[Path]:
    """An empty directory for the system, which is removed with all that runs in it."""
    OUT.mkdir(parents=True, exist_ok=True)
    root = OUT / "root"
    with (OUT / "lock").open("w") as lock:
        # All that runs in the system inherits it, so that a run whose system outlived it is seen.
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another run has its system in {OUT}, and goes on") from None
        try:
            _remove(root)
            root.mkdir()
            yield root
        finally:
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
            kill_all()
            _remove(root)


def _remove(root: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    if f" {root}/" in mounts or f" {root} " in mounts:
        raise SystemExit(f"{root} is mounted, or something below it: unmount it first")
    subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)


def _fill(root: Path) -> None:
    """Install the system, and clone the commit into it."""
    _call(
        *(*OWN, "debootstrap", "--variant=minbase", f"--keyring={KEYRING}"),
        *(f"--include={','.join(PRESENT)}", RELEASE, root, mirror()),
    )
    (root / "etc/apt/sources.list").write_text("".join(_sources()))
    shown = ("apt-config", "dump", "--no-empty", "--format", '%f "%v";%n', *FETCHING)
    (root / "etc/apt/apt.conf.d/99fetching").write_text(_call(*shown))
    own = Path("/usr/local/share/ca-certificates")
    if own.exists():
        shutil.copytree(own, root / own.relative_to("/"), dirs_exist_ok=True)
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    commit = _call("git", "-C", REPOSITORY, "rev-parse", "HEAD").strip()
    _call("git", "clone", "-q", "--no-local", REPOSITORY, root / "source")
    _call("git", "-C", root / "source", "checkout", "-q", "--detach", commit)
    (root / "home/nobody").mkdir()


def _sources() -> Iterator[str]:
    """The lines of sources.list for what this machine's apt has of the release."""
    found = _call("apt-get", "indextargets", "--format", "$(ORIGIN) $(SITE) $(RELEASE)")
    targets = {tuple(line.split(" ", 2)) for line in found.splitlines()}
    here = {(site, suite) for origin, site, suite in targets if origin == "Debian"}
    for site, suite in sorted({(mirror(), RELEASE), *here}):
        if suite.startswith(RELEASE):
            yield f"deb {site} {suite} main\n"


def _run(root: Path, command: Sequence[str]) -> int:
    """Run the command in the system to its end, or until this is interrupted."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    variables = {"PATH": path, "HOME": "/home/nobody", "CI": "true"}
    variables |= {name: os.environ[name] for name in REACH if name in os.environ}
    process = subprocess.Popen(
        [*OWN, "sh", "-euc", ENTER, "enter", root, *command], env=variables, close_fds=False
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        # By Ctrl-C it has had the signal, which does no harm twice.
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        raise


def _packages(root: Path) -> list[str]:
    """The packages that are installed in the system."""
    words = ("dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package}\n")
    return _call(*words).splitlines()


def _call(*words: str | Path) -> str:
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
        raise subprocess.CalledProcessError(done.returncode, [str(word) for word in words])
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

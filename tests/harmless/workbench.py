"""A job made ready to run: private copies of its files, and a fresh directory a run."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from jobs import HERE, Job
from offspring import descendants, kill_all

ROOT = Path(__file__).resolve().parents[2]

LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
"""A line of ldd(1)."""

SUMMARY = re.compile(r"lbtrace: ([\d,]+) calls? in .*\n(?:lbtrace: .*\n|  .*\n)*")
"""What lbtrace says at the end, which may follow output without an end of line."""

NOTES = re.compile(r"(?m)^lbtrace: .*\n(?:  .*\n)*")

VOLATILE = (".git/", ".cache", "random_seed", "data/", "dump.rdb", "append")
"""Files that differ from run to run: times in git's index, a database's files."""


@dataclass(frozen=True)
class Outcome:
    """What a run left, which is to be the same untraced and traced."""

    status: int
    output: str
    files: tuple[tuple[str, str], ...]
    calls: int = field(default=0, compare=False)
    refused: str = field(default="", compare=False)


class Bench:
    """A job in ``scratch``, a directory of its own; a run may take ``patience`` seconds.

    Programs that work at their own path only, and plugins, are copies, too: they are mounted
    over the originals, where the job and lbtrace alone see them.

    Raises `subprocess.CalledProcessError` where the job cannot be set up.
    """

    def __init__(self, job: Job, scratch: Path, patience: float) -> None:
        self.job = job
        self._patience = patience
        self._scratch = scratch
        self._filled, self._copies = scratch / "filled", scratch / "lib"
        for folder in (scratch, self._filled, self._copies):
            folder.mkdir()
        for folder in (scratch.parent, scratch):
            folder.chmod(0o755)  # for jobs of other users
        if job.user:
            shutil.chown(self._filled, job.user)
        self._set_up()
        self._mounts: dict[str, str] = {}
        self.program = self._filled / job.program  # an absolute path stays what it is
        if not self.program.is_relative_to(self._filled):
            private = self._copy(self.program, scratch / "bin")
            if job.in_place:
                self._mounts[str(self.program)] = str(private)
            else:
                self.program = private
        listed = subprocess.run(["ldd", self.program], capture_output=True, text=True, check=False)
        paths = [path for path in LIBRARY.findall(listed.stdout) if "ld-linux" not in path]
        self.libraries = [str(self._copy(Path(path), self._copies)) for path in paths]
        for plugin in sorted(path for pattern in job.libraries for path in glob.glob(pattern)):
            if os.path.basename(plugin) not in map(os.path.basename, self.libraries):
                self._mounts[plugin] = str(self._copy(Path(plugin), scratch / "plugins"))
                self.libraries.append(plugin)

    def run(self, *wrap: str) -> Outcome:
        """Run the job in a fresh directory, as the command after the words ``wrap``.

        Raises `subprocess.TimeoutExpired`.
        """
        here = self._scratch / "here"
        subprocess.run(["rm", "-rf", here], check=True)
        subprocess.run(["cp", "-a", self._filled, here], check=True)
        program = self.program
        if program.is_relative_to(self._filled):
            program = here / program.relative_to(self._filled)
        behind = self.job.command
        words = wrap + (behind if "{program}" in behind else ("{program}", *behind))
        command = [
            word.replace("{program}", str(program)).replace("{here}", str(here)) for word in words
        ]
        try:
            status, out, said = self._communicate(command, here, traced=bool(wrap))
        finally:
            kill_all()
        calls, refused = 0, ""
        if wrap:
            if found := SUMMARY.search(out):
                calls, out = int(found[1].replace(",", "")), SUMMARY.sub("", out)
            notes, out = NOTES.findall(out), NOTES.sub("", out)
            if not found and notes and not out + said:
                refused = " ".join(notes[-1].split())
        return Outcome(status, self._settle(out + said), tuple(self._files(here)), calls, refused)

    def _copy(self, file: Path, folder: Path) -> Path:
        """A copy of ``file`` that the job uses in its place."""
        folder.mkdir(exist_ok=True)
        return Path(shutil.copy(file, folder / file.name))

    def _set_up(self) -> None:
        command = ["bash", "-ec", self.job.setup]
        if self.job.user:
            command = ["runuser", "-u", self.job.user, "--", *command]
        environment = dict(os.environ, LC_ALL="C.UTF-8")
        subprocess.run(command, cwd=self._filled, check=True, capture_output=True, env=environment)

    def _communicate(self, command: list[str], here: Path, *, traced: bool) -> tuple[int, str, str]:
        """The status, what the job printed, and what its client printed."""
        environment = {
            **os.environ,
            **{"LC_ALL": "C.UTF-8", "TERM": "dumb", "HOME": str(here), "PYTHONHASHSEED": "0"},
            **{"PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(self._copies)},
            **self.job.environment,
        }
        client = self.job.client
        if self.job.user and not traced:
            command = ["setpriv", f"--reuid={self.job.user}", "--clear-groups", *command]
        command = [*self._mounting(), *command]
        if client == "xvfb":
            # Given a file, xvfb-run has no directory of its own, whose removal sometimes fails.
            command = ["xvfb-run", "-a", "-f", str(self._scratch / "Xauthority"), *command]
        with open(self._scratch / "out", "w+b") as out:
            with open(here / client[1:] if client.startswith("<") else os.devnull) as stdin:
                process = subprocess.Popen(
                    command,
                    cwd=here,
                    env=environment,
                    stdin=stdin,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            said = self._wait(process, here, client)
            return process.returncode, _read(out), said

    def _mounting(self) -> list[str]:
        """The words that run a command with private copies in the place of files."""
        if not self._mounts:
            return []
        script = 'while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"'
        pairs = [word for at, private in self._mounts.items() for word in (private, at)]
        return ["unshare", "--mount", "sh", "-ec", script, "sh", *pairs, "--"]

    def _wait(self, process: subprocess.Popen[bytes], here: Path, client: str) -> str:
        """Wait for the end of the job; what its client printed."""
        try:
            talks = client and client != "xvfb" and not client.startswith("<")
            said = self._talk(process, here, client) if talks else ""
            process.wait(self._patience)
            return said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise

    def _talk(self, process: subprocess.Popen[bytes], here: Path, client: str) -> str:
        """Run a client when the server listens, then end the server."""
        deadline = time.monotonic() + self._patience
        while not (here / self.job.ready).exists() and process.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("the server", self._patience)
            time.sleep(0.05)
        if process.poll() is not None:  # refused, or failed: there is no one to talk to
            return ""
        said = subprocess.run(
            ["bash", "-c", client],
            cwd=here,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self._patience,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", "JOBS": str(HERE)},
        )
        file = os.stat(self._mounts.get(str(self.program), self.program))
        if server := next((pid for pid in descendants() if _runs(pid, file)), None):
            os.kill(server, signal.SIGTERM)
        return said.stdout + said.stderr

    def _settle(self, text: str) -> str:
        """``text`` without what differs from run to run."""
        for pattern in (*self.job.ignore, re.escape(str(self._scratch))):
            text = re.sub(pattern, "", text)
        return text

    def _files(self, here: Path) -> Iterator[tuple[str, str]]:
        """The files that it left, and digests of their content."""
        for path in sorted(here.rglob("*")):
            name = str(path.relative_to(here))
            if path.is_file() and not name.startswith(VOLATILE):
                content = self._settle(path.read_bytes().decode("latin-1"))
                yield name, hashlib.sha256(content.encode()).hexdigest()[:12]


def _runs(pid: int, file: os.stat_result) -> bool:
    """Whether the process executes ``file``."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/exe"), file)
    except OSError:
        return False


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="backslashreplace")

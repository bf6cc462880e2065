"""What the kernel tests share: the programs, lbtrace itself, and the ways to attach.

LBTRACE_PROGRAMS names a directory of programs compiled elsewhere. On machines
that cannot trace, the tests skip, unless LBTRACE_REQUIRE holds ``kernel``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.forked import Server

ROOT = Path(__file__).resolve().parents[2]
LBTRACE = [sys.executable, str(ROOT / "tests/readback.py")]
"""``lbtrace``, with a look at whether a capture would hold what it shows."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if Path(__file__).parent in Path(item.path).parents]
    if not mine or "kernel" in os.environ.get("LBTRACE_REQUIRE", "").split(","):
        return
    done = subprocess.run([*LBTRACE, "doctor"], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = next((s for s in done.stdout.splitlines() if "missing" in s), "cannot trace here")
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def programs(own_copy: Callable[[Path], Path]) -> Path:
    """The directory of the compiled programs of tests/programs."""
    if given := os.environ.get("LBTRACE_PROGRAMS"):
        return Path(given)
    into = ROOT / "build/out/programs"
    subprocess.run([sys.executable, ROOT / "tests/programs/build.py", into], check=True)
    return own_copy(into)


@pytest.fixture
def public_fib(programs: Path) -> Iterator[Path]:
    """``fib`` where every user may run it, which a checkout's parents may forbid."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        yield Path(shutil.copy(programs / "fib", directory))


def tool(name: str) -> str:
    """The path of a program that tests want; without it they skip, or fail where nothing may."""
    path = shutil.which(name)
    if path is None:
        strict = "kernel" in os.environ.get("LBTRACE_REQUIRE", "").split(",")
        (pytest.fail if strict else pytest.skip)(f"no {name} is installed")
    return path


@pytest.fixture(name="tool", scope="session")
def _tool() -> Callable[[str], str]:
    return tool


@pytest.fixture
def rust(tmp_path: Path) -> Callable[[str, str], Path]:
    """Compiles a source of tests/programs at a level of optimisation."""

    def compile(source: str, level: str) -> Path:
        made = tmp_path / Path(source).stem
        options = ["-g", "-C", f"opt-level={level}", ROOT / "tests/programs" / source, "-o", made]
        subprocess.run([tool("rustc"), *options], check=True, capture_output=True)
        return made

    return compile


@pytest.fixture(scope="session")
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a text with a command; the cases of a test have the same program."""

    @cache
    def compile(command: tuple[str, ...], text: str) -> Path:
        made = tmp_path_factory.mktemp("compiled")
        source = made / ("source.cc" if "++" in command[0] else "source.c")
        source.write_text(text)
        subprocess.run([*command, source, "-o", made / "program"], check=True)
        return made / "program"

    return compile


@pytest.fixture
def compiled(
    tmp_path: Path, _compiled_once: Callable[..., Path]
) -> Callable[[str, list[str], str], Path]:
    """Compiles a text with a command; LBTRACE_PROGRAMS brings the result by its name."""

    def compile(name: str, command: list[str], text: str) -> Path:
        if given := os.environ.get("LBTRACE_PROGRAMS"):
            return Path(given) / name
        tool(command[0])
        return Path(shutil.copy(_compiled_once(tuple(command), text), tmp_path / name))

    return compile


@pytest.fixture(scope="session")
def many(own_copy: Callable[[Path], Path]) -> Path:
    """The program of tests/programs/many.py."""
    if given := os.environ.get("LBTRACE_PROGRAMS"):
        return Path(given) / "many"
    into = ROOT / "build/out/many"
    subprocess.run([sys.executable, ROOT / "tests/programs/many.py", into], check=True)
    return own_copy(into)


@cache
def _modes() -> list[str]:
    """The ways of attaching that this kernel has."""
    from lbtrace.bpf import features

    found = features.probe()
    has = ["plain", *["multi"] * found.multi, *["session"] * found.session]
    # A way that a kernel is known to have is no reason to leave out its tests.
    known = set(os.environ.get("LBTRACE_VM_FEATURES", "").split(",")) & {"multi", "session"}
    assert known <= set(has), f"this kernel is known to have {known}, but only {has} are found"
    return has


@pytest.fixture(scope="session")
def modes() -> list[str]:
    """The ways of attaching that this kernel has."""
    return _modes()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a ``mode`` runs once in each way of attaching that this kernel has; the
    matrix of kernels runs every one somewhere."""
    if "mode" in metafunc.fixturenames:
        metafunc.parametrize("mode", _modes())


@pytest.fixture(scope="session")
def _forked() -> Iterator[Any]:
    """The server of tests/forked.py."""
    with Server() as server:
        yield server


@pytest.fixture
def lbtrace(
    request: pytest.FixtureRequest, _forked: Any
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command of lbtrace to its end. One test in ten starts it as people do, the others
    fork it from a process that has imported it."""
    starts = zlib.crc32(request.node.nodeid.encode()) % 10 == 0

    def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"capture_output": True, "text": True, "timeout": 300} | options
        common = {"capture_output": True, "text": True}
        simple = options.keys() <= {*common, "timeout", "cwd"} and common.items() <= options.items()
        if simple and not starts and _forked.can_run():
            given = {name: options[name] for name in options.keys() - common}
            done = _forked.run([*map(str, words)], **given)
            done.args = [*LBTRACE, *map(str, words)]
            return done  # type: ignore[no-any-return]
        return subprocess.run([*LBTRACE, *map(str, words)], check=False, **options)

    return run


@pytest.fixture
def traced(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> Callable[[Path, str], list[dict[str, Any]]]:
    """The calls of a program's functions that match a pattern."""

    def trace(program: Path, pattern: str) -> list[dict[str, Any]]:
        output = tmp_path / "out.jsonl"
        words = ("attach", "--func", pattern, "--strict", "--quiet", "-o", output, "--", program)
        done = lbtrace(*words)
        assert done.returncode == 0, done.stderr
        return calls(output.read_text())

    return trace


class Started:
    """A process under test, its output collected until `finish`."""

    def __init__(self, *words: object, **options: Any) -> None:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        self.process = subprocess.Popen(list(map(str, words)), **options)
        self.pid = self.process.pid

    def wait_for(self, text: str, stream: str = "stderr") -> str:
        """Read until a line that holds ``text``."""
        said = ""
        for line in getattr(self.process, stream):
            if text in line:
                return str(line)
            said += line
        raise AssertionError(f"{self.process.args} ended without saying {text!r}, but {said!r}")

    def finish(self, timeout: float = 120) -> tuple[int, str, str]:
        """Its status, and what it printed that has not been read."""
        out, error = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, error


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    """Starts processes, and leaves none behind."""
    running: list[Started] = []

    def begin(*words: object, **options: Any) -> Started:
        running.append(Started(*words, **options))
        return running[-1]

    yield begin
    for started in running:
        if started.process.poll() is None:
            started.process.kill()
        with suppress(subprocess.TimeoutExpired):  # what it started may hold its output open
            started.process.communicate(timeout=10)


@pytest.fixture
def start_lbtrace(start: Callable[..., Started]) -> Callable[..., Started]:
    """Starts lbtrace, which runs while the test does something else."""
    return lambda *words, **options: start(*LBTRACE, *words, **options)


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Waits until something holds that another process does."""

    def wait(holds: Callable[[], object], seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.02)

    return wait


def calls(text: str) -> list[dict[str, Any]]:
    """The calls of a jsonl output."""
    objects = [json.loads(line) for line in text.splitlines()]
    return [record for record in objects if record["type"] == "call"]


def summary(text: str) -> dict[str, Any]:
    """The last object of a jsonl output."""
    last: dict[str, Any] = json.loads(text.splitlines()[-1])
    assert last["type"] == "summary"
    return last

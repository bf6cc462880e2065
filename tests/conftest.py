"""What the tiers share: programs compiled by Go, and Go's real programs."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests import readback

HERE = Path(__file__).parent


def _seed() -> str:
    """Another number with each commit, and the same for all tests of one."""
    words = ["git", "-C", HERE, "rev-parse", "--short=8", "HEAD"]
    try:
        commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # in a guest
        commit = "1"
    return str(int(commit, 16))


os.environ.setdefault("LBTRACE_SEED", _seed())
"""Where generators begin: what fails can be run again with the same seed."""


WORKER = os.environ.get("PYTEST_XDIST_WORKER")
"""The name of this process where several share the tests."""


def pytest_report_header() -> str:
    return f"LBTRACE_SEED={os.environ['LBTRACE_SEED']}"


HURRY = Path("/sys/kernel/rcu_expedited")
"""Detaching waits for grace periods, plain probes for one after the other: a third of the time
that the kernel tests would take."""

HURRIED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Hurry the kernel, in one process for all workers; who finds it hurried leaves it so."""
    if WORKER is None and os.access(HURRY, os.W_OK) and HURRY.read_text().strip() == "0":
        config.stash[HURRIED] = True
        HURRY.write_text("1")


def pytest_unconfigure(config: pytest.Config) -> None:
    if HURRIED in config.stash:
        HURRY.write_text("0")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with several parameters, each value of each is tried every day, as those of a
    diagonal; their other combinations are slow. Which way of attaching one is tried in that has
    no parameter but that depends on its name. Guests choose themselves (tests/vm/guest)."""
    if "LBTRACE_VM_FEATURES" in os.environ:
        return
    cases: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and item.get_closest_marker("slow") is None:
            assert isinstance(item, pytest.Function)
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_one in cases.values():
        of_one.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        kept = of_one[:1] if set(of_one[0].callspec.params) == {"mode"} else _diagonal(of_one)
        for item in of_one:
            if item not in kept:
                item.add_marker(pytest.mark.slow)


def _diagonal(cases: Sequence[pytest.Function]) -> set[pytest.Function]:
    """Few cases that have each value of each parameter."""
    values = {case: _values(case) for case in cases}
    wanted = set[str]().union(*values.values())
    kept = set()
    while wanted:
        case = max(cases, key=lambda case: len(values[case] & wanted))
        kept.add(case)
        wanted -= values[case]
    return kept


def _values(case: pytest.Function) -> set[str]:
    """What a case is made of: a value of each parameter, of those that vary together one."""
    marks = [mark.args[0] for mark in case.iter_markers("parametrize")]
    together = [[n.strip() for n in m.split(",")] if isinstance(m, str) else [*m] for m in marks]
    params = case.callspec.params
    alone = [[name] for name in params if not any(name in names for names in together)]
    return {f"{names} {[params[name] for name in names]!r}" for names in [*together, *alone]}


@pytest.fixture(scope="session")
def own_copy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Copies a program or a directory of them for this worker: probes are in files, and what
    traces a file sees whoever runs it."""

    def copy(source: Path) -> Path:
        if WORKER is None:
            return source
        made = tmp_path_factory.getbasetemp() / "own" / source.name
        if made.exists():
            return made
        made.parent.mkdir(exist_ok=True)
        return Path((shutil.copytree if source.is_dir() else shutil.copy2)(source, made))

    return copy


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Makes what a test takes from `random` depend on the seed and its name alone."""
    random.seed(f"{os.environ['LBTRACE_SEED']} {request.node.nodeid}")


readback.install()  # before any test imports what it checks

KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "plain": ((), {}),
    "stripped": (("-ldflags=-s -w",), {}),
    "pie": (("-buildmode=pie",), {}),
    "pie-stripped": (("-buildmode=pie", "-ldflags=-s -w"), {}),
    "cgo": (("-ldflags=-linkmode=external",), {"CGO_ENABLED": "1"}),
    "cgo-stripped": (("-ldflags=-linkmode=external -s -w",), {"CGO_ENABLED": "1"}),
    "static-pie": (
        ("-buildmode=pie", "-ldflags=-linkmode=external -extldflags=-static-pie"),
        {"CGO_ENABLED": "1"},
    ),
    "shared": (("-buildmode=c-shared",), {"CGO_ENABLED": "1"}),
    "shared-stripped": (("-buildmode=c-shared", "-ldflags=-s -w"), {"CGO_ENABLED": "1"}),
    "noinline": (("-gcflags=-l",), {}),
    "unoptimised": (("-gcflags=-N -l",), {}),
    "arm64": ((), {"GOARCH": "arm64"}),
}
"""Ways to build: flags of ``go build``, and variables of its environment."""


EVERYDAY = ("1.15", "1.27.3")
"""The versions of Go whose programs machines without a compiler get ready-made."""

EVERYDAY_KINDS = ("plain", "stripped", "pie", "cgo", "cgo-stripped")


@pytest.fixture(scope="session")
def go() -> ModuleType:
    """tests/go_toolchains.py."""
    from tests import go_toolchains

    return go_toolchains


@pytest.fixture(scope="session")
def go_made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path | None]:
    """A copy of a Go program that LBTRACE_PROGRAMS brought along; None where one compiles."""

    def find(name: str) -> Path | None:
        given = os.environ.get("LBTRACE_PROGRAMS")
        if not given:
            return None
        copy = tmp_path_factory.getbasetemp() / name
        return copy if copy.exists() else Path(shutil.copy(Path(given) / "go" / name, copy))

    return find


@pytest.fixture(scope="session")
def go_program(
    go: ModuleType, go_made: Callable[[str], Path | None], own_copy: Callable[[Path], Path]
) -> Callable[..., Path]:
    """Compiles a program of tests/programs/go: its name, a version of Go, a kind of `KINDS`."""

    def compile(name: str, version: str, kind: str = "plain") -> Path:
        if (made := go_made(f"{name}-{version}-{kind}")) is not None:
            return made
        flags, variables = KINDS[kind]
        source = HERE / "programs/go" / f"{name}.go"
        into = go.MADE / f"{name}-{version}-{kind}"
        return own_copy(go.build(version, source, into, flags, **variables))

    return compile

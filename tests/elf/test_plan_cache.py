"""Plans that are kept between runs: the same as new ones, and never stale."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbtrace.capture import CaptureWriter, read_capture
from lbtrace.dwarf.code_names import with_names
from lbtrace.model import Losses, Target
from lbtrace.session import planning
from lbtrace.session.prepare import prepare
from lbtrace.session.request import Request
from lbtrace.system import lookups

ROOT = Path(__file__).resolve().parents[2]
FIB = ROOT / "tests/programs/fib.c"
OLD = 2 * lookups.FRESH / 1e9
"""Seconds after which a file may be relied on."""

LIBC = next(Path("/lib").glob("*-linux-gnu/libc.so.6"))
SYSTEM = {
    "ls": ("/bin/ls", "*"),
    "git": (shutil.which("git"), "*"),
    "libc": (LIBC, "/^(malloc|q?sort|longjmp|dlsym|str.*)$/"),
    "ld.so": (next(LIBC.parent.glob("ld-linux*.so.*")), "*"),
    "libstdc++": (
        LIBC.parent.parent.parent / "usr/lib" / LIBC.parent.name / "libstdc++.so.6",
        "*throw*",
    ),
}
"""Files of the system, some with and some without names, and what to select of them."""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The requests for which a plan had to be made; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    requests = []
    plan = planning.plan

    def count(request):
        requests.append(request)
        return plan(request)

    monkeypatch.setattr(planning, "plan", count)
    return requests


@pytest.fixture
def fib(tmp_path):
    return build(FIB, tmp_path / "fib", "-O1", "-g")


def build(source, program, *options):
    subprocess.run(["gcc", source, "-o", program, *options], check=True)
    time.sleep(OLD)
    return program


def ask(program, pattern="fib", **options):
    return plan(Target(), program, pattern, **options).plan


def plan(target, program, pattern="fib", *, cache=True, **options):
    request = Request((pattern,), target=target, binaries=(str(program),), **options)
    return prepare(request, cache=cache)


def test_a_plan_is_made_once(made, fib):
    plans = [ask(fib), ask(fib), ask(fib, cache=False)]
    assert len(made) == 2
    assert plans[0] == plans[1] == plans[2]


def test_code_that_changes_without_a_time(made, fib):
    """A store into a page of a shared mapping that is dirty already changes no time."""
    (function,) = ask(fib, cache=False).functions
    with fib.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        at = function.offset + function.size - 1
        mapped[at] = mapped[at]
        time.sleep(OLD)
        ask(fib)
        before, count = lookups.state_of(str(fib)), len(made)
        mapped[at] = 0x90
        assert lookups.state_of(str(fib)) == before
        assert ask(fib) == ask(fib, cache=False)
        assert len(made) == count + 2


def test_the_file_that_was_checked_is_probed(made, fib):
    plan(Target(), fib)
    kept = plan(Target(), fib)
    assert len(made) == 1
    (file,) = kept.files
    shutil.copy(fib, fib.with_suffix(".new"))
    os.replace(fib.with_suffix(".new"), fib)
    assert file.change() == "replaced"


@pytest.mark.parametrize("name", SYSTEM)
def test_kept_plans_are_the_same(made, name, tmp_path):
    path, pattern = SYSTEM[name]
    # In what every process runs, a note names those that exchange stacks, which come and go.
    libraries = ("libc", "ld.so", "libstdc++")
    target = Target(command=("/bin/ls" if name in libraries else str(path), "x"))
    new = plan(target, path, pattern, cache=False)
    first = plan(target, path, pattern)
    kept = plan(target, path, pattern)
    assert len(made) == 2
    assert kept.plan.functions
    for one, other in zip(new.plan.functions, kept.plan.functions, strict=True):
        assert one == other
    assert new.plan == first.plan == kept.plan
    assert (new.reach, new.notes) == (kept.reach, kept.notes)
    capture = tmp_path / "kept.lbt"
    with capture.open("wb", buffering=0) as stream:
        writer = CaptureWriter(stream, kept.plan)
        writer.finish(Losses())
    with read_capture(capture) as read:
        assert read.plan == with_names(kept.plan)


def replace(path):
    shutil.copy(path, f"{path}.new")
    os.replace(f"{path}.new", path)


def overwrite(path):
    """With other bytes of the same number, and the same time."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def move(path):
    """Behind a link."""
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def add_dwp(path):
    Path(f"{path}.dwp").write_bytes(b"not a package")


@pytest.mark.parametrize("change", [replace, Path.touch, overwrite, move, add_dwp])
def test_a_changed_file_is_planned_anew(made, tmp_path, change):
    program = build(FIB, tmp_path / "fib", "-O1", "-g", "-gsplit-dwarf")
    ask(program)
    assert len(made) == 1
    change(program)
    time.sleep(OLD)
    assert ask(program) == ask(program, cache=False)
    assert len(made) == 3


OPTIONS = (
    *({"args": 0}, {"arg": ("arg0",)}, {"where": "n > 2"}, {"depth": 1}, {"strings": 8}),
    *({"returns": "sites"}, {"returns": "none"}, {"force": True}, {"mode": "plain"}),
    *({"action": "count"}, {"named": {"source": ("fib.c",)}}, {"pattern": "f*"}),
)


def test_other_options_are_other_plans(made, fib):
    ask(fib)
    for count, options in enumerate(OPTIONS, 2):
        new = ask(fib, **options)
        assert len(made) == count, options
        assert ask(fib, **options) == new
        assert len(made) == count, options


def test_the_environment_and_the_directory_count(made, fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ask("./fib")
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(fib, other)
    time.sleep(OLD)
    monkeypatch.chdir(other)
    assert ask("./fib").binaries[0].path == "./fib"
    assert len(made) == 2
    for name in ("LD_LIBRARY_PATH", "PATH"):
        monkeypatch.setenv(name, f"{tmp_path}:{os.environ.get(name, '')}")
        ask("./fib")
    assert len(made) == 4


def test_debug_information_that_comes_and_goes(made, fib):
    debug, stripped = fib.with_suffix(".debug"), fib.with_suffix(".stripped")
    subprocess.run(["objcopy", "--only-keep-debug", fib, debug], check=True)
    subprocess.run(
        ["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", fib, stripped], check=True
    )
    debug.rename(debug.with_suffix(".away"))
    time.sleep(OLD)
    assert not ask(stripped).functions[0].typed
    debug.with_suffix(".away").rename(debug)
    time.sleep(OLD)
    assert ask(stripped).functions[0].typed
    assert ask(stripped).functions[0].typed
    assert len(made) == 2
    debug.unlink()
    assert not ask(stripped).functions[0].typed


def kept_file(tmp_path):
    (found,) = (tmp_path / "cache/lbtrace").glob("*.plan")
    return found


def test_damage_costs_time_only(made, fib, tmp_path):
    plan = ask(fib)
    path = kept_file(tmp_path)
    whole = path.read_bytes()
    damaged = [whole[: random.randrange(len(whole))] for _ in range(4)]
    for _ in range(8):
        at = random.randrange(len(whole))
        damaged.append(
            whole[:at] + bytes([whole[at] ^ (1 << random.randrange(8))]) + whole[at + 1 :]
        )
    for count, content in enumerate(damaged, 2):
        path.write_bytes(content)
        assert ask(fib) == plan
        assert len(made) == count


def run(*words, check=True, **options):
    command = [sys.executable, "-m", "lbtrace", "attach", "--dry-run", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=check, cwd=ROOT, **options)


@pytest.mark.parametrize("directory", ["/proc/none", "/dev/null", "file"])
def test_where_nothing_can_be_kept_nothing_is_said(fib, tmp_path, directory):
    (tmp_path / "file").write_text("")
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / directory), "HOME": "/proc"}
    done = run("--func", "fib", "--binary", fib, env=variables)
    assert "fib(int n)" in done.stdout
    assert done.stderr == ""

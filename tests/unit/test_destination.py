"""Files that output goes to: whose they are, and what they replace."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from lbtrace.commands.destination import Destination
from lbtrace.errors import OutputError, UsageError


def write(path, text, *, force=False, kept=()):
    descriptor = Destination(str(path), force=force, kept=kept).open()
    os.write(descriptor, text)
    os.close(descriptor)


def test_it_is_for_its_owner_alone_whatever_the_umask(tmp_path):
    former = os.umask(0)
    try:
        write(tmp_path / "x", b"1")
        os.chmod(tmp_path / "x", 0o644)
        write(tmp_path / "x", b"2", force=True)
    finally:
        os.umask(former)
    assert stat.S_IMODE(os.stat(tmp_path / "x").st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_nothing_is_made_before_it_is_opened(tmp_path):
    Destination(str(tmp_path / "x"), force=False)
    (tmp_path / "y").write_text("mine")
    Destination(str(tmp_path / "y"), force=True)
    assert (tmp_path / "y").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["y"]


def test_hard_links_stay_what_they_are(tmp_path):
    (tmp_path / "x").write_text("mine")
    os.link(tmp_path / "x", tmp_path / "other")
    write(tmp_path / "x", b"new", force=True)
    assert (tmp_path / "x").read_bytes() == b"new"
    assert (tmp_path / "other").read_text() == "mine"


def test_own_links_are_followed(tmp_path):
    (tmp_path / "latest").symlink_to("run")
    write(tmp_path / "latest", b"1")
    with pytest.raises(OutputError, match="exists"):
        write(tmp_path / "latest", b"2")
    write(tmp_path / "latest", b"3", force=True)
    assert (tmp_path / "run").read_bytes() == b"3"
    assert (tmp_path / "latest").is_symlink()
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OutputError, match="link"):
        write(tmp_path / "round", b"4", force=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes files of another user")
@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_what_others_planted_is_not_used(tmp_path, kind):
    tmp_path.chmod(0o1777)
    planted = tmp_path / "x.lbt"
    if kind == "link":
        (tmp_path / "victim").write_text("mine")
        planted.symlink_to("victim")
    else:
        os.mkfifo(planted)
    os.chown(planted, 12345, 12345, follow_symlinks=False)
    for force in (False, True):
        with pytest.raises(OutputError, match="another user"):
            write(planted, b"secret", force=force)
    tmp_path.chmod(0o755)
    if kind == "link":
        write(planted, b"2", force=True)  # who may write here anyway


@pytest.mark.parametrize("kind", ["same", "hard link", "symbolic link"])
def test_what_is_kept_is_not_replaced(tmp_path, kind):
    program = tmp_path / "program"
    program.write_text("code")
    path = tmp_path / "x"
    if kind == "same":
        path = program
    elif kind == "hard link":
        os.link(program, path)
    else:
        path.symlink_to(program)
    for force in (False, True):
        with pytest.raises(UsageError, match="itself"):
            write(path, b"1", force=force, kept=["/nonexistent", str(program)])
    assert program.read_text() == "code"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/", "directory"),
        ("/nonexistent/x", "No such file"),
        ("/proc/x", "cannot be created"),
        ("/dev/fd/999", "Bad"),
    ],
)
def test_what_cannot_be_created(path, message):
    with pytest.raises(OutputError, match=message):
        Destination(path, force=True)


LBTRACE = [sys.executable, "-m", "lbtrace"]


def shell(line):
    words = " ".join(LBTRACE)
    line = line.replace("lbtrace", words)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
@pytest.mark.parametrize("command", ["list --binary /proc/self/exe", "doctor", "doctor --json"])
def test_standard_output_that_takes_nothing(command, where):
    done = shell(f"lbtrace {command} {where}")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith("lbtrace: standard output cannot be written: ")
    assert second.startswith("  ")


def test_standard_output_that_is_read_no_more():
    done = shell("lbtrace list --binary /proc/self/exe | true; echo ${PIPESTATUS[0]}")
    assert done.stderr == ""
    assert done.stdout in ("141\n", "0\n")


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_standard_error_that_takes_nothing(where):
    done = shell(f"lbtrace list --binary /nonexistent {where}")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_help_that_cannot_be_written():
    done = shell("lbtrace export --help >/dev/full")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2


def test_what_has_been_emptied_is_seen(tmp_path):
    path = tmp_path / "x"
    destination = Destination(str(path), force=False)
    descriptor = destination.open()
    os.write(descriptor, b"1234")
    destination.check(descriptor, 4)
    os.truncate(path, 0)
    os.write(descriptor, b"56")
    assert path.read_bytes() == b"56"
    with pytest.raises(OutputError, match="emptied or changed"):
        destination.check(descriptor, 6)
    os.close(descriptor)

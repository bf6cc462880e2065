"""The cache directory: shared, damaged, full, forbidden."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lbtrace.files import cache
from lbtrace.files.cache import Cache


def content(kept):
    return None if kept is None else kept.data[kept.start :]


@pytest.fixture
def kept(tmp_path):
    cache = Cache(tmp_path / "lbtrace", "1-2")
    cache.store(".index", [b"what was found"])
    return cache, tmp_path / "lbtrace/1-2.index"


def test_what_is_stored_is_loaded(kept):
    assert content(kept[0].load(".index")) == b"what was found"
    assert kept[0].load(".other") is None
    assert Cache(kept[1].parent, "another").load(".index") is None
    assert os.listdir(kept[1].parent) == ["1-2.index"]


def test_another_file_of_the_same_name_is_another(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "program"
    program.write_bytes(b"one")
    cache.of(program.stat()).store(".index", [b"of one"])
    assert content(cache.of(program.stat()).load(".index")) == b"of one"
    program.write_bytes(b"another")
    assert cache.of(program.stat()).load(".index") is None
    status = program.stat()
    cache.of(status).store(".index", [b"of another"])
    program.write_bytes(b"changed")
    os.utime(program, ns=(status.st_atime_ns, status.st_mtime_ns))  # as if it were the same
    assert cache.of(program.stat()).load(".index") is None
    cache.of(None).store(".index", [b"of nothing"])


@pytest.mark.parametrize("at", range(0, 34, 3))
def test_a_changed_byte_is_noticed(kept, at):
    raw = bytearray(kept[1].read_bytes())
    raw[at] ^= 0x40
    kept[1].write_bytes(raw)
    assert kept[0].load(".index") is None


@pytest.mark.parametrize("size", [0, 1, 19, 20, 30])
def test_a_file_that_was_cut_off_is_noticed(kept, size):
    kept[1].write_bytes(kept[1].read_bytes()[:size])
    assert kept[0].load(".index") is None
    kept[0].store(".index", [b"again"])
    assert content(kept[0].load(".index")) == b"again"


def test_a_directory_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file/lbtrace", Path("/proc/lbtrace"), None):
        lost = Cache(directory, "1-2")
        lost.store(".index", [b"lost"])
        assert lost.load(".index") is None


def test_the_directory_of_another_user_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "lbtrace").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    Cache(tmp_path / "lbtrace", "1-2").store(".index", [b"planted"])
    assert os.listdir(tmp_path / "lbtrace") == []


def test_the_oldest_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 300)
    kept = Cache(tmp_path, "1-2")
    for number in range(6):
        kept.store(f".{number}", [bytes(60)])
        os.utime(tmp_path / f"1-2.{number}", (1000 + number, 1000 + number))
        if number == 2:
            kept.load(".0")  # used: now the youngest
            os.utime(tmp_path / "1-2.0", (2000, 2000))
    (tmp_path / "died.part").write_bytes(bytes(10))
    os.utime(tmp_path / "died.part", (1000, 1000))
    kept.store(".6", [bytes(60)])
    assert sorted(os.listdir(tmp_path)) == ["1-2.0", "1-2.5", "1-2.6"]
    kept.store(".7", [bytes(200)])  # more than half of all
    assert kept.load(".7") is None


KILLED = """
import os, signal, sys
from pathlib import Path
from lbtrace.files.cache import Cache
def pieces():
    yield bytes(1000)
    os.kill(os.getpid(), signal.SIGKILL)
Cache(Path(sys.argv[1]), "1-2").store(".index", pieces())
"""


def test_who_is_killed_leaves_nothing(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode < 0
    assert os.listdir(tmp_path) == []


def test_a_link_is_not_followed(tmp_path, monkeypatch):
    """Neither to a directory, whose files would be evicted, nor to a file."""
    monkeypatch.setattr(cache, "LIMIT", 10)
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    (foreign / "1-2.precious").write_bytes(bytes(1000))
    (tmp_path / "lbtrace").symlink_to(foreign)
    assert Cache(tmp_path / "lbtrace", "1-2").store(".index", [b"x"]) is None
    assert os.listdir(foreign) == ["1-2.precious"]
    assert Cache(tmp_path / "lbtrace", "1-2").load(".precious") is None


def test_files_of_others_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 10)
    for name in ("notes.txt", "3-4.index", "5-6.index"):
        (tmp_path / name).write_bytes(bytes(1000))
    os.chown(tmp_path / "3-4.index", 65534, 65534)
    (tmp_path / "7-8.index").symlink_to("notes.txt")
    Cache(tmp_path, "1-2").store(".index", [b"x"])
    assert sorted(os.listdir(tmp_path)) == ["3-4.index", "7-8.index", "notes.txt"]


@pytest.mark.parametrize(
    "change", ["owner", "mode", "directory mode", "directory owner", "renamed"]
)
def test_what_others_could_have_written_is_not_believed(kept, change):
    cached, path = kept
    if change == "owner":
        os.chown(path, 65534, -1)
    elif change == "mode":
        path.chmod(0o622)
    elif change == "directory mode":
        path.parent.chmod(0o777)
    elif change == "directory owner":
        os.chown(path.parent, 65534, -1)
    else:
        path.rename(path.with_suffix(".other"))
        assert cached.load(".other") is None
    assert cached.load(".index") is None


def test_what_is_no_regular_file_is_not_waited_for(kept):
    cached, path = kept
    path.unlink()
    os.mkfifo(path)
    assert cached.load(".index") is None


def test_a_full_disk_and_one_that_is_only_read(kept, monkeypatch):
    cached, path = kept

    def refuse(*args, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "utime", refuse)
    assert content(cached.load(".index")) == b"what was found"
    monkeypatch.setattr(cache, "_filled", refuse)
    assert cached.store(".more", [b"x"]) is None
    assert os.listdir(path.parent) == ["1-2.index"]

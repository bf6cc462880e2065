"""The cache directory: shared, damaged, full, forbidden."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lbtrace.elf import cache
from lbtrace.elf.cache import Cache


def content(kept):
    return None if kept is None else kept.data[kept.start :]


@pytest.fixture
def kept(tmp_path):
    cache = Cache(tmp_path / "lbtrace", "id")
    cache.store(".index", [b"what was found"])
    return cache, tmp_path / "lbtrace/id.index"


def test_what_is_stored_is_loaded(kept):
    assert content(kept[0].load(".index")) == b"what was found"
    assert kept[0].load(".other") is None
    assert Cache(kept[1].parent, "another").load(".index") is None
    assert os.listdir(kept[1].parent) == ["id.index"]


def test_another_file_of_the_same_name_is_another(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "program"
    program.write_bytes(b"one")
    cache.of(str(program), "abcd").store(".index", [b"of one"])
    assert content(cache.of(str(program), "abcd").load(".index")) == b"of one"
    program.write_bytes(b"another")
    assert cache.of(str(program), "abcd").load(".index") is None
    assert cache.of(str(program), "").load(".index") is None
    program.unlink()
    cache.of(str(program), "abcd").store(".index", [b"of nothing"])


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
        cache = Cache(directory, "id")
        cache.store(".index", [b"lost"])
        assert cache.load(".index") is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/nowhere")
    from lbtrace.elf.cache import directory

    assert directory() == Path("/nowhere/.cache/lbtrace")


def test_the_directory_of_another_user_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "lbtrace").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    Cache(tmp_path / "lbtrace", "id").store(".index", [b"planted"])
    assert os.listdir(tmp_path / "lbtrace") == []


def test_the_oldest_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 300)
    kept = Cache(tmp_path, "id")
    for number in range(6):
        kept.store(f".{number}", [bytes(60)])
        os.utime(tmp_path / f"id.{number}", (1000 + number, 1000 + number))
        if number == 2:
            kept.load(".0")  # used: now the youngest
            os.utime(tmp_path / "id.0", (2000, 2000))
    (tmp_path / "died.part").write_bytes(bytes(10))
    os.utime(tmp_path / "died.part", (1000, 1000))
    kept.store(".6", [bytes(60)])
    assert sorted(os.listdir(tmp_path)) == ["id.0", "id.5", "id.6"]
    kept.store(".7", [bytes(200)])  # more than half of all
    assert kept.load(".7") is None


WRITER = """
import sys
from pathlib import Path
from lbtrace.elf.cache import Cache
cache = Cache(Path(sys.argv[1]), "id")
for n in range(200):
    cache.store(".index", [bytes([int(sys.argv[2])]) * 2500] * 2)
    kept = cache.load(".index")
    held = kept.data[kept.start:]
    assert len(held) == 5000 and len(set(held)) == 1
"""


def test_several_write_at_once(tmp_path):
    words = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*words, str(n)]) for n in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert os.listdir(tmp_path) == ["id.index"]

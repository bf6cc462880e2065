"""Debug information in files of their own, split off with the system's own tools."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lbtrace.elf import debugfile
from lbtrace.elf.image import Image
from lbtrace.plan import Selection, make_plan


@pytest.fixture
def split(build, tmp_path):
    """A stripped program, and the file with its debug information."""
    program, debug = tmp_path / "program", tmp_path / "program.debug"
    program.write_bytes(Path(build("-g", "-Wl,--build-id")).read_bytes())
    program.chmod(0o755)
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-debug", program], check=True)
    return program, debug


def typed(program: Path) -> bool:
    (function,) = make_plan(str(program), Selection(("fib",))).functions
    return function.typed and function.parameters[0].name == "n"


def test_nothing_to_find(split):
    program, debug = split
    debug.unlink()
    assert debugfile.find(Image.open(str(program))) is None
    assert not typed(program)


def test_by_link(split):
    program, debug = split
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    assert typed(program)
    (debug.parent / ".debug").mkdir()
    debug.rename(debug.parent / ".debug" / debug.name)
    assert typed(program)


def test_a_file_of_another_build_is_not_believed(split):
    program, debug = split
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    debug.write_bytes(debug.read_bytes() + b"\0")
    assert not typed(program)


def test_by_build_id(split, tmp_path, monkeypatch):
    program, debug = split
    build_id = Image.open(str(program)).build_id
    monkeypatch.setattr(debugfile, "ROOT", str(tmp_path / "root"))
    place = tmp_path / "root/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    debug.rename(place)
    assert typed(program)


def test_from_a_server(split, tmp_path, monkeypatch):
    program, debug = split
    build_id = Image.open(str(program)).build_id
    served = tmp_path / "served/buildid" / build_id
    served.mkdir(parents=True)
    debug.rename(served / "debuginfo")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "served"))

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    assert not typed(program)
    monkeypatch.setenv(
        "DEBUGINFOD_URLS", f"http://127.0.0.1:1 http://127.0.0.1:{server.server_port}"
    )
    assert typed(program)
    server.shutdown()
    assert typed(program)  # from the cache
    assert os.listdir(tmp_path / "cache" / build_id) == ["debuginfo"]


class Answering(ThreadingHTTPServer):
    """A server whose answers are made by a function; counts what it was asked."""

    def __init__(self, answer):
        self.asked = 0
        outer = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                answer(self)

            def log_message(self, *args):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        Thread(target=self.serve_forever, daemon=True).start()


def test_a_server_that_has_nothing_is_not_asked_each_time(split, tmp_path, monkeypatch):
    program, debug = split
    debug.unlink()
    server = Answering(lambda handler: handler.send_error(404))
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{server.server_port}")
    assert not typed(program)
    asked = server.asked
    assert asked
    assert not typed(program)
    assert server.asked == asked
    monkeypatch.setattr(debugfile, "MISSED", 0.0)
    assert not typed(program)
    assert server.asked > asked
    server.shutdown()


def test_a_server_that_trickles_is_given_up(split, tmp_path, monkeypatch):
    program, debug = split
    debug.unlink()

    def trickle(handler):
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):  # the client hangs up
            while True:
                handler.wfile.write(b"x")
                time.sleep(0.05)

    server = Answering(trickle)
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "0.5")
    assert not typed(program)
    server.shutdown()

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from lbtrace.capture import CaptureWriter
from lbtrace.commands import main
from lbtrace.model import Losses


@pytest.fixture
def capture(tmp_path, script, fib_plan):
    """Makes a capture of fib 4; returns its path."""

    def make(losses=Losses(), whole=True, notes=(), depth=0):  # noqa: B008 - not changed
        script.fib(4)
        path = tmp_path / "fib.lbt"
        with open(path, "wb", buffering=0) as stream:
            writer = CaptureWriter(stream, replace(fib_plan, notes=notes, shown_depth=depth))
            writer.write(script.batch())
            if whole:
                writer.finish(losses)
        return str(path)

    return make


def test_the_tree_goes_to_stdout_and_the_account_to_stderr(capture, capfd):
    assert main(["export", capture()]) == 0
    out, err = capfd.readouterr()
    assert "fib(n=4)" in out
    assert err == "9 calls in 1 thread of 1 process, nothing lost\n"


@pytest.mark.parametrize("salvage", [(), ("--salvage",)])
def test_the_notes_of_a_trace_are_repeated(capture, capfd, salvage):
    path = capture(notes=("f: left out", "  \x1b[2Jg: not shown"))
    assert main(["export", path, *salvage]) == 0
    first, second, account = capfd.readouterr().err.splitlines()
    assert (first, second) == ("lbtrace: f: left out", "lbtrace: \\x1b[2Jg: not shown")
    assert account.startswith("9 calls")
    assert main(["export", path, "--quiet"]) == 0
    assert not capfd.readouterr().err


def test_as_much_is_shown_as_the_trace_was_to_show(capture, capfd):
    for depth, words, shown in ((2, (), 3), (2, ("--max-depth", "9"), 9), (-1, (), 9), (0, (), 9)):
        for salvage in ((), ("--salvage",)):
            assert (
                main(["export", capture(depth=depth), "--format", "jsonl", *words, *salvage]) == 0
            )
            assert capfd.readouterr().out.count('"type":"call"') == shown


def test_not_more_notes_are_shown_than_anybody_reads(capture, capfd):
    assert main(["export", capture(notes=("a note",) * 100_000)]) == 0
    shown = capfd.readouterr().err.splitlines()
    assert shown[:100] == ["lbtrace: a note"] * 100
    assert shown[100] == "lbtrace: 99,900 more notes of the trace are not shown"
    assert len(shown) == 102


def test_the_suffix_gives_the_format(capture, tmp_path, capfd):
    output = tmp_path / "x.json"
    assert main(["export", capture(), "-o", str(output)]) == 0
    assert json.loads(output.read_text())["otherData"]["calls"] == 9


def test_the_capture_is_not_overwritten(capture, capfd):
    path = capture()
    size = os.path.getsize(path)
    assert main(["export", path, "--format", "jsonl", "-o", path, "--force"]) == 2
    assert os.path.getsize(path) == size


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["-o", "x.unknown"], 2),
        (["--format", "nonsense"], 2),
        (["-o", "x.lbt"], 2),
        (["-o", "/nonexistent/x.json"], 1),
        (["-o", "/dev/full"], 1),
    ],
)
def test_errors_are_two_lines(capture, words, status, capfd):
    assert main(["export", capture(), *words]) == status
    err = capfd.readouterr().err
    assert err.startswith("lbtrace: ")
    assert len(err.splitlines()) == 2


def test_losses_are_reported_and_strict_fails(capture, capfd):
    path = capture(Losses(ring_full_entry=1200))
    assert main(["export", path]) == 0
    assert "1,200 events lost" in capfd.readouterr().err
    assert main(["export", path, "--strict"]) == 3


def test_an_interrupted_capture_is_exported_and_reported(capture, capfd):
    path = capture(whole=False)
    assert main(["export", path]) == 0
    out, err = capfd.readouterr()
    assert out.count("fib(") == 9
    assert "interrupted" in err
    assert main(["export", path, "--strict"]) == 3


def test_a_reader_that_goes_away_ends_it_quietly(capture):
    read, write = os.pipe()
    os.close(read)
    code = "import sys; from lbtrace.commands import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "export", capture()],
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode != 0

"""Markers (USDT), against programs that log their own hits."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace import BinaryError, NoMatchError, Options, UsageError

SOURCE = Path(__file__).resolve().parents[1] / "programs" / "markers.c"
Start = Callable[..., Any]
SHOP = "shop:sale", "shop:done"


BUILDS = [
    *("-O0", "-O2"),
    *(pytest.param(f"clang {level}", marks=pytest.mark.host) for level in ("-O1", "-O3")),
]
"""What the program with markers is compiled by: gcc beforehand, or clang."""


@pytest.fixture(scope="module", params=BUILDS)
def marked(
    request: pytest.FixtureRequest, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The program with markers, as a compiler makes it."""
    compiler, _, level = str(request.param).rpartition(" ")
    if not compiler:
        return str(programs / f"markers{level}")
    program = tmp_path_factory.mktemp("marked") / "markers"
    subprocess.run([compiler, level, "-o", program, SOURCE], check=True)
    return str(program)


def test_what_is_traced_is_named_as_what_it_is(programs: Path, start_lbtrace: Start) -> None:
    program = str(programs / "markers-O0")
    for words, named in (
        (["--usdt", "shop:*"], "tracing 2 markers of"),
        (
            ["--usdt", "shop:sale", "--func", "sale", "--func", "main"],
            "2 functions and 1 marker of",
        ),
    ):
        tracer = start_lbtrace("attach", "--binary", program, *words)
        tracer.wait_for(named)
        tracer.process.send_signal(signal.SIGINT)
        assert tracer.finish()[0] == 0


def test_points_are_what_the_program_logs(
    marked: str, tmp_path: Path, mode: lbtrace.Mode, capfd: pytest.CaptureFixture[str]
) -> None:
    with lbtrace.trace(command=[marked, "7"], usdt="shop:*", options=Options(mode=mode)) as session:
        points = list(session.calls())
    logged = capfd.readouterr()
    assert logged.err.splitlines() == ["1 1"] * 7
    assert [point.name for point in points] == [*SHOP] * 7
    assert {point.end for point in points} == {"point"}
    for sale, done, line in zip(points[::2], points[1::2], logged.out.splitlines(), strict=True):
        _, number, _, *others = line.split()
        values = [argument.value for argument in sale.args]
        assert [values[0], *values[2:5]] == [int(number), *map(int, others[:3])]
        assert values[5] == int(others[3])
        assert [argument.value for argument in done.args] == [int(number), -5]


def test_markers_among_calls(marked: str) -> None:
    with lbtrace.trace(command=[marked, "2"], functions="sale", usdt="shop:done") as session:
        seen = [(call.name, call.depth) for call in session.calls()]
    assert seen == [("shop:done", 1), ("sale", 0)] * 2


def test_counters_are_lowered_when_the_tracer_is_killed(
    marked: str, tmp_path: Path, mode: str
) -> None:
    log = tmp_path / "log"
    with log.open("w") as counters:
        traced = subprocess.Popen(
            [marked, "1000000", "5000"], stdout=subprocess.DEVNULL, stderr=counters
        )
    words = ["attach", "--mode", mode, "--usdt", "shop:*", "--pid", str(traced.pid)]
    tracer = subprocess.Popen(
        [sys.executable, "-m", "lbtrace", *words, "-o", str(tmp_path / "x.lbt")],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )

    def comes(line: str) -> bool:
        for _ in range(600):
            if log.read_text().splitlines()[-1:] == [line]:
                return True
            time.sleep(0.05)
        return False

    try:
        assert comes("1 1")
        os.killpg(tracer.pid, signal.SIGKILL)
        tracer.wait()
        assert comes("0 0")
    finally:
        tracer.kill()
        traced.kill()
        traced.wait()


@pytest.mark.host
def test_arguments_of_a_provider_have_names(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["php8.2", "-r", "function f($x) { return $x; } f(1);"]
    with lbtrace.trace(command=command, usdt="php:request__startup") as session:
        (point,) = session.calls()
    assert str(point).startswith('php:request__startup(filename="Standard input code", ')


PHP = """
function walk($n) { return $n ? walk($n - 1) + walk($n - 1) : 0; }
function fails($n) { if ($n) { fails($n - 1); } throw new Exception("no"); }
walk(2);
try { fails(1); } catch (Exception $e) {}
walk(0);
"""


@pytest.mark.host
def test_pairs_are_calls(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["php8.2", "-r", PHP]
    wanted = {"command": command, "usdt": "php:function__*"}
    with environment(USE_ZEND_DTRACE="1"), lbtrace.trace(**wanted) as session:  # type: ignore[arg-type]
        calls = sorted(session.calls(), key=lambda call: call.start)
    assert {call.name for call in calls} == {"php:function__entry"}
    assert {call.end for call in calls} == {"returned"}
    named = [(call, call["function"].data.decode()) for call in calls if call["function"]]
    seen = [(call.depth, name) for call, name in named if name]
    walk = [0, 1, 2, 2, 1, 2, 2]
    expected = [*[(depth, "walk") for depth in walk], (0, "fails"), (1, "fails"), (0, "walk")]
    first = seen[0][0]
    assert [(depth - first, name) for depth, name in seen] == expected
    for outer, inner in itertools.pairwise(calls):
        ends = [call.start + (call.duration or 0) for call in (outer, inner)]
        assert inner.depth <= outer.depth or ends[1] <= ends[0]


@pytest.mark.host
def test_pairs_are_filtered_and_captured(tmp_path: Path) -> None:
    capture = tmp_path / "x.lbt"
    command = ["php8.2", "-r", PHP]
    words = ["--usdt", "php:function__*", "--arg", "line", "--where", 'function == "walk"']
    with environment(USE_ZEND_DTRACE="1"):
        subprocess.run(
            [sys.executable, "-m", "lbtrace", "attach", *words, "-o", capture, "--", *command],
            check=True,
        )
        with lbtrace.trace(command=command, usdt="php:function__*", where="line > 0") as session:
            assert {point.end for point in session.calls()} == {"point"}
            assert "shown as points" in " ".join(session.plan.notes)
    with lbtrace.read_capture(capture) as read:
        calls = list(read.calls(max_depth=2))
    assert {str(call) for call in calls} == {"php:function__entry(line=2)"}
    assert [call.depth for call in calls] == [1, 1, 0, 0]


def listed(*words: str) -> str:
    """What ``lbtrace list --usdt`` prints."""
    command = [sys.executable, "-m", "lbtrace", "list", "--usdt", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_markers_are_listed(marked: str, tmp_path: Path) -> None:
    lines = listed("--binary", marked).splitlines()
    assert lines[0] == marked
    assert re.fullmatch(r" *0x[0-9a-f]+  shop:done\(int32_t arg0, int32_t arg1\)", lines[1]), lines
    definitions = tmp_path / "shop.d"
    definitions.write_text(
        """provider shop {
            probe sale(int number, string what, short price, uint8_t code, long x, long y);
            probe done(int number, int change);
            #pragma lbtrace pair sale done by number
        };"""
    )
    (sale,) = json.loads(
        listed("/sale/", "--json", "--provider", str(definitions), "--binary", marked)
    )
    assert (sale["name"], sale["closed_by"]) == ("shop:sale", "shop:done")
    assert [each["name"] for each in sale["arguments"]][:3] == ["number", "what", "price"]
    with lbtrace.trace(command=[marked, "3"], usdt="shop:*", providers=definitions) as session:
        calls = list(session.calls())
    assert [(call["number"], call.end, call.result) for call in calls] == [
        (n, "returned", -5) for n in range(3)
    ]
    assert str(calls[1]["what"]) == "apple" or '"apple"' in str(calls[1])


@pytest.mark.host
def test_markers_of_a_process_are_found_in_its_libraries() -> None:
    with subprocess.Popen(
        ["ruby", "--disable-gems", "-e", "puts 1; $stdout.flush; $stdin.each_line { GC.start }"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as ruby:
        assert ruby.stdout
        assert ruby.stdout.readline() == b"1\n"
        assert "ruby:gc__mark__begin()  closed by ruby:gc__mark__end" in listed(
            "--pid", str(ruby.pid)
        )
        with lbtrace.trace(pid=ruby.pid, usdt="ruby:gc__mark__*") as session:
            assert ruby.stdin
            ruby.stdin.write(b"x\n" * 5)
            ruby.stdin.close()
            calls = list(session.calls())
    assert [(call.name, call.end) for call in calls] == [("ruby:gc__mark__begin", "returned")] * 5


COLD = """
.text
.globl work
.type work, @function
work:
.cfi_startproc
  test %edi, %edi
  jne 1f
  mov $0x90909090, %eax
9: ret
.cfi_endproc
.size work, . - work
.section .text.unlikely, "ax", @progbits
.cfi_startproc
  xor %eax, %eax
  ret
1: nop
  mov %edi, %eax
  ret
.cfi_endproc
.macro note name, place
  .balign 4
  .4byte 8, 5f - 4f, 3
  .asciz "stapsdt"
4: .8byte \\place, 0, 0
  .asciz "shop", "\\name", "-4@%edi"
5:
.endm
.section .note.stapsdt, "", "note"
note cold, 1b
note inside, 9b-2
.section .note.GNU-stack, "", @progbits
"""


@pytest.mark.host
def test_markers_in_parts_that_were_split_off(tmp_path: Path) -> None:
    """The part has a second entry, which nothing but the marker shows."""
    (tmp_path / "work.s").write_text(COLD)
    (tmp_path / "main.c").write_text(
        "int work(int n); int main(void) { for (int n = 0; n < 5; n++) work(n); return 0; }"
    )
    program = tmp_path / "prog"
    command = ["gcc", "-O1", "-no-pie", "-o", program, tmp_path / "main.c", tmp_path / "work.s"]
    subprocess.run([*command, "-rdynamic"], check=True)
    subprocess.run(["strip", program], check=True)
    with lbtrace.trace(command=[program], usdt="shop:cold") as session:
        assert [point["arg0"] for point in session.calls()] == [1, 2, 3, 4]
    with pytest.raises(
        BinaryError, match="shop:inside: no probe can be there: it is amid an instruction"
    ):
        lbtrace.trace(command=[program], usdt="shop:inside")


@contextmanager
def environment(**changes: str) -> Iterator[None]:
    """Has the environment changed, of this process and of those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setenv(name, value)
        yield


def test_what_is_no_marker_is_refused(marked: str) -> None:
    with pytest.raises(NoMatchError, match="whose providers are shop"):
        lbtrace.trace(command=[marked], usdt="shop:sole")
    with pytest.raises(NoMatchError, match="has no markers"):
        lbtrace.trace(command=["/bin/true"], usdt="shop:sole")
    with pytest.raises(UsageError, match="sees no return"):
        lbtrace.trace(command=[marked], usdt="shop:sale", where="retval > 1")

"""Captures that were recorded of small programs, in tests/captures, show what they showed live.
Some were recorded by former versions, whose formats are no longer read, and written again in the
present one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace

from lbtrace.capture import check_plan, read_capture
from lbtrace.capture.layout import decode_plan, encode_plan
from lbtrace.commands import main
from lbtrace.model import OPEN, Probe, Site
from lbtrace.sinks import FORMATS

CAPTURES = Path(__file__).resolve().parents[1] / "captures"

SHOWN = {
    "go115-stripped": ["main.small(4) = 5"],
    "go127-stripped": ["main.Show[go.shape.int]({0x49b05c, 3}, 1) = 3", ".Str(?)"],
    "go127": ['.Show[go.shape.string](s="de", v="x") = 2', "(m={len=1}) = {len=1, cap=1, ["],
    "huge": ['by_value(h={head=3, space="", tail=<not read>}) = 5'],
    "interrupted": ["fib(n=0) = 0", "└ fib … no return seen"],
    "kinds-c": [
        'move(p={x=1, tag="abc", next=0x0}, by=0x7ffdfc933134) = {x=3, tag="abc", next=0x0}',
        "plain(a=-3, c='x', e=GREEN, s=\"hello\") = 228",
        "bits(b={s={a=3, b=-2}, raw=243}, f=one)",
    ],
    "kinds-cc": ["floats(a=1.5, b=2.5) = <float in xmm0>"],
    "libc": ['printf(format="%d %lld %g %d %d %g\\n") = 14'],
    "libcxx-string": ['len(s="abc") = 3'],
    "libcxx-vector": ["both(v=[1, 2, 3]) = [1, 2, 3, 1]", "inp(p={x=1, v=[1, 2, 3]}) = 3"],
    "longdouble": ["half(x=3.0) = <float in st0>", "cx(z={re=1.0, im=0.0}) = {re=2.0, im=0.0}"],
    "rust": ["r::opt(x=Some((1, 2))) = 3", 'r::nick(x=Err("x")) = 1', "r::sl(x=[1, 2, 1]) = 4"],
    "rust-kinds": [
        "r2::wide(a=1267650600228229401496703205376, b=5) = 1267650600228229401496703205381",
        "r2::slice(v=[7, 7, 7, 7, 7, 7, 7, 7, … 4 more]) = 12",
        "r2::option(a=None) = None",
        'r2::result(a=Err("broken")) = Err("no")',
        'r2::names(v=["a", "bc"]) = 2',
    ],
    "goroutines": ["g18  │ │ │ │ main.fib(id=0, n=2)"],
    "hooked": ["└ fib = 5"],
    "stacks": ["│ │ │ │ [25] work(n=19)"],
    "throw": ["└ traced_frame ✗ unwound", "│ │ │ traced_last(n=0) = 0"],
    "count": ["   15  13592  fib"],
    "forks": [
        "12888  │ │ │ │ ── forked by 12883",
        "12888  │ │ │ └ one ✗ unwound (entered in 12883)",
        "2.45 ms    12883  │ │ │ └ one = 3",
    ],
    "lines": ["· fib.c:12 argc=2, argv=0x7ffce0998998, n=<optimised out>", "· fib.c:7 n=3"],
    "markers": [
        "shop:sale arg0=3, arg1=93991933816862, arg2=-300, arg3=231, arg4=-9, arg5=13",
        "shop:done arg0=3, arg1=-5",
    ],
    "threads": ["traced_seven(a=6712673246912327417, b=-1, c=2, d=-3, e=4, f=-5, g=6)"],
    "where": ["fib(n=4) = 3", "fib(n=5) = 5"],
    "pairs": [
        "21.0 µs    27388  python:gc__start(generation=0) = 0",
        '· python:function__return filename="<frozen importlib._bootstrap>", function="ModuleSpec"',
    ],
    "depth": ["· fib.c:7", "│ fib(n=3) = 2"],
    "fib": ["fib(n=1) = 1", "└ fib = 3"],
    "later": ["shop:sale arg0=3, arg1=-3", "shop:text arg0=10853456"],
    "string": ['len(s="abc") = 3'],
    "vector": ["sum(v=[1, 2, 3]) = 3", "ret(n=2) = [7, 7]", 'strs(v=["a"]) = 1'],
    "wide": ["wide(a=-5, b=7) = 2", 'far_member(f=&{head="", last=<not read>}) = 5'],
}
"""What each shows, among other things."""


def unpacked(name, directory):
    path = directory / f"{name}.lbt"
    path.write_bytes(gzip.decompress((CAPTURES / f"{name}.lbt.gz").read_bytes()))
    return path


@pytest.fixture(params=sorted(SHOWN))
def recorded(request, tmp_path):
    return unpacked(request.param, tmp_path)


def test_all_are_tested():
    names = {path.name.removesuffix(".lbt.gz") for path in CAPTURES.iterdir()}
    assert names == {*SHOWN, "lossy"}


def test_it_opens_and_shows_its_values(recorded, capfd):
    assert main(["export", str(recorded), "--strict"]) == 0
    shown = capfd.readouterr().out
    for piece in SHOWN[recorded.stem]:
        assert piece in shown


@pytest.mark.parametrize("name", [name for name, row in FORMATS.items() if not row.is_capture])
def test_every_format_and_salvaging_agree(recorded, name, capfd):
    assert main(["export", str(recorded), "--format", name]) == 0
    plain = capfd.readouterr()
    assert main(["export", str(recorded), "--format", name, "--salvage", "--strict"]) == 0
    assert capfd.readouterr() == plain


def test_what_is_written_again_is_the_same(recorded, tmp_path):
    from lbtrace.capture import CaptureWriter

    again = tmp_path / "again.lbt"
    with read_capture(str(recorded)) as capture, open(again, "wb", buffering=0) as f:
        writer = CaptureWriter(f, capture.plan)
        for batch in capture.batches():
            writer.write(batch)
        writer.finish(capture.losses)
    with read_capture(str(again)) as written:
        assert written.plan == capture.plan


def test_losses(tmp_path, capfd):
    path = unpacked("lossy", tmp_path)
    assert main(["export", str(path), "--strict"]) == 3
    captured = capfd.readouterr()
    assert "! 102 events lost here, 51 of them calls" in captured.out
    assert "24 calls in 1 thread of 1 process, 252 events lost" in captured.err
    assert main(["export", str(path), "--salvage"]) == 0
    assert capfd.readouterr() == captured


def test_roles_and_kinds_that_a_reader_does_not_know_are_passed_over(script, fib_plan, watch):
    later = Probe(Site(0x9000, 0x9000), "gate", source="usdt", action="histogram")
    paired = Probe(Site(0x9000, 0x9000), "opens", 0, source="hypervisor")
    plan = replace(fib_plan, probes=(*fib_plan.probes, later, paired))
    script.enter(0, 0x7000, 1)
    script.hit(2, 0x6000, 9)
    script.hit(2, 0x6000, 9, kind=9)
    script.hit(3, 0x6000, 9, kind=OPEN)
    script.leave(0, 0x7000, 1)
    assert watch(plan, script.batch())[0] == ["0 > fib 1", "0 < fib = 1"]
    check_plan(plan)
    assert decode_plan(encode_plan(plan)) == plan

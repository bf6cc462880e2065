"""Pairs of markers whose calls overlap, against a program that logs what it does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lbtrace

pytestmark = pytest.mark.host

SOURCE = r"""
#include <stdio.h>
#include <sys/sdt.h>
static long clock_;
static void begin(int pool) { DTRACE_PROBE2(shop, begin, pool, clock_++); }
static void end(int pool) { DTRACE_PROBE2(shop, end, pool, clock_++); }
__attribute__((noinline)) void collect(int n)
{
    for (int pool = 0; pool < 3; pool++) begin(pool);
    if (n) end(0);
    __asm__ volatile("" ::: "memory");
}
int main(void)
{
    collect(0);               /* 0, 1, 2 begin */
    for (int pool = 0; pool < 3; pool++) end(pool);
    collect(1);               /* 0, 1, 2 begin, 0 ends */
    begin(1);                 /* the former one of 1 has no end */
    end(1), end(7);           /* 7 has not begun */
    return 0;                 /* 2 has no end */
}
"""

DEFINITIONS = """provider shop {
    probe begin(int pool, long when);
    probe end(int pool, long ended);
    #pragma lbtrace pair begin end by pool crosses
};"""

EXPECTED = [
    *((0, 0, "returned", 3), (1, 1, "returned", 4), (2, 2, "returned", 5)),
    *((0, 6, "returned", 9), (1, 7, "open", None), (1, 10, "returned", 11)),
    (2, 8, "open", None),
]
"""Of each call the pool, when it began, how it ended and when, in the order of their ends."""


@pytest.fixture
def shop(tmp_path: Path) -> tuple[str, Path]:
    program, definitions = tmp_path / "shop", tmp_path / "shop.d"
    command = ["gcc", "-w", "-O1", "-g", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    definitions.write_text(DEFINITIONS)
    return str(program), definitions


def test_calls_that_cross_are_paired_by_their_keys(shop: tuple[str, Path]) -> None:
    program, providers = shop
    wanted = {"command": [program], "usdt": "shop:*", "functions": "collect"}
    with lbtrace.trace(**wanted, providers=providers) as session:  # type: ignore[arg-type]
        calls = list(session.calls())
    pools = [call for call in calls if call.name == "shop:begin"]
    assert [(c["pool"], c["when"], c.end, c.result) for c in pools] == EXPECTED
    assert [(c.name, c["pool"]) for c in calls if c.end == "point"] == [("shop:end", 7)]
    assert [c.end for c in calls if c.name == "collect"] == ["returned"] * 2
    for call in pools:
        assert (call.duration is None) == (call.end == "open")
    first, second, third = pools[:3]
    assert first.start < second.start < third.start < first.start + (first.duration or 0)


def test_calls_that_cross_in_all_formats(shop: tuple[str, Path], tmp_path: Path) -> None:
    program, providers = shop
    capture = tmp_path / "shop.lbt"
    command = [sys.executable, "-m", "lbtrace"]
    words = ["attach", "--usdt", "shop:*", "--provider", providers, "-o", capture, "--", program]
    subprocess.run([*command, *words], check=True)

    def exported(name: str) -> str:
        made = [*command, "export", capture, "--cpu", "--format", name]
        return subprocess.run(made, check=True, capture_output=True, text=True).stdout

    events = json.loads(exported("chrome"))["traceEvents"]
    begins = {e["id"]: e for e in events if e["ph"] == "b"}
    ends = {e["id"]: e for e in events if e["ph"] == "e"}
    assert len(begins) == len(EXPECTED)
    assert not [e for e in events if e["ph"] in "BEX"]
    shown = {(b["args"]["when"], ends[n]["args"]["result"]) for n, b in begins.items() if n in ends}
    assert shown == {(when, ended) for _, when, _, ended in EXPECTED if ended}
    assert all(ends[n]["ts"] > begins[n]["ts"] for n in ends)
    records = [json.loads(line) for line in exported("jsonl").splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    assert [(call["end"], call.get("result")) for call in calls] == [
        (end, ended) for _, _, end, ended in EXPECTED
    ]
    tree = [line for line in exported("tree").splitlines() if "shop:begin" in line]
    assert [" = " in line for line in tree if "pool=" in line] == [bool(e[3]) for e in EXPECTED]


NESTED = r"""
#include <sys/sdt.h>
int main(void)
{
    for (long i = 1; i < 3; i++) {
        DTRACE_PROBE1(shop, begin, i);
        DTRACE_PROBE1(shop, begin, i + 10);
        DTRACE_PROBE1(shop, end, i + 10);
        DTRACE_PROBE1(shop, end, i);
    }
    return 0;
}
"""


def test_calls_in_each_other_in_one_function(tmp_path: Path) -> None:
    program, definitions = tmp_path / "nested", tmp_path / "shop.d"
    command = ["gcc", "-O1", "-g", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=NESTED, text=True, check=True)
    definitions.write_text(
        """provider shop {
            probe begin(long customer);
            probe end(long customer);
            #pragma lbtrace pair begin end by customer
        };"""
    )
    wanted = {"command": [str(program)], "usdt": "shop:*", "providers": definitions}
    with lbtrace.trace(**wanted) as session:  # type: ignore[arg-type]
        calls = sorted(session.calls(), key=lambda call: call.start)
    assert [(c.name, c["customer"], c.depth, c.end) for c in calls] == [
        ("shop:begin", customer, depth, "returned")
        for customer, depth in ((1, 0), (11, 1), (2, 0), (12, 1))
    ]
    for outer, inner in (calls[:2], calls[2:]):
        end, inner_end = (c.start + (c.duration or 0) for c in (outer, inner))
        assert outer.start < inner.start < inner_end < end

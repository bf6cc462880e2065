"""Pairs of markers whose calls overlap, against a program that logs what it does."""

from __future__ import annotations

import subprocess
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

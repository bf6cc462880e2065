"""Operands of markers, against a program that prints what each of them is."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lbtrace

pytestmark = pytest.mark.host

SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
#define MARK(name, operands, ...)                                                   \
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt, \"\", \"note\"\n"     \
                     ".balign 4\n.4byte 8, 992f - 991f, 3\n.asciz \"stapsdt\"\n" \
                     "991: .8byte 990b, 0, 0\n.asciz \"shop\", \"" #name "\", \"" \
                     operands "\"\n992: .balign 4\n.popsection" ::__VA_ARGS__ : "memory")

struct { int padding[10]; int sold; } stock = { { 7 }, -41 };
static int64_t prices[64];
const char *const names[] = { "apple", "pear", "plum" };

__attribute__((noinline)) void sell(int64_t n, int32_t back)
{
    /* the operands are registers of 64 bits; what lies in memory is there */
    const int64_t *end = prices + 63;

    MARK(indexed, "-8@8(%0,%1,8) -2@(%0,%1,8) -8@prices+16(,%1,8) -8@prices(%2)",
         "r"(prices), "r"(n), "r"(8 * n), "m"(prices));
    printf("indexed %ld %d %ld %ld\n", prices[n + 1], (int16_t)prices[n], prices[n + 2], prices[n]);
    MARK(symbol, "-4@40+stock(%%rip) -4@stock+40(%%rip) -4@stock 8@$stock+40", "m"(stock));
    printf("symbol %d %d %d %ld\n", stock.sold, stock.sold, stock.padding[0], (long)&stock.sold);
    MARK(text, "8@(%0,%1,8)", "r"(names), "r"(n % 3));
    printf("text %s\n", names[n % 3]);
    MARK(part, "1@%%ah -1@%%al 1@%%r9b -2@%%r10w -4@%%r11d 4@%%r11d", "a"(n * 0x1234567f95),
         "m"(end));
    printf("part %d %d\n", (uint8_t)(n * 0x1234567f95 >> 8), (int8_t)(n * 0x1234567f95));
    MARK(gone, "8@%%fs:40 8@%%gs:(%0) 8@8(%%ebx) 8@%1", "r"(end), "x"(1.5));
}

/* one marker at two places: what is a byte at the one is a constant at the other */
__attribute__((noinline)) void close_shop(int64_t n)
{
    MARK(flag, "1@%%al 4@%%ebx 8@%%rcx", "a"(0x5500 + (n & 1)), "b"(n - 3), "c"(n - 3));
    MARK(flag, "-4@$1 -2@%%bx -4@$-7", "b"(n - 3));
}

double rates[8];
const int64_t table[8] = { 10, 11, 12, 13, 14, 15, 16, 17 };

__attribute__((noinline)) void weigh(int64_t n)
{
    double rate = n * -1.25;
    float share = n * 0.1f;
    long double exact = n / 3.0L;
    int64_t bits;

    __builtin_memcpy(&bits, &rate, 8);
    rates[n] = rate;
    MARK(weighed, "8f@%0 4f@%1 8f@%2 16f@%3 8f@$0xc002000000000000 8f@rates(,%4,8) 8f@%5 8@%0",
         "m"(rate), "m"(share), "r"(bits), "m"(exact), "r"(n), "x"(rate), "m"(rates), "m"(bits));
    printf("weighed %.17g %.9g %.17g %.17g\n", rate, share, rate, (double)exact);
    MARK(extreme, "8@$0xffffffffffffffff -8@$0x8000000000000000 8@$010 8@99999999999999999999(%0) "
         "8@$99999999999999999999 -8@table(%1,%0,8)", "r"(n), "r"(0L), "m"(table));
}

int main(void)
{
    for (int n = 0; n < 8; n++)
        weigh(n);
    for (int n = 0; n < 64; n++)
        prices[n] = n * -0x123456789;
    for (int n = 0; n < 5; n++) {
        sell(n, -n);
        close_shop(n);
    }
    return 0;
}
"""


@pytest.fixture(scope="module", params=[("-O2",), ("-O0", "-no-pie", "-fno-pie")])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program, at addresses that are chosen when it starts, or fixed."""
    program = tmp_path_factory.mktemp("shop") / "shop"
    command = ["gcc", "-w", *request.param, "-x", "c", "-", "-o", program]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return str(program)


def printed(text: str, kind: str) -> list[list[str]]:
    """The words after ``kind``, of each line that begins with it."""
    lines = (line.split() for line in text.splitlines())
    return [words for first, *words in lines if first == kind]


def test_operands_are_what_the_program_prints(
    shop: str, mode: lbtrace.Mode, capfd: pytest.CaptureFixture[str]
) -> None:
    options = lbtrace.Options(mode=mode)
    with lbtrace.trace(command=[shop], usdt="shop:*", options=options) as session:
        points = list(session.calls())
        assert not session.losses().total
    out = capfd.readouterr().out
    for kind in ("indexed", "symbol"):
        seen = [p for p in points if p.name == f"shop:{kind}"]
        shown = [[str(int(argument.value)) for argument in p.args] for p in seen]
        assert shown == printed(out, kind)
    parts = [p for p in points if p.name == "shop:part"]
    assert [[str(p[n]) for n in (0, 1)] for p in parts] == printed(out, "part")
    for point in parts:
        assert point[4] == (point[5] ^ 1 << 31) - (1 << 31)
    for point in points:
        if point.name == "shop:gone":
            assert "<the operand %fs:40 cannot be read>" in str(point)
            assert "<the operand 8(%ebx) cannot be read>" in str(point)
            assert "<a float in xmm" in str(point)


def test_operands_in_expressions(shop: str, capfd: pytest.CaptureFixture[str]) -> None:
    wanted = {"arg": ["str(arg0)"], "usdt": "shop:text"}
    with lbtrace.trace(command=[shop], **wanted) as session:  # type: ignore[arg-type]
        shown = [str(point) for point in session.calls()]
    texts = printed(capfd.readouterr().out, "text")
    assert shown == [f'shop:text(str(arg0)="{name}")' for (name,) in texts]
    where = {"arg": ["arg0 + 1"], "where": "arg0 > 0x50 and arg1 < 0", "usdt": "shop:part"}
    with lbtrace.trace(command=[shop], **where) as session:  # type: ignore[arg-type]
        high = [point[0] for point in session.calls()]
    parts = [(int(a), int(b)) for a, b in printed(capfd.readouterr().out, "part")]
    assert high == [a + 1 for a, b in parts if a > 0x50 and b < 0]
    assert high


def test_size_and_sign_are_those_of_the_place(shop: str, tmp_path: Path) -> None:
    definitions = tmp_path / "shop.d"
    definitions.write_text("provider shop { probe flag(bool open, unsigned int left, int what); };")
    with lbtrace.trace(command=[shop], usdt="shop:flag") as session:
        shown = [[argument.value for argument in point.args] for point in session.calls()]
    narrow = [(n - 3) & 0xFFFFFFFF for n in range(5)]
    assert shown[::2] == [[n & 1, narrow[n], (n - 3) % (1 << 64)] for n in range(5)]
    assert shown[1::2] == [[1, n - 3, -7] for n in range(5)]
    with lbtrace.trace(command=[shop], usdt="shop:flag", providers=definitions) as session:
        points = list(session.calls())
    assert [(p["open"], p["left"], p["what"]) for p in points[::2]] == [
        (bool(n & 1), narrow[n], n - 3) for n in range(5)
    ]
    assert [(p["open"], p["left"], p["what"]) for p in points[1::2]] == [
        (True, n - 3, -7) for n in range(5)
    ]


COMPARED: dict[str, Callable[[float], bool]] = {
    "arg0 > -2.5": lambda rate: rate > -2.5,
    "arg0 <= -2.5 and arg0 != -5": lambda rate: rate <= -2.5 and rate != -5,
    "arg0 == 0": lambda rate: rate == 0,
}
"""Conditions about the first operand, a double that is -0 at first."""


def test_floats_are_what_the_program_prints(
    shop: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    definitions = tmp_path / "shop.d"
    with lbtrace.trace(command=[shop], usdt="shop:weighed") as session:
        points = list(session.calls())
    lines = printed(capfd.readouterr().out, "weighed")
    assert len(points) == len(lines) == 8
    for number, (point, line) in enumerate(zip(points, lines, strict=True)):
        rate, share, same, exact = map(float, line)
        assert [point[n] for n in (0, 2, 5)] == [rate, same, rate]
        assert point[1] == struct.unpack("f", struct.pack("f", share))[0]
        assert (point[3], point[4]) == (exact, -2.25), number
        assert isinstance(point[7], int)
        assert "<a float in xmm" in str(point)
    # without a mark of its own, an operand is a float by its definition, if that agrees in size
    definitions.write_text(
        "provider shop { probe weighed(double a, double b, float c, long double d, double e,"
        " long f, double g, double h); };"
    )
    with lbtrace.trace(command=[shop], usdt="shop:weighed", providers=definitions) as session:
        named = list(session.calls())
    for point, line in zip(named, lines, strict=True):
        assert point["a"] == point["c"] == point["f"] == point["h"] == float(line[0])
        assert point["b"] == points[named.index(point)][1]
    for condition, holds in COMPARED.items():
        with lbtrace.trace(command=[shop], usdt="shop:weighed", where=condition) as session:
            found = [point[0] for point in session.calls()]
        assert found == [point[0] for point in points if holds(point[0])], condition


def test_one_operand_stops_no_trace(
    shop: str, mode: lbtrace.Mode, capfd: pytest.CaptureFixture[str]
) -> None:
    options = lbtrace.Options(mode=mode)
    with lbtrace.trace(command=[shop], usdt="shop:*", options=options) as session:
        points = [point for point in session.calls() if point.name == "shop:extreme"]
    assert len(points) == 8
    for number, point in enumerate(points):
        assert [point[n] for n in (0, 1, 2, 5)] == [(1 << 64) - 1, -1 << 63, 8, 10 + number]
        assert "<the operand 99999999999999999999(%" in str(point)
        assert "<the operand $99999999999999999999 cannot be read>" in str(point)


def test_floats_are_listed(shop: str) -> None:
    words = [sys.executable, "-m", "lbtrace", "list", "--binary", shop, "--usdt", "shop:weighed"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "(double arg0, float arg1, double arg2, long double arg3, double arg4" in listed


def test_definitions_that_do_not_fit_are_said(shop: str, tmp_path: Path) -> None:
    definitions = tmp_path / "shop.d"
    definitions.write_text(
        "provider shop { probe flag(bool open); probe text(char *name, long other);"
        " probe part(long a, long b);\n#pragma lbtrace pair flag text by name\n};"
    )
    wanted = "shop:flag", "shop:text", "shop:symbol"
    with lbtrace.trace(command=[shop], usdt=wanted, providers=definitions) as session:
        names = {argument.name for point in session.calls() for argument in point.args}
        notes = list(session.plan.notes)
    assert names == {"arg0", "arg1", "arg2", "arg3"}
    assert notes == [
        "shop:flag: defined with 1 argument, but the note has 3: shown without their names",
        "shop:text: defined with 2 arguments, but the note has 1: shown without their names",
        "shop:flag, shop:text: no pair, as the values of name are unknown",
    ]


def test_a_file_that_is_not_traced_is_named(shop: str) -> None:
    with pytest.raises(lbtrace.NoMatchError, match="no file that is traced is called nofile, but"):
        lbtrace.trace(command=[shop], usdt="shop:flag@nofile", binary=shop)

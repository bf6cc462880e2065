"""Counters of markers, which all probes at an address have to raise."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import lbtrace

pytestmark = pytest.mark.host

SOURCE = r"""
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <sys/sdt.h>
#define COUNTER(name) unsigned short name##_semaphore __attribute__((section(".probes")))
COUNTER(shop_done);
COUNTER(shop_also);
/* the first instruction is the marker, and a second marker's place */
__attribute__((noinline)) int done(int n)
{
    DTRACE_PROBE1(shop, done, n);
    __asm__ volatile(".pushsection .note.stapsdt, \"\", \"note\"\n.balign 4\n"
                     ".4byte 8, 992f - 991f, 3\n.asciz \"stapsdt\"\n"
                     "991: .8byte done, 0, shop_also_semaphore\n"
                     ".asciz \"shop\", \"also\", \"-4@%edi\"\n992: .balign 4\n.popsection");
    return 2 * n + 1;
}
int main(void)
{
    for (int n = 0; n < 3; n++)
        done(n), printf("%d %d\n", shop_done_semaphore, shop_also_semaphore);
    fflush(stdout);
    getchar();
    return 0;
}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = tmp_path_factory.mktemp("shop") / "shop"
    command = ["gcc", "-w", "-g", "-O2", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return str(program)


def options(mode: lbtrace.Mode) -> lbtrace.Options:
    return lbtrace.Options(mode=mode)


def test_functions_share_the_counter_of_a_marker(
    shop: str, mode: lbtrace.Mode, capfd: pytest.CaptureFixture[str]
) -> None:
    symbols = subprocess.run(["nm", shop], capture_output=True, text=True, check=True).stdout
    (place,) = [line.split()[0] for line in symbols.splitlines() if line.endswith(" T done")]
    wanted = {"functions": "done", "usdt": "shop:done", "places": [f"{shop}:0x{place}"]}
    with lbtrace.trace(command=[shop], options=options(mode), **wanted) as session:  # type: ignore[arg-type]
        seen = [(call.name, call.end, call.depth) for call in session.calls()]
    assert capfd.readouterr().out == "1 0\n" * 3
    assert seen.count(("done", "returned", 0)) == seen.count(("shop:done", "point", 1)) == 3
    assert len(seen) == 9


def test_markers_at_one_place_have_one_counter(
    shop: str, mode: lbtrace.Mode, capfd: pytest.CaptureFixture[str]
) -> None:
    with lbtrace.trace(command=[shop], usdt="shop:*", options=options(mode)) as session:
        names = [call.name for call in session.calls()]
        notes = " ".join(session.plan.notes)
    assert sorted(names) == ["shop:also"] * 3 + ["shop:done"] * 3
    assert capfd.readouterr().out == "1 0\n" * 3
    assert "shop:also: at a place of another marker" in notes


MISPLACED = r"""
.data
.balign 8
place: .quad 0, 0
.text
.globl main
.type main, @function
.balign 16
main: mov $7, %eax
1: nop
2: nop
3: nop
4: nop
xor %eax, %eax
ret
.size main, . - main
.macro mark name, address, counter
.pushsection .note.stapsdt, "", "note"
.balign 4
.4byte 8, 9f - 8f, 3
.asciz "stapsdt"
8: .8byte \address, 0, \counter
.asciz "shop", "\name", "-4@%eax"
9: .balign 4
.popsection
.endm
mark odd, 1b, place + 1
mark text, 2b, main
mark beyond, 3b, 0x7ffffffff
mark sold, 4b, place + 2
.section .note.GNU-stack, "", @progbits
"""


def test_a_counter_that_cannot_be_raised_costs_its_marker_only(
    tmp_path: Path, mode: lbtrace.Mode
) -> None:
    program = str(tmp_path / "shop")
    command = ["gcc", "-no-pie", "-x", "assembler", "-", "-o", program]
    subprocess.run(command, input=MISPLACED, text=True, check=True)
    with lbtrace.trace(command=[program], usdt="shop:*", options=options(mode)) as session:
        assert [(point.name, point[0]) for point in session.calls()] == [("shop:sold", 7)]
        notes = sorted(note for note in session.plan.notes if "left out" in note)
    said = ": left out: its note names a counter "
    assert notes == [
        f"shop:beyond{said}that is not in what is loaded of the file",
        f"shop:odd{said}at an odd address, which the kernel does not raise",
        f"shop:text{said}in memory that may not be written",
    ]

"""Pairs of markers in the body of a function that needs no stack: at the function's own frame."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import lbtrace

pytestmark = pytest.mark.host

SOURCE = r"""
#include <stdio.h>
#define MARK(name, operand)                                                         \
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt, \"\", \"note\"\n"     \
                     ".balign 4\n.4byte 8, 992f - 991f, 3\n.asciz \"stapsdt\"\n" \
                     "991: .8byte 990b, 0, 0\n.asciz \"shop\", \"" #name "\", \"-8@%0\"\n" \
                     "992: .balign 4\n.popsection" ::"r"(operand) : "memory")
#define NOIPA __attribute__((noipa))
/* at -O2 the marker is the first instruction */
NOIPA long first(long n) { MARK(work__start, n); MARK(work__done, n); return n * 3; }
NOIPA long second(long n)
{
    __asm__ volatile("lea 1(%%rsp), %%rax" ::: "rax");
    MARK(work__start, n);
    MARK(work__done, n);
    return n * 3;
}
NOIPA long called(long n) { MARK(work__start, n); MARK(work__done, n); return n + 1; }
/* one inside of the other, with a call between */
NOIPA long third(long n)
{
    long result;

    MARK(work__start, n);
    result = called(n + 1000);
    MARK(work__done, n);
    return result;
}
int main(void)
{
    for (long n = 0; n < 3; n++) {
        MARK(work__start, n + 100);
        long values[] = { first(n), second(n + 10), third(n + 20) };
        MARK(work__done, n + 100);
        printf("first %ld\nsecond %ld\n", values[0] / 3, values[1] / 3);
        printf("third %ld\n", values[2] - 1001);
    }
    return 0;
}
"""
DEFINITION = """
provider shop {
    probe work__start(long number);
    probe work__done(long number);
    #pragma lbtrace pair work__start work__done by number
};
"""
BUILDS = ("-O0", "-O2", "-O2 -fno-omit-frame-pointer", "-O2 -fcf-protection=full")


@pytest.fixture(scope="module", params=BUILDS)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("bodies") / "shop"
    command = ["gcc", "-g", *request.param.split(), "-x", "c", "-", "-o", made]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return str(made)


@pytest.mark.parametrize("bounds", ["within", "functions"])
def test_a_pair_is_inside_of_the_function(
    shop: str,
    bounds: str,
    mode: lbtrace.Mode,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also where both begin at the same instruction, and where it is not below the frame."""
    definition = tmp_path / "shop.d"
    definition.write_text(DEFINITION)
    named: dict[str, Any] = {bounds: ["first", "second", "third"]}
    with lbtrace.trace(
        command=[shop],
        usdt="shop:*",
        providers=[str(definition)],
        options=lbtrace.Options(mode=mode),
        **named,
    ) as session:
        calls = sorted(session.calls(), key=lambda call: call.start)
        assert session.losses().events == 0
    assert {call.end for call in calls} == {"returned"}
    base = 0 if bounds == "within" else 1
    expected = []
    for number, line in enumerate(capfd.readouterr().out.splitlines()):
        function, value = line.split()[0], int(line.split()[1])
        if base and not number % 3:
            expected.append(("shop:work__start", number // 3 + 100, 0))
        expected += [(function, value, base), ("shop:work__start", value, base + 1)]
        if function == "third":
            expected.append(("shop:work__start", value + 1000, base + 2))
    assert [(call.name, call.args[0].value, call.depth) for call in calls] == expected

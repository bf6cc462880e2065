"""Assembly that looks at its return address, or changes it, by way of copies of the stack pointer:
a program made at random prints the same traced as untraced, however returns are seen."""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.return_address_ways import program

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
RETURNS = ("auto", "uretprobe", "sites", "none")
SEED = int(os.environ["LBTRACE_SEED"])


def compare(lbtrace: Run, into: Path, seed: int, returns: str) -> None:
    assembly, main, names = program(seed, 130)
    (into / "ways.s").write_text(assembly)
    (into / "main.c").write_text(main)
    made, out = into / "program", into / "out.jsonl"
    subprocess.run(["gcc", "-w", into / "ways.s", into / "main.c", "-o", made], check=True)
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    done = lbtrace(
        *("attach", "--binary", made, "--func", "*", "--quiet", "--returns", returns),
        *("-o", out, "--force", "--", made),
    )
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    assert [c["name"] for c in calls if c["name"] in names] == names
    if returns in ("auto", "sites"):
        ends = {call["end"] for call in calls if call["name"] in names}
        assert ends == {"returned"}


@pytest.mark.parametrize("returns", RETURNS)
def test_return_addresses_that_are_read_by_copies(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, returns: str
) -> None:
    tool("gcc")
    compare(lbtrace, tmp_path, SEED, returns)


@pytest.mark.slow
def test_more_of_them(lbtrace: Run, tool: Callable[[str], str], tmp_path: Path) -> None:
    tool("gcc")
    for _ in range(20):
        compare(lbtrace, tmp_path, random.randrange(1 << 32), random.choice(RETURNS))


POINTERS = """\
#include <stdio.h>
#define TRACED __attribute__((noipa))
extern char __executable_start[];
int far(int);
struct calls { long pad; int (*one)(int), (*two)(int, int); };
TRACED int reads(int n) { return (char *)__builtin_return_address(0) - __executable_start + n; }
TRACED int reads_two(int n, int m) { return reads(n + m), n; }
static int (*volatile pointer)(int) = reads;
int (*const table[2])(int) = {reads, reads};
TRACED int by_variable(int n) { return pointer(n); }
TRACED int by_parameter(int (*f)(int), int n) { return f(n); }
TRACED int by_member(const struct calls *c, int n) { return c->one(n); }
TRACED int by_table(int i, int n) { return table[i & 1](n); }
TRACED int by_branch(const struct calls *c, int n) { return n & 1 ? n : c->one(n); }
TRACED int by_frame(const struct calls *c, int n)
{
    volatile int room[40];
    room[n] = n;
    return room[n] > 3 ? c->one(n) : c->two(n, n);
}
TRACED int by_name(int n) { return far(n + 1); }
static int (*choose(void))(int) { return reads; }
int chosen(int) __attribute__((ifunc("choose")));
TRACED int by_choice(int n) { return chosen(n + 1); }
#ifdef __CET__
static int (*volatile untracked)(int) __attribute__((nocf_check)) = (void *)reads;
TRACED int by_untracked(int n) { return untracked(n); }
#else
#define by_untracked by_variable
#endif
TRACED int by_jump(const struct calls *c, int n) { return by_member(c, n + 1); }
int main(void)
{
    struct calls calls = {0, reads, reads_two};
    for (int n = 0; n < 6; n++) {
        printf("%d %d ", by_variable(n), by_parameter(reads, n));
        printf("%d %d ", by_member(&calls, n), by_table(n, n));
        printf("%d %d ", by_branch(&calls, n), by_frame(&calls, n));
        printf("%d %d ", by_name(n), by_choice(n));
        printf("%d %d\\n", by_untracked(n), by_jump(&calls, n));
    }
    return 0;
}
"""

FAR = "int far(int n) { return n + ((long)__builtin_return_address(0) & 0xfff); }\n"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    "options",
    ["-O1 -fPIE -pie", "-O2 -no-pie", "-Os -fno-plt", "-O2 -fcf-protection=full -fPIE -pie", "-O0"],
)
def test_what_is_jumped_to_through_a_pointer_may_read_them(
    lbtrace: Run, tool: Callable[[str], str], tmp_path: Path, compiler: str, options: str
) -> None:
    """The compiler makes a tail call of the last one of a function: what that reads is the return
    address of its caller."""
    source, made, out = tmp_path / "p.c", tmp_path / "p", tmp_path / "out.jsonl"
    source.write_text(POINTERS)
    (tmp_path / "far.c").write_text(FAR)
    flags = [*options.split(), "-w"]
    if compiler == "clang":
        flags.append("-Dnoipa=noinline")
    library = [tool(compiler), "-O1", "-shared", "-fPIC", "-o", "libfar.so", "far.c"]
    subprocess.run(library, cwd=tmp_path, check=True)
    words = [tool(compiler), *flags, source, "-o", made, f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([*words, tmp_path / "libfar.so"], check=True)
    plain = subprocess.run([made], capture_output=True, text=True, timeout=60, check=True)
    for returns in RETURNS:
        done = lbtrace(
            *("attach", "--binary", made, "--func", "by_*", "--quiet", "--returns", returns),
            *("-o", out, "--force", "--", made),
        )
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
        calls = [json.loads(line) for line in out.read_text().splitlines()]
        assert sum(call.get("name") == "by_jump" for call in calls) == 6

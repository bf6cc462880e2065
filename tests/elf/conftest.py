"""Programs built once a session, and what the system's own tools say of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Build = Callable[..., str]

C_SOURCE = r"""
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
typedef struct { int x, y; } pair;
typedef struct { double d; long l; } mixed;
struct big { long a[4]; };
enum color { RED };
typedef int (*callback)(const char *, int);

NOINLINE int64_t integers(int8_t a, uint8_t b, short c, unsigned d, const char *e, bool f, char g,
                          uint32_t h)
{
    return a + b + c + d + !!e + f + g + h;
}
NOINLINE double floats(double x, int y, float z, long w) { return x + y + z + w; }
NOINLINE struct big hidden(int x, pair p, int y)
{
    struct big b = {{x, p.x, p.y, y}};
    return b;
}
NOINLINE int by_memory(struct big b, int z) { return b.a[0] + z; }
NOINLINE mixed halves(mixed q, int k, enum color c, int after)
{
    q.l += k + c + after;
    return q;
}
NOINLINE void pointers(callback f, int (*rows)[3], char *const *argv, volatile int *p,
                       long double ld, int tail)
{
    if (f) f("", *p + tail + (*rows)[0] + (int)ld);
}
NOINLINE __int128 wide(__int128 q, int z) { return q + z; }
NOINLINE int complexes(double _Complex c, int z) { return creal(c) + z; }
static NOINLINE int partly(int unused, int x, int y) { return x * 3 + y; }
NOINLINE int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
NOINLINE int switched(int n)
{
    for (;;)
        switch (n) {
        case 0: return 1;
        case 1: n = 5; break;
        case 2: n = 7; break;
        case 3: n = 0; break;
        case 4: n = 3; break;
        case 5: n = 2; break;
        default: n = 4; break;
        }
}
NOINLINE int looping(const int *p, int n)
{
    int sum = 0;
    do sum += *p++; while (--n);
    return sum;
}
int renamed(int) __attribute__((alias("fib")));
int main(int argc, char **argv)
{
    pair p = {1, 2};
    mixed q = {1.0, 2};
    int z = 3, row[3] = {argc};
    printf("%ld %f %ld %d %d\n", integers(-1, 2, 3, 4, "x", 1, 'c', 8), floats(1, 2, 3, 4),
           hidden(1, p, 4).a[2], partly(argc + 1, argc, 9), (int)wide(3, argc));
    pointers(0, &row, argv, &z, 1.0L, 3);
    halves(q, argc, RED, 4);
    return by_memory(hidden(argc, p, 2), 3) + complexes(1.0, argc) + fib(argc) + switched(argc) +
           looping(row, 3) + renamed(2);
}
"""


@pytest.fixture(scope="session")
def installed(go: ModuleType) -> Callable[[str], str]:
    """The path of a program by its name, or the name of a library; programs in Go are fetched."""

    def find(name: str) -> str:
        return str(go.program(name)) if name in go.PROGRAMS else shutil.which(name) or name

    return find


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles a source text; the same arguments give the same file again."""
    folder = tmp_path_factory.mktemp("built")
    made: dict[tuple[str, ...], str] = {}

    def compile(*flags: str, source: str = C_SOURCE, compiler: str = "gcc") -> str:
        key = (compiler, source, *flags)
        if key not in made:
            suffix = ".cc" if compiler.endswith("++") else ".c"
            text = folder / f"source{len(made)}{suffix}"
            text.write_text(source)
            made[key] = str(folder / f"program{len(made)}")
            subprocess.run([compiler, "-w", str(text), "-o", made[key], *flags, "-lm"], check=True)
        return made[key]

    return compile


def output(*command: str) -> str:
    """What a tool prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def tool() -> Callable[..., str]:
    return output


@pytest.fixture(scope="session")
def libc() -> str:
    return str(Path("/lib/x86_64-linux-gnu/libc.so.6").resolve())

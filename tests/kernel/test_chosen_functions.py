"""Which functions are traced: without any named, by ``*``, without those that are excluded."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """
#include <cstdio>
#include <string>
#include <vector>
namespace shop {
struct Cart {
    std::vector<int> items;
    __attribute__((noinline)) void add(int n) { items.push_back(n); }
};
}
__attribute__((noinline)) static int twice(int n) { return n * 2; }
int main() {
    shop::Cart cart;
    for (int i = 0; i < 3; i++)
        cart.add(twice(i));
    puts(std::to_string(cart.items.size()).c_str());
}
"""

CALLED = {
    "main": 1,
    "twice": 3,
    "shop::Cart::add": 3,
    "shop::Cart::Cart": 1,
    "shop::Cart::~Cart": 1,
}


def counted(lines: str) -> dict[str, int]:
    """How often each function was called, by a tree."""
    found: dict[str, int] = {}
    for line in lines.splitlines():
        if "(" in line:
            name = line.partition("(")[0].split()[-1]
            found[name] = found.get(name, 0) + 1
    return found


@pytest.fixture
def shop(compiled: Callable[[str, list[str], str], Path]) -> Path:
    return compiled("shop", ["g++", "-g", "-O0"], SOURCE)


def test_without_names_own_functions_are_traced(lbtrace: Run, shop: Path, tmp_path: Path) -> None:
    done = lbtrace(shop)
    assert counted(done.stdout) == CALLED
    assert f"traces the 5 functions that the sources of {shop} define" in done.stderr
    done = lbtrace("attach", "--exclude", "*Cart", "--func", "!main", "--", shop)
    assert counted(done.stdout) == {"twice": 3, "shop::Cart::add": 3}
    assert "traces the 2 functions" in done.stderr

    stripped = tmp_path / "without-types"
    subprocess.run(["strip", "-g", shop, "-o", stripped], check=True)
    done = lbtrace("attach", "--", stripped)
    assert counted(done.stdout) == CALLED
    assert "of which no debug information tells those of its sources" in done.stderr


def test_all_are_those_of_the_program(lbtrace: Run, shop: Path) -> None:
    done = lbtrace("attach", "--func", "*", "--", shop)
    assert counted(done.stdout) == CALLED
    assert "of std:: and start-up code, which '*' does not take" in done.stderr
    done = lbtrace("attach", "--func", "*", "--func", "std::vector*", "--", shop)
    assert counted(done.stdout).items() > CALLED.items()


LOADING = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *run(void *given) { free(given); return 0; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, run, malloc(77));
    return pthread_join(thread, 0);
}
"""


def test_functions_of_libraries_are_found(
    lbtrace: Run, compiled: Callable[[str, list[str], str], Path]
) -> None:
    program = compiled("loading", ["gcc", "-g", "-pthread"], LOADING)
    wanted = ("malloc", "main", "pthread_create@libpthread", "pthread_j*@libc")
    words = [word for each in wanted for word in ("--func", each)]
    done = lbtrace("attach", *words, "--", program)
    seen = counted(done.stdout)
    assert {name: seen.get(name) for name in ("main", "pthread_create", "pthread_join")} == {
        "main": 1,
        "pthread_create": 1,
        "pthread_join": 1,
    }, done.stderr
    assert seen["malloc"] >= 1
    assert "malloc: found in libc.so.6\n" in done.stderr
    assert "pthread_create: found in libc.so.6, not in libpthread\n" in done.stderr
    assert "pthread_j" not in done.stderr  # it was named with its library

    # A program without names of its own.
    done = lbtrace("attach", "--func", "malloc", "--", "/bin/true")
    assert counted(done.stdout).keys() <= {"malloc"}
    assert "malloc: found in libc.so.6\n" in done.stderr
    done = lbtrace("attach", "--func", "strlen", "--", program)
    assert "strlen: is an indirect function of" in done.stderr
    done = lbtrace("attach", "--func", "malloc", "--binary", program)
    assert "it is a library's: add --binary libc.so.6" in done.stderr


def test_libraries_of_a_process(lbtrace: Run, start: Callable[..., Any]) -> None:
    cat = start("/bin/cat", stdin=subprocess.PIPE)
    cat.process.stdin.write("a\n")
    cat.process.stdin.flush()
    assert cat.process.stdout.readline() == "a\n"
    done = lbtrace("attach", "--func", "malloc", "--pid", cat.pid, "--duration", "200ms")
    assert "malloc: found in libc.so.6\n" in done.stderr
    assert done.returncode == 0
    done = lbtrace("list", "--func", "malloc", "--pid", cat.pid)
    assert "malloc: found in libc.so.6\n" in done.stderr
    assert re.search(r"^ +0x[0-9a-f]+ .*\bmalloc\b", done.stdout)
    done = lbtrace("list", "--func", "pthread_create@libc", "--pid", cat.pid)
    assert "pthread_create" in done.stdout

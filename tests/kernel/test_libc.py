"""Functions of a C library without debug information, compared with what strace and the program
say."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

PROGRAM = """\
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    setenv("SAID", "some words", 1);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    void *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *copy = malloc(17);
    strcpy(copy, getenv("SAID"));
    dprintf(fd, "%s", copy);
    printf("%p\\n", page);
    free(copy);
    if (strtol("12", 0, 10) != 12 || !calloc(64, 8)) return 1;
    return close(fd);
}
"""

CALLS = """\
open(file="/dev/null", oflag=O_WRONLY|O_CLOEXEC) = 3
malloc(size=17) = 0x
getenv(name="SAID") = "some words"
dprintf(fd=3, fmt="%s")
strtol(nptr="12", endptr=0x0, base=10) = 12
calloc(nmemb=64, size=8) → memset
close(fd=3) = 0
"""


MOVING = """\
#include <alloca.h>
#include <string.h>
static char *volatile kept;
__attribute__((noipa)) int use(char *text, int n) { kept = text; memset(text, n, n); return n; }
__attribute__((noipa)) int copy(int n)
{
    char small[32];
    int got = use(small, 8);
    if (__builtin_expect(n > 1, 0)) got += use(alloca(16 * n), 16 * n);
    if (got > 1000) kept = 0;
    return got;
}
int main() { return copy(1) + copy(2) + copy(80) == 0; }
"""


def test_headers_declare_the_c_library(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "calls.c").write_text(PROGRAM)
    program = tmp_path / "calls"
    compiler = ["gcc", "-O1", "-fno-builtin", "-Wl,-rpath,$ORIGIN", "-w"]
    subprocess.run([*compiler, tmp_path / "calls.c", "-o", program], check=True)
    (library,) = {
        line.split()[2]
        for line in subprocess.check_output(["ldd", program], text=True).splitlines()
        if "libc.so.6" in line
    }
    stripped = tmp_path / "libc.so.6"  # has no build id: nothing finds debug information
    remove = ["--remove-section=.note.gnu.build-id", "--remove-section=.gnu_debuglink"]
    subprocess.run(["objcopy", *remove, "-g", library, stripped], check=True)
    names = "open,mmap,malloc,getenv,dprintf,free,strtol,calloc,close"
    done = lbtrace("attach", "--func", names, "--", program)
    for call in CALLS.splitlines():
        assert f"  {call}" in done.stdout, done.stdout
    page, freed = done.stdout.split()[0], done.stdout.rpartition("  free(ptr=")[2]
    assert f"flags=MAP_PRIVATE|MAP_ANONYMOUS, fd=-1, offset=0) = {page}\n" in done.stdout
    assert freed.splitlines()[0].endswith(")")  # has no result
    done = lbtrace("attach", "--libcalls", "--exclude", "get*", "--", program)
    shown = [line.split()[3].partition("(")[0] for line in done.stdout.splitlines()[3:]]
    called = "setenv open mmap malloc dprintf printf free strtol calloc close"
    assert shown == called.split()


def test_exits_where_the_stack_moves(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """As ``setenv`` is compiled: whether a buffer is allocated on the stack is seen at run time."""
    (tmp_path / "moving.c").write_text(MOVING)
    program = tmp_path / "moving"
    compiler = ["gcc", "-O2", "-g", "-fstack-protector-all"]
    subprocess.run([*compiler, tmp_path / "moving.c", "-o", program], check=True)
    done = lbtrace("attach", "--func", "copy", "--", program)
    for call in ("copy(n=1) = 8\n", "copy(n=2) = 40\n", "copy(n=80) = 1288\n"):
        assert call in done.stdout

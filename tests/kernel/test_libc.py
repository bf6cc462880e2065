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
    return close(fd);
}
"""

CALLS = """\
open(file="/dev/null", oflag=O_WRONLY|O_CLOEXEC) = 3
malloc(size=17) = 0x
getenv(name="SAID") = "some words"
dprintf(fd=3, fmt="%s")
close(fd=3) = 0
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
    names = "open,mmap,malloc,getenv,dprintf,free,close"
    done = lbtrace("attach", "--func", names, "--", program)
    for call in CALLS.splitlines():
        assert f"  {call}" in done.stdout, done.stdout
    page, freed = done.stdout.split()[0], done.stdout.rpartition("  free(ptr=")[2]
    assert f"flags=MAP_PRIVATE|MAP_ANONYMOUS, fd=-1, offset=0) = {page}\n" in done.stdout
    assert freed.splitlines()[0].endswith(")")  # has no result

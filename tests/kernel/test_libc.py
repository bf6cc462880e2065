"""Functions of libraries without debug information, compared with what the programs say."""

from __future__ import annotations

import ctypes
import gzip
import json
import re
import subprocess
import sys
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
static int fill(void)
{
    char buffer[64], *line = 0;
    int ends[2];
    size_t size = 0;
    void *memory;
    pipe(ends);
    dprintf(ends[1], "vm\\nname 5\\n");
    read(ends[0], buffer, 3);
    read(-1, buffer, 3);
    snprintf(buffer, sizeof buffer, "n=%d", 7);
    snprintf(buffer, 3, "n=%d", 77);
    snprintf(0, 0, "none");
    getline(&line, &size, fdopen(ends[0], "r"));
    posix_memalign(&memory, 64, 100);
    fread(buffer, 2, 2, fmemopen("abcdefg", 7, "r"));
    return printf("%p %p\\n", memory, buffer) < 0;
}
int main(int argc, char **argv)
{
    if (argc > 1) return fill();
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
dprintf(fd=3, fmt="%s", "some words")
strtol(nptr="12", endptr=0x0, base=10) = 12
calloc(nmemb=64, size=8) = 0x
close(fd=3) = 0
"""


READING = """\
import ctypes, sys
library = ctypes.CDLL("libz.so.1")
library.gzopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(library.gzopen(sys.argv[1].encode(), b"r"))
buffer = ctypes.create_string_buffer(64)
for length in (4, 60, 60):
    count = library.gzread(file, buffer, length)
    print(count, buffer.raw[:count].decode())
"""


FILLED = [
    ("pipe", {"returned": 0, "pipedes": [3, 4]}),
    ("read", {"returned": 3, "buf": "vm\n"}),
    ("read", {"returned": -1, "errno": "EBADF"}),
    ("snprintf", {"returned": 3, "s": "n=7"}),
    ("snprintf", {"returned": 4, "s": "n="}),
    ("snprintf", 4),
    ("getline", {"returned": 7, "lineptr[0]": "name 5\n"}),
    ("fread", {"returned": 2, "ptr": "abcd"}),
]
"""What the program knows of its calls: what they return and leave in its buffers."""


PASSING = """\
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
int SSL_write(void *ssl, const void *data, int count);
int main(int argc, char **argv)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    chdir(argv[1]);
    umask(022);
    mkdir("made", 0750);
    int file = open("made/file", O_WRONLY | O_CREAT, 0640);
    write(file, "hello\\n", 6);
    pwrite(file, "a\\0b", 3, 1);
    open("made/file", O_RDONLY);
    fwrite("abcdefgh", 2, 3, stdout);
    int socket_of = socket(AF_INET, SOCK_DGRAM, 0);
    connect(socket_of, (void *)&to, sizeof to);
    send(socket_of, "sent", 4, MSG_DONTWAIT | MSG_NOSIGNAL);
    sendto(socket_of, "data", 4, 0, (void *)&to, sizeof to);
    return SSL_write(0, "secret", 6);
}
"""


PASSED = """\
umask 022
mkdir "made" 0750
open "made/file" O_WRONLY|O_CREAT 0640
write 3 "hello\\n" 6
pwrite 3 "a\\0b" 3 1
open "made/file" O_RDONLY
fwrite "abcdef" 2 3
connect 5 127.0.0.1:9 16
send 5 "sent" 4 MSG_DONTWAIT|MSG_NOSIGNAL
sendto 5 "data" 4 0 127.0.0.1:9 16
SSL_write 0x0 "secret" 6
"""
"""What the program passes. The stream of ``fwrite`` is only an address."""


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
    strip_c_library(program)
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

    names = ",".join({name: None for name, _ in FILLED}) + ",posix_memalign"
    capture = tmp_path / "filled.lbt"
    done = lbtrace("attach", "--func", names, "--output", capture, "--", program, "fill")
    memory, buffer = done.stdout.split()[:2]
    text = lbtrace("export", capture, "--format", "tree").stdout
    assert f'  read(fd=3, buf={buffer}, nbytes=3) = 3, buf="vm\\n"\n' in text
    records = map(json.loads, lbtrace("export", capture, "--format", "jsonl").stdout.splitlines())
    found = [(r["name"], r["result"]) for r in records if r.get("depth") == 0]
    assert [each for each in found if each[0] != "posix_memalign"] == FILLED
    assert ("posix_memalign", {"returned": 0, "memptr[0]": memory}) in found


def strip_c_library(program: Path) -> None:
    """Copy the C library of a program next to it, as a file of which nothing finds debug
    information: it has no build id."""
    (library,) = {
        line.split()[2]
        for line in subprocess.check_output(["ldd", program], text=True).splitlines()
        if "libc.so.6" in line
    }
    remove = ["--remove-section=.note.gnu.build-id", "--remove-section=.gnu_debuglink"]
    target = program.parent / "libc.so.6"
    subprocess.run(["objcopy", *remove, "-g", library, target], check=True)


def test_what_functions_are_passed(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "passing.c").write_text(PASSING)
    compiler = ["gcc", "-O1", "-fno-builtin", "-w", "-Wl,-rpath,$ORIGIN"]
    library = tmp_path / "libssl.so.3"
    (tmp_path / "ssl.c").write_text("int SSL_write(void *s, const void *b, int n) { return 0; }")
    shared = [*compiler, "-shared", "-fPIC", "-Wl,-soname,libssl.so.3"]
    subprocess.run([*shared, tmp_path / "ssl.c", "-o", library], check=True)
    program = tmp_path / "passing"
    subprocess.run([*compiler, tmp_path / "passing.c", library, "-o", program], check=True)
    names = ",".join({line.split()[0] for line in PASSED.splitlines()})
    for inside in ("declared", "stripped"):
        (tmp_path / inside).mkdir()
        if inside == "stripped":
            strip_c_library(program)
        done = lbtrace("attach", "--func", names, "--", program, tmp_path / inside)
        shown = re.findall(r"  (\w+)\((.*)\) = ", done.stdout)
        calls = [f"{name} " + re.sub(r"\w+=", "", args).replace(", ", " ") for name, args in shown]
        calls = [re.sub("(fwrite .*) 0x.*", r"\1", call) for call in calls]
        made = [call for call in calls if not call.startswith("write 1 ")]  # of the stream
        assert made == PASSED.splitlines(), done.stdout
        where = ["--func", "write", "--where", "fd != 1 && buf != 0"]
        done = lbtrace("attach", *where, "--", program, tmp_path / inside)
        (shown,) = re.findall(r'  write\(fd=\d, buf="(.*)", \w+=6\) = 6', done.stdout)
        assert shown == "hello\\n"


def test_filled_by_a_library_without_debug_information(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "read.py").write_text(READING)
    with gzip.open(tmp_path / "text.gz", "wb") as file:
        file.write(b"some words")
    ctypes.CDLL("libz.so.1")
    library = re.search(r"/\S+/libz\.so\S*", Path("/proc/self/maps").read_text(errors="replace"))
    command = (sys.executable, tmp_path / "read.py", tmp_path / "text.gz")
    done = lbtrace("attach", "--binary", library[0], "--func", "gzread", "--", *command)
    said = re.findall(r"^(\d+) (.*)$", done.stdout, re.MULTILINE)
    assert said == [("4", "some"), ("6", " words"), ("0", "")]
    shown = re.findall(r'gzread\(file=0x\w+, buf=0x\w+, len=\d+\) = (\d+), buf="(.*)"', done.stdout)
    assert shown == said


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

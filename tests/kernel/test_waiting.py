"""Reading an argument waits for no page that only the traced thread can load."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., subprocess.CompletedProcess[str]]

PAGES = 10

# A thread loads pages of a mapping (userfaultfd(2)), in a function that gets a pointer into them.
LOADER = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct place { int number; const char *text; };

static int faults;
static char page[4096], *all;

/* `below` is a text without an end before the pages that are loaded here. */
__attribute__((noinline)) void load(const char *text, struct place *place, const char *below)
{
    struct uffdio_copy copy = {
        .dst = (unsigned long)text & ~4095UL, .src = (unsigned long)page, .len = sizeof page};
    ioctl(faults, UFFDIO_COPY, &copy);
}

__attribute__((noinline)) int use(const char *text) { return text[0]; }

static void *run(void *unused)
{
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message) {
        char *at = (char *)message.arg.pagefault.address;
        load(at, (struct place *)at, all - 5000);
    }
    return unused;
}

int main(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register area = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    pthread_t thread;
    all = mmap(0, (2 + PAGES) * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(all, 'A', 2 * 4096);
    all += 2 * 4096;
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    area.range.start = (unsigned long)all;
    area.range.len = PAGES * 4096;
    if (ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &area))
        return 1;
    strcpy(page, "loaded");
    pthread_create(&thread, 0, run, 0);
    for (int i = 0; i < PAGES; i++) {
        use(all + i * 4096);
        puts(all + i * 4096);
    }
    return 0;
}
"""


@pytest.fixture
def loader(tool: Callable[[str], str], tmp_path: Path) -> Path:
    (tmp_path / "loader.c").write_text(LOADER)
    options = ["-O1", "-g", "-pthread", f"-DPAGES={PAGES}"]
    made = tmp_path / "loader"
    subprocess.run([tool("gcc"), *options, tmp_path / "loader.c", "-o", made], check=True)
    return made


@pytest.mark.parametrize("depth", [0, 2])
def test_a_page_that_the_process_loads_is_not_waited_for(
    loader: Path, lbtrace: Run, tmp_path: Path, mode: str, depth: int
) -> None:
    out = tmp_path / "out.jsonl"
    words = ("--func", "load", "--func", "use", "--depth", depth, "--mode", mode, "-o", out)
    done = lbtrace("attach", *words, "--", loader, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "loaded\n" * PAGES
    seen = [json.loads(line) for line in out.read_text().splitlines()]
    calls = [each for each in seen if each["type"] == "call"]
    assert [call["name"] for call in calls].count("load") == PAGES
    for call in calls:
        text, *others = call["args"]
        assert text["value"] is None, call
        for below in others[1:]:
            assert below["value"].startswith("AAAA"), call
    assert done.stderr.count("unreadable memory") == 1


@pytest.mark.parametrize("size", [10, 300_001])
def test_pages_that_the_kernel_loads_are_waited_for(
    tool: Callable[[str], str], lbtrace: Run, tmp_path: Path, mode: str, size: int
) -> None:
    (tmp_path / "text.c").write_text(
        "#include <sys/mman.h>\n#include <fcntl.h>\n"
        "__attribute__((noinline)) int use(const char *text) { return text[0]; }\n"
        "int main(int count, char **words) { int f = open(words[1], O_RDONLY);\n"
        f"char *text = mmap(0, {size}, PROT_READ, MAP_PRIVATE, f, 0);\n"
        "return use(text) == 0; }\n"
    )
    text = "some words" * (size // 10 + 1)
    (tmp_path / "words").write_text(text[:size])
    made, out = tmp_path / "text", tmp_path / "out.jsonl"
    subprocess.run([tool("gcc"), "-O1", "-g", tmp_path / "text.c", "-o", made], check=True)
    words = ("--func", "use", "--mode", mode, "-o", out)
    done = lbtrace("attach", *words, "--", made, tmp_path / "words")
    assert done.returncode == 0, done.stderr
    (call,) = [line for line in map(json.loads, out.open()) if line["type"] == "call"]
    (shown,) = call["args"]
    assert shown["value"] == text[: min(size, 64)]
    assert shown.get("length", size) == size

"""Programs in which the command preloads a library that asks for its caller run the same traced."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """
#include <stdlib.h>
#include <string.h>
#define APART __attribute__((noinline))
APART void *taken(size_t n) { return malloc(n + 8); }
APART char *filled(char *to, char *from, size_t n) { return memcpy(to, from, n + 1); }
int main(int argc, char **argv) {
    char into[64];
    for (int n = 0; n < 3; n++) { free(taken(n + argc)); filled(into, argv[0], n + 1); }
    return 0;
}
"""
PRELOADED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
static int asking;
static void note(const char *what, void *caller) {
    Dl_info found;
    char text[200];
    if (asking++) return;
    if (!dladdr(caller, &found) || !found.dli_fname) found.dli_fname = "nowhere";
    write(1, text, snprintf(text, sizeof(text), "%s from %s\\n", what, found.dli_fname));
    asking = 0;
}
static char room[1 << 20];
static size_t used;
void *malloc(size_t n) {
    note("malloc", __builtin_return_address(0));
    used += (n + 31) & -16;
    return room + used - ((n + 31) & -16);
}
void free(void *at) { (void)at; }
void *memcpy(void *to, const void *from, size_t n) {
    char *into = to;
    if (n < 5) note("memcpy", __builtin_return_address(0));
    for (size_t at = 0; at < n; at++) { into[at] = ((const char *)from)[at]; __asm__(""); }
    return to;
}
"""
COMMANDS = ["env LD_PRELOAD={library} {program}", "sh -c"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_library_that_the_command_preloads(lbtrace: Run, tmp_path: Path, command: str) -> None:
    program, library = tmp_path / "program", tmp_path / "libasks.so"
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "asks.c").write_text(PRELOADED)
    compile_ = ["gcc", "-O2", "-w"]
    subprocess.run([*compile_, "-fno-builtin", tmp_path / "program.c", "-o", program], check=True)
    subprocess.run([*compile_, "-shared", "-fPIC", tmp_path / "asks.c", "-o", library], check=True)
    words = COMMANDS[0].format(library=library, program=program).split()
    if command != COMMANDS[0]:
        words = [*command.split(), f"LD_PRELOAD={library} {program}; true"]
    plain = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert f"malloc from {program}" in plain
    assert f"memcpy from {program}" in plain
    done = lbtrace(
        *("attach", "--quiet", "--binary", program, "--func", "taken", "--func", "filled"),
        *("-o", tmp_path / "out.jsonl", "--force", "--", *words),
    )
    assert (done.returncode, done.stdout) == (0, plain), done.stderr


def test_what_is_the_command_itself_is_known(lbtrace: Run, tmp_path: Path) -> None:
    program = tmp_path / "program"
    (tmp_path / "program.c").write_text(PROGRAM)
    command = ["gcc", "-O2", "-w", "-fno-builtin", tmp_path / "program.c", "-o", program]
    subprocess.run(command, check=True)
    chosen = ("attach", "--dry-run", "--binary", program, "--func", "taken")
    assert "returns by uretprobe" in lbtrace(*chosen, "--", program).stdout
    alone = lbtrace(*chosen).stdout
    assert "malloc, which may read its return address, is called in its place" in alone

"""Functions whose code the loader chooses by the processor (``strlen``), compared with what a
program says of its calls; and what is traced of a stripped program."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

CALLS = """\
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    char copy[200];
    for (int i = 2; i < argc; i++) {
        const char *a = argv[i - 1], *b = argv[i];
        size_t n = strlen(a);
        printf("strlen %zu\\n", n);
        printf("strcmp %d\\n", strcmp(a, b));
        printf("strncmp %d\\n", strncmp(a, b, 3));
        printf("memcmp %d\\n", memcmp(a, b, 2));
        printf("strrchr %s\\n", strrchr(a, *a));
        printf("memcpy %#zx\\n", (size_t)memcpy(copy, a, n + 1));
    }
    return 0;
}
"""

SMALL = """\
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) { return strcmp(argv[1], "secret") == 0 || !getenv("HOME"); }
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    def make(source: str, *options: str) -> Path:
        (tmp_path / "program.c").write_text(source)
        words = [
            "gcc",
            "-fno-builtin",
            *options,
            tmp_path / "program.c",
            "-o",
            tmp_path / "program",
        ]
        subprocess.run(words, check=True)
        return tmp_path / "program"

    return make


def test_as_the_program_says(lbtrace: Run, program: Callable[..., Path], tmp_path: Path) -> None:
    words = ["".join(random.choices("ab", k=random.randrange(2, 65))) for _ in range(200)]
    output = tmp_path / "calls.jsonl"
    done = lbtrace("attach", "--libcalls", "-o", output, "--", program(CALLS), *words)
    assert "some calls end open" not in done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    records = map(json.loads, output.read_text().splitlines())
    calls = [record for record in records if record["type"] == "call"]
    shown = [[call["name"], str(call["result"])] for call in calls if call["name"] != "printf"]
    assert shown == said
    texts = [call["args"][0]["value"] for call in calls if call["name"] == "strlen"]
    assert texts == words[:-1]


def test_a_stripped_program(lbtrace: Run, program: Callable[..., Path]) -> None:
    """What it calls in libraries is shown, where nothing is named and it has no names."""
    stripped = program(SMALL, "-s")
    done = lbtrace(stripped, "hello")
    assert f"{stripped} is stripped: traces the 2 functions of libc.so.6" in done.stderr
    assert 'strcmp(s1="hello", s2="secret") = ' in done.stdout
    assert 'getenv(name="HOME") = "' in done.stdout
    done = lbtrace("count", "--", stripped, "hello")
    assert {line.split()[-1] for line in done.stdout.splitlines()[1:]} == {"getenv", "strcmp"}
    static = program(SMALL, "-s", "-static")
    failed = lbtrace(static, "hello")
    assert f"{static}: is stripped, and nothing names its functions" in failed.stderr
    assert "--syscall '*'" in failed.stderr

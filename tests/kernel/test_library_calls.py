"""``--libcalls`` compared with what a program says of its calls: the program's own ones, not those
that libraries make of each other, wherever it calls them."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """\
#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static jmp_buf again;
static int reverse(const void *a, const void *b) { return -strcmp(a, b); }
__attribute__((noinline)) static void leave(void) { longjmp(again, 1); }
static void say(const char *format, ...)
{
    static char all[1 << 16];
    static int size;
    va_list values;
    va_start(values, format);
    if (format)
        size += vsprintf(all + size, format, values);
    else
        write(1, all, size);
    va_end(values);
}
int main(int argc, char **argv)
{
    char text[64], names[4][8] = {"b", "d", "a", "c"};
    struct stat status;
    say("setlocale %#zx\\n", (size_t)setlocale(LC_ALL, "C"));
    for (int i = 1; i < argc; i++) {
        say("strlen %zu\\n", strlen(argv[i]));
        say("snprintf %d\\n", snprintf(text, sizeof(text), "%s=%d", argv[i], i));
        char *copy = strdup(argv[i]);
        say("strdup %#zx\\n", (size_t)copy);
        free(copy);
        say("stat %d ", stat(argv[i], &status));
        say("%s\\n", errno == ENOENT ? "ENOENT" : "");
        qsort(names, 4, sizeof(*names), reverse);
        if (!setjmp(again))
            leave();
    }
    say(NULL);
    return 0;
}
"""

WAYS = {
    "a PLT": ["-fcf-protection=none"],
    "a PLT for shadow stacks": ["-fcf-protection=full", "-Wl,-z,ibtplt"],
    "fixed addresses": ["-no-pie", "-Wl,-z,now"],
    "no symbols": ["-s"],
    "no PLT": ["-fno-plt"],
}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=WAYS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, bool]:
    """A program, and whether it has stubs."""
    (tmp_path / "calls.c").write_text(PROGRAM)
    path = tmp_path / "calls"
    options = ["-O1", "-fno-builtin", "-w", *WAYS[request.param]]
    subprocess.run(["gcc", *options, tmp_path / "calls.c", "-o", path], check=True)
    return path, request.param != "no PLT"


def _returned(result: object) -> str:
    """What a function returned, without what it has filled."""
    return str(result["returned"] if isinstance(result, dict) else result)


def test_results_and_counts(lbtrace: Run, program: tuple[Path, bool], tmp_path: Path) -> None:
    path, has_stubs = program
    words = ["".join(random.choices("ab", k=random.randrange(2, 40))) for _ in range(100)]
    output = tmp_path / "calls.jsonl"
    done = lbtrace("attach", "--libcalls", "-o", output, "--", path, *words)
    said = [line.split() for line in done.stdout.splitlines()]
    records = map(json.loads, output.read_text().splitlines())
    calls = [record for record in records if record["type"] == "call"]
    results = {name: [s[1] for s in said if s[0] == name] for name, *_ in said}
    shown = {
        name: [_returned(call["result"]) for call in calls if call["name"] == name]
        for name in results
    }
    del results["setlocale"], results["strdup"], results["stat"]  # not numbers
    shown = {name: values for name, values in shown.items() if name in results}
    failed = [call["result"] for call in calls if call["name"] == "stat"]
    assert failed == [{"returned": -1, "errno": "ENOENT"}] * len(words)
    assert [s[1:] for s in said if s[0] == "stat"] == [["-1", "ENOENT"]] * len(words)
    assert shown == results
    made = Counter(call["name"] for call in calls)
    assert made["strcmp"] >= 3 * len(words)
    assert made["free"] == made["qsort"] == made["longjmp"] == len(words)

    table = tmp_path / "count.json"
    lbtrace("count", "--libcalls", "-o", table, "--", path, *words)
    rows = json.loads(table.read_text())["count"]
    assert {row["name"]: row["count"] for row in rows} == made
    assert {row["binary"] == str(path) for row in rows} == {has_stubs}


def test_what_jumps_to_a_stub(lbtrace: Run, tmp_path: Path) -> None:
    """Such a call returns to a place that is found while the trace runs."""
    (tmp_path / "jumps.c").write_text("""\
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) static int wrapped(const char *text) { return atoi(text); }
static int seconds;
int main()
{
    for (time_t end = time(0) + 6; time(0) < end;)
        for (int i = 0; i < 1000; i++)
            seconds += wrapped("12");
    return !seconds;
}
""")
    path = tmp_path / "jumps"
    options = ["-O2", "-fno-builtin", "-fno-inline", "-s"]
    subprocess.run(["gcc", *options, tmp_path / "jumps.c", "-o", path], check=True)
    done = lbtrace("latency", "--libcalls", "--", path)
    counted = re.search(r"^ *(\d+) .* (?:atoi|strtol)$", done.stdout, re.MULTILINE)
    left = re.search(r"([\d,]+) tail calls", done.stderr)
    assert counted is not None
    assert left is not None
    assert int(counted[1]) > int(left[1].replace(",", ""))

"""System calls that execute programs, which leave nothing of the memory of those that make them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *none, *here, *words[4];

static void *work(void *unused)
{
	words[1] = strdup("thread");
	execv(here, words);
	return NULL;
}

int main(int count, char **values)
{
	pthread_t thread;
	pid_t child;

	if (count > 1)
		return 0;
	/* in pages that are there, whatever the process */
	none = strdup("/nonexistent");
	here = strdup(values[0]);
	words[0] = strdup("program");
	words[1] = strdup("forked");
	if (!fork()) {
		execv(none, words);
		execv(here, words);
	}
	wait(NULL);
	words[1] = strdup("spawned");
	posix_spawn(&child, here, NULL, NULL, words, environ);
	wait(NULL);
	if (!fork()) {
		pthread_create(&thread, NULL, work, NULL);
		pthread_join(thread, NULL);
	}
	wait(NULL);
	words[1] = strdup("at");
	if (!fork())
		syscall(SYS_execveat, AT_FDCWD, here, words, environ, 0);
	wait(NULL);
	words[1] = strdup("last");
	execv(here, words);
	return 1;
}
"""

FLAGS = {"pie": ["-pie"], "static": ["-no-pie", "-static"]}

FAILED = ("/nonexistent", "forked", "-ENOENT")
DONE = tuple(("{program}", word, 0) for word in ("forked", "spawned", "thread", "at", "last"))


@pytest.mark.parametrize("how", ["pie", "static"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), (FAILED, *DONE)),
        # The number of the thread is another one when the call ends.
        (("--where", "retval == 0"), tuple(each for each in DONE if each[1] != "thread")),
        (("--errors",), (FAILED,)),
    ],
    ids=["all", "succeeded", "failed"],
)
def test_executed_programs(
    lbtrace: Callable[..., Any],
    compiled: Callable[[str, list[str], str], Path],
    tmp_path: Path,
    how: str,
    options: tuple[str, ...],
    expected: tuple[tuple[str, str, Any], ...],
) -> None:
    flags, into = FLAGS[how], tmp_path / "run.jsonl"
    program = compiled(f"executing_{how}", ["gcc", "-g", "-pthread", *flags], PROGRAM)
    traced = ("--syscall", "execve*", "--strings", "200", "-o", into)
    done = lbtrace("attach", *traced, *options, "--", program)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in into.read_text().splitlines()]
    calls = sorted((row for row in rows if row["type"] == "call"), key=lambda row: row["start"])
    found = []
    for call in calls:
        passed = {each["name"]: each["value"] for each in call["args"]}
        path, words = passed["filename"], passed["argv"]
        if words[0] == "program":
            found.append((path.replace(str(program), "{program}"), words[1], call["result"]))
    assert found == [*expected]
    if len(expected) < len(DONE):
        assert "1 that did not return" in done.stderr or "--errors" in options


def test_counted(
    lbtrace: Callable[..., Any], compiled: Callable[[str, list[str], str], Path]
) -> None:
    program = compiled("executing_pie", ["gcc", "-g", "-pthread", *FLAGS["pie"]], PROGRAM)
    done = lbtrace("count", "--syscall", "execve*", "--by", "retval", "--", program)
    counts = dict(reversed(line.split()) for line in done.stdout.splitlines()[1:])
    assert counts == {"0": "5", "-ENOENT": "1"}  # lbtrace's own is the first of them


def test_read_again(lbtrace: Callable[..., Any], tmp_path: Path) -> None:
    """What a call that fails was passed is there when it ends."""
    (tmp_path / "p.c").write_text(
        "#include <sys/wait.h>\n#include <unistd.h>\n"
        "int main(void) {\n"
        "\tif (!fork()) /* which copies no pages of files */\n"
        '\t\texecl("/no", "no", NULL);\n'
        "\treturn wait(NULL) < 0;\n}\n"
    )
    subprocess.run(["gcc", tmp_path / "p.c", "-o", tmp_path / "p"], check=True)
    done = lbtrace("attach", "--syscall", "execve", "--", tmp_path / "p")
    assert "filename=<fault>" in done.stdout
    assert '= -ENOENT, filename="/no"' in done.stdout

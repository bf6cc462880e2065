"""What a call leaves behind its pointers, of programs that log it: `after`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SOURCE = """
#include <stdio.h>
#include <string.h>
struct box { int n; char text[16]; };
__attribute__((noinline)) int fill(const char *s, int *out, struct box *box)
{
    *out = (int)strlen(s);
    box->n = *out * 2;
    strcpy(box->text, s);
    return *out > 3;
}
__attribute__((noinline)) long put(int n, char *buf)
{
    memcpy(buf, "payload-data", 13);
    return n;
}
__attribute__((noinline)) long pass(char *buf, int n) { return put(n, buf); }
__attribute__((noinline)) int four(int *a, int *b, int *c, int *d)
{
    *a = 1, *b = 2, *c = 3, *d = 4;
    __asm__ volatile("" ::: "memory");
    return 0;
}
int main(void)
{
    int a, b, c, d;
    four(&a, &b, &c, &d);
    int out = -1;
    struct box box = {0};
    char buf[32] = "";
    fill("abc", &out, &box);
    fill("defgh", &out, &box);
    pass(buf, 7);
    return 0;
}
"""


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("after")
    (folder / "fills.c").write_text(SOURCE)
    command = ["gcc", "-g", request.param, "-o", "fills", "fills.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "fills"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--func=fill", "--arg=x=*after(out)"), [{"x": 3}, {"x": 5}]),
        (("--func=fill", "--arg=x=after(box)->n"), [{"x": 6}, {"x": 10}]),
        (("--func=fill", "--arg=x=str(after(box)->text)"), [{"x": "abc"}, {"x": "defgh"}]),
        (("--func=fill", "--where=*after(out) > 3", "--arg=x=*after(out)"), [{"x": 5}]),
        (("--func=put", "--arg=x=str(after(buf), retval)"), [{"x": "payload"}]),
        (
            ("--func=pass", "--arg=x=str(after(buf))", "--arg=retval"),
            [{"x": "payload-data", "retval": 7}],
        ),
        (
            ("--func=fill", "--arg=n=*after(out)", "--arg=t=str(after(box)->text)", "--arg=retval"),
            [{"n": 3, "t": "abc", "retval": 0}, {"n": 5, "t": "defgh", "retval": 1}],
        ),
        (
            ("--func=four", "--arg=c=*after(c)", "--arg=a=*after(a)", "--arg=b=*after(b)"),
            [{"c": 3, "a": 1, "b": 2}],
        ),
    ],
    ids=str,
)
def test_left_behind(lbtrace: Run, program: Path, words: Any, expected: Any) -> None:
    done = lbtrace("attach", *words, "--format=jsonl", "--", program)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines() if line[0] == "{"]
    results = [record["result"] for record in records if record.get("result")]
    assert results == expected


def test_too_many_arguments(lbtrace: Run, program: Path) -> None:
    every = (f"--arg=*after({name})" for name in ("a", "b", "c", "d"))
    done = lbtrace("attach", "--func=four", *every, "--", program)
    assert done.returncode != 0
    assert "a call keeps 3 values to its return" in done.stderr


def test_no_room_for_the_process(lbtrace: Run, program: Path) -> None:
    """Several arguments take the place of pid and tid where the kernel program returns."""
    words = ("--arg=*after(a)", "--arg=*after(b)", "--where=pid == 1 or *after(a) == 1")
    done = lbtrace("attach", "--func=four", *words, "--", program)
    assert done.returncode != 0
    assert "pid or tid is joined to the result with or" in done.stderr

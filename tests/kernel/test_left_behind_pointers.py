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
int main(void)
{
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
    ],
    ids=str,
)
def test_left_behind(lbtrace: Run, program: Path, words: Any, expected: Any) -> None:
    done = lbtrace("attach", *words, "--format=jsonl", "--", program)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines() if line[0] == "{"]
    results = [record["result"] for record in records if record.get("result")]
    assert results == expected


def test_one_argument_is_kept(lbtrace: Run, program: Path) -> None:
    both = ("--arg=*after(out)", "--arg=after(box)->n")
    done = lbtrace("attach", "--func=fill", *both, "--", program)
    assert done.returncode != 0
    assert "a call keeps one to its return" in done.stderr

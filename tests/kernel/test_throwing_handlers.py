"""A handler of signals that throws through the function that it interrupts, which calls nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SOURCE = """
#include <csignal>
#include <cstdio>
#include <stdexcept>
static void handle(int) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    throw std::runtime_error("no number");
}
__attribute__((noinline)) int leaf(int *number) { return *number + 1; }
__attribute__((noinline)) int use(int *number) {
    try { return leaf(number); } catch (std::exception &) { return -7; }
}
int main() {
    std::signal(SIGSEGV, handle);
    int number = 3, sum = 0;
    for (int n = 0; n < 4; n++) sum += use(n % 2 ? &number : nullptr);
    std::printf("%d\\n", sum);
}
"""


@pytest.mark.parametrize("flags", [[], ["-static"]])
@pytest.mark.parametrize("returns", ["auto", "uretprobe", "sites", "none"])
def test_handlers_that_throw(lbtrace: Run, tmp_path: Path, returns: str, flags: list[str]) -> None:
    (tmp_path / "program.cc").write_text(SOURCE)
    program = tmp_path / "program"
    words = ["g++", "-O1", "-fnon-call-exceptions", *flags, tmp_path / "program.cc", "-o", program]
    subprocess.run(words, check=True)
    done = lbtrace(
        *("attach", "--binary", program, "--func", "leaf", "--func", "use", "--quiet"),
        *("--returns", returns, "-o", tmp_path / "out.jsonl", "--force", "--", program),
    )
    assert (done.returncode, done.stdout) == (0, "-6\n"), done.stderr

"""The values of system calls whose memory changes meanwhile, against what the program does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char *map(int fd)  /* its page is in memory, but not in the process */
{
	char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	madvise(at, 4096, MADV_RANDOM);
	return at;
}

int main(void)
{
	struct sockaddr_un nobody = {AF_UNIX, "/nobody/listens"};
	int fd = open("page", O_RDWR | O_CREAT | O_TRUNC, 0600), pair[2], type = 0x41414141;
	int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	socklen_t size = sizeof(type), linger = sizeof(struct linger);
	char page[4096] = "/etc/passwd", sent[100], got[100];
	struct linger lasting = {0};

	write(fd, page, sizeof(page));
	for (int n = 0; n < 5; n++) {
		char *absent = map(fd);

		close(open(absent, O_RDONLY));
		close(open(absent, O_RDONLY));  /* now the page is there */
		munmap(absent, 4096);
		absent = map(fd);
		write(out, absent, 11);
		munmap(absent, 4096);
	}
	open("/nothing", O_RDONLY);
	socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
	memset(sent, 'A', sizeof(sent));
	memset(got, 'S', sizeof(got));
	sendto(pair[0], sent, 100, 0, NULL, 0);
	recv(pair[1], got, 10, MSG_TRUNC);
	sendto(pair[0], sent, 100, 0, NULL, 0);
	recv(pair[1], got, 0, MSG_TRUNC);
	pread(fd, got, 4, 1);
	pread(fd, got, 4, 5);
	pread(fd, got, 4, 4096);
	getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &type, &size);
	getsockopt(pair[0], SOL_SOCKET, SO_LINGER, &lasting, &linger);
	getsockopt(99, SOL_SOCKET, SO_TYPE, &type, &size);
	connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&nobody, sizeof(nobody));
	return 0;
}
"""

OWN = (["/etc/passwd", "O_RDONLY"], 10)
"""Texts that the program opens, and how often; of half of them no page was there."""


@pytest.fixture(scope="module")
def built(tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("built")
    (where / "program.c").write_text(PROGRAM)
    command = [tool("gcc"), "-O1", "-w", "program.c", "-o", "program"]
    subprocess.run(command, cwd=where, check=True)
    return where / "program"


Traced = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def traced(lbtrace: Callable[..., Any], built: Path, tmp_path: Path) -> Traced:
    """Traces the program with options, and returns its calls."""

    def trace(*options: str) -> list[dict[str, Any]]:
        into = tmp_path / "calls.jsonl"
        lbtrace("attach", *options, "-o", into, "--force", "--", built, cwd=tmp_path)
        rows = map(json.loads, into.read_text().splitlines())
        return [row for row in rows if row["type"] == "call"]

    return trace


@pytest.fixture
def recorded(lbtrace: Callable[..., Any], built: Path, tmp_path: Path) -> Callable[..., int]:
    """Records system calls of the program; how many of them hold a condition, and how many could
    not be compared."""

    def record(names: str) -> Callable[[str], tuple[int, int]]:
        capture = tmp_path / "run.lbt"
        lbtrace("attach", "--syscall", names, "-o", capture, "--force", "--", built, cwd=tmp_path)

        def count(where: str) -> tuple[int, int]:
            said = lbtrace("export", capture, "--where", where).stderr
            left = re.search(r"left out: (\d+)", said)
            shown = re.search(r"shown, as the options choose: (\d+)", said)
            assert shown, said
            return int(shown[1]), int(left[1]) if left else 0

        return count

    return record


def test_conditions_on_captures(recorded: Callable[..., Any]) -> None:
    holds = recorded("openat")
    assert holds('filename == "/etc/passwd"') == (10, 0)
    assert holds('filename startswith "/nothing"') == (1, 0)
    assert holds("retval == -2") == holds("retval < 0") == (1, 0)
    assert holds("flags & O_CREAT") == (2, 0)
    assert holds("flags == 578") == (1, 0)
    assert holds('flags == O_RDONLY and filename == "/etc/passwd"') == (10, 0)
    assert holds('flags < O_CREAT and filename == "/etc/passwd"') == (10, 0)
    holds = recorded("pread64,write")
    assert holds("retval == 4096") == (1, 0)
    assert holds("retval > 0 and retval < 5") == (2, 0)
    assert holds('buf == "etc/"') == holds('str(buf, 3) == "etc" and pos == 1') == (1, 0)
    assert holds('str(buf, 11) == "/etc/passwd" and retval == 11') == (5, 0)

"""The values of system calls whose memory changes meanwhile, against what the program does."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from socket import SOCK_DGRAM
from typing import Any

import pytest


@pytest.fixture
def built(programs: Path) -> Path:
    """The program."""
    return programs / "absent"


Traced = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def traced(lbtrace: Callable[..., Any], built: Path, tmp_path: Path) -> Traced:
    """Traces the program with options, and returns its calls."""

    def trace(*options: str) -> list[dict[str, Any]]:
        into = tmp_path / "calls.jsonl"
        done = lbtrace("attach", *options, "-o", into, "--force", "--", built, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rows = map(json.loads, into.read_text().splitlines())
        return [row for row in rows if row["type"] == "call"]

    return trace


@pytest.fixture
def recorded(lbtrace: Callable[..., Any], built: Path, tmp_path: Path) -> Callable[..., Any]:
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


def values(call: dict[str, Any]) -> dict[str, Any]:
    """What is known of a call in the end, by name."""
    known = {each["name"]: each["value"] for each in call["args"]}
    result = call["result"]
    return known | (result if isinstance(result, dict) else {"returned": result})


def test_arguments_that_are_asked_for(traced: Traced) -> None:
    """Each call returns, though the page of its text was not there when it began."""
    opened = traced("--syscall", "openat", "--arg", "filename", "--arg", "flags")
    assert {call["end"] for call in opened} == {"returned"}
    seen = [(known["filename"], known["flags"]) for known in map(values, opened)]
    assert seen.count(("/etc/passwd", "O_RDONLY")) == 10
    written = traced("--syscall", "write", "--arg", "text=buf", "--where", "count == 11")
    assert [values(call) for call in written] == [{"text": "/etc/passwd", "returned": 11}] * 5
    written = traced("--syscall", "write", "--arg", "str(buf, 4)", "--where", "count == 11")
    assert [values(call) for call in written] == [{"str(buf, 4)": "/etc", "returned": 11}] * 5
    (created, *_) = traced("--syscall", "openat", "--arg", "mode", "--where", "flags & O_CREAT")
    assert values(created) == {"mode": 0o600, "returned": 3}


def test_what_calls_fill(traced: Traced) -> None:
    """What is there when they end is shown, and nothing beyond the buffer."""
    for options in ((), ("--arg", "ubuf", "--arg", "size")):
        received = [values(call) for call in traced("--syscall", "recvfrom", *options)]
        assert [(each["size"], each["returned"]) for each in received] == [(10, 100), (0, 100)]
        assert received[0]["ubuf"] == "A" * 10
        assert received[1]["ubuf"].startswith("0x")
    own = ("--where", "count == 4")
    for asked, name in (
        ("buf", "buf"),
        ("b=buf", "buf"),
        ("str(after(buf), retval)", "str(after(buf), retval)"),
        ("str(buf, retval)", "str(buf, retval)"),
        ("str(after(buf), 4)", "str(after(buf), 4)"),
    ):
        read = [values(call) for call in traced("--syscall", "pread64", "--arg", asked, *own)]
        assert [each[name] for each in read[:2]] == ["etc/", "pass"], asked
        assert [each["returned"] for each in read] == [4, 4, 0]


def test_addresses_of_sockets(traced: Traced) -> None:
    assert [values(call)["addr"] for call in traced("--syscall", "sendto")] == ["0x0"] * 2
    for options in ((), ("--arg", "uservaddr")):
        (connected,) = traced("--syscall", "connect", *options)
        assert values(connected)["uservaddr"] == "unix:/nobody/listens"


def test_options_of_sockets(traced: Traced) -> None:
    """They are shown as they are where the call has succeeded."""
    first, second, failed = (values(call)["optval"] for call in traced("--syscall", "getsockopt"))
    assert (first, second) == (SOCK_DGRAM, {"l_onoff": 0, "l_linger": 0})
    assert failed.startswith("0x")


@pytest.mark.parametrize(
    ("name", "where", "count"),
    [
        ("openat", 'filename == "/etc/passwd"', 10),
        ("openat", 'str(filename) startswith "/etc/pass"', 10),
        ("openat", 'filename == "/nothing" or flags & O_TRUNC', 3),
        ("write", 'buf == "/etc/passwd"', 5),
        ("write", 'str(buf, count) == "/etc/passwd"', 5),
        ("write", 'buf startswith "/etc/passwd" and count == 4096', 1),
        ("pread64", 'buf == "etc/"', 1),
        ("pread64", 'str(buf, 2) == "pa" and retval == 4', 1),
        ("pread64", 'str(after(buf), retval) == "pass"', 1),
        ("recvfrom", f'ubuf == "{"A" * 10}"', 1),
        ("connect", "uservaddr != NULL", 1),
        ("connect", 'uservaddr startswith "unix:/nobody"', 1),
        ("connect", 'uservaddr == "unix:/nobody/listens"', 1),
        ("connect", 'uservaddr != "127.0.0.1:80"', 1),
        ("connect", 'uservaddr == "127.0.0.1:80"', 0),
    ],
)
def test_conditions(traced: Traced, name: str, where: str, count: int) -> None:
    """They are on what is there when the call ends."""
    assert len(traced("--syscall", name, "--where", where)) == count


def test_what_is_not_compared(lbtrace: Callable[..., Any], built: Path, tmp_path: Path) -> None:
    where = ("--where", 'uservaddr startswith "127."')
    done = lbtrace("attach", "--syscall", "connect", *where, "--", built, cwd=tmp_path)
    assert done.returncode == 2
    assert "lbtrace export run.lbt --where" in done.stderr


def counted(text: str) -> dict[str, int]:
    rows = (line.split(None, 1) for line in text.splitlines() if line[:1] == " ")
    return {key: int(count) for count, key in filter(lambda row: len(row) == 2, rows)}


def test_keys(lbtrace: Callable[..., Any], built: Path, tmp_path: Path) -> None:
    def by(name: str, key: str, where: str = "") -> dict[str, int]:
        options = ("--syscall", name, "--by", key, *(("--where", where) if where else ()))
        return counted(lbtrace("count", *options, "--", built, cwd=tmp_path).stdout)

    assert by("openat", "filename")["/etc/passwd"] == 10
    assert by("write", "buf")["/etc/passwd"] == 5
    read = by("pread64", "buf")
    assert read["etc/"] == read["pass"] == 1
    assert by("pread64", "buf", 'str(after(buf), retval) == "pass"') == {"pass": 1}
    assert by("openat", "filename", 'filename == "/etc/passwd"') == {"/etc/passwd": 10}
    assert by("recvfrom", "ubuf") == {"A" * 10: 1}
    assert by("connect", "uservaddr") == {"unix:/nobody/listens": 1}
    capture = tmp_path / "run.lbt"
    lbtrace("attach", "--syscall", "openat", "-o", capture, "--", built, cwd=tmp_path)
    done = lbtrace("report", capture, "--by", "arg:filename", "--format", "json")
    rows = {row["key"]: row["calls"] for row in json.loads(done.stdout)["rows"]}
    assert rows["/etc/passwd" if "/etc/passwd" in rows else '"/etc/passwd"'] == 10
    assert not any("fault" in key for key in rows)


OPTIONS = """\
from socket import *
one = socket()
for level, name in ((SOL_SOCKET, SO_REUSEADDR), (SOL_TCP, TCP_NODELAY), (SOL_IP, IP_TTL)):
    one.setsockopt(level, name, 1)
"""


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("optname == SO_REUSEADDR", {"SO_REUSEADDR": 1}),
        ("optname != SO_REUSEADDR and retval == 0", {"TCP_NODELAY": 1, "IP_TTL": 1}),
        ("optname in (TCP_NODELAY, TCP_MAXSEG)", {"TCP_NODELAY": 1}),
        ("optname == 2", {"SO_REUSEADDR": 1, "IP_TTL": 1}),
        ("optname >= 1", {"SO_REUSEADDR": 1, "TCP_NODELAY": 1, "IP_TTL": 1}),
    ],
)
def test_names_that_another_argument_decides_about(
    lbtrace: Callable[..., Any], where: str, count: dict[str, int]
) -> None:
    """They are names in keys and conditions, too."""
    options = ("--syscall", "setsockopt", "--by", "optname", "--where", where)
    done = lbtrace("count", *options, "--", sys.executable, "-S", "-c", OPTIONS)
    assert counted(done.stdout) == count


CONNECTS = """\
from socket import AF_INET6, socket
for address in (("::1", 81), ("::1", 82), ("fe80::1", 81, 5, 1), ("fe80::1", 81, 0, 0)):
    socket(AF_INET6).connect_ex(address)
"""


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ('== "[::1]:81"', ["[::1]:81"]),
        ('== "[fe80::1%1]:81"', ["[fe80::1%1]:81"]),
        ('!= "[fe80::1]:81"', ["[::1]:81", "[::1]:82", "[fe80::1%1]:81"]),
    ],
)
def test_addresses_of_ipv6(lbtrace: Callable[..., Any], where: str, keys: list[str]) -> None:
    options = ("--by", "uservaddr", "--where", f"uservaddr {where}")
    command = ("--", sys.executable, "-S", "-c", CONNECTS)
    done = lbtrace("count", "--syscall", "connect", *options, *command)
    assert counted(done.stdout) == dict.fromkeys(keys, 1)


def test_nothing_counted(lbtrace: Callable[..., Any]) -> None:
    done = lbtrace("count", "--syscall", "getppid", "--by", "retval", "--", "true")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr
    assert done.stderr == "lbtrace: 0 calls counted, nothing lost\n"

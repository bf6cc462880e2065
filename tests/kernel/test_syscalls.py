"""System calls, against strace on the same programs, and against what a program does itself."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

PROGRAM = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void on_signal(int number) { write(1, "signal\n", 7); }

__attribute__((noinline)) int save(const char *text)
{
	int fd = open("saved", O_CREAT | O_WRONLY | O_TRUNC, 0640);

	write(fd, text, strlen(text));
	close(fd);
	return fd;
}

static void *work(void *text)
{
	save(text);
	return NULL;
}

static void name_structures(int sock, int udp)
{
	int pair[2], watch = epoll_create1(0), size = sizeof(int), found;
	char first[4], second[8];
	struct iovec parts[] = {{"one", 3}, {"", 0}, {"three", 5}, {"four", 4}};
	struct iovec room[] = {{first, 4}, {second, 8}};
	struct sockaddr_in nobody = {AF_INET, htons(9), {htonl(INADDR_LOOPBACK)}};
	struct msghdr message = {&nobody, sizeof(nobody), parts, 3};
	struct msghdr received = {.msg_iov = room, .msg_iovlen = 2};
	struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = 7}};
	struct linger linger = {1, 5};
	struct timeval wait = {2, 500000};
	struct timespec soon = {0, 1000};
	struct utsname names;
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NODEFER};
	sigset_t some, others;
	cpu_set_t processors;
	fd_set set;

	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	sigaddset(&some, SIGWINCH);
	sigfillset(&others);
	sigdelset(&others, SIGINT);
	action.sa_mask = some;
	sigaction(SIGUSR2, &action, NULL);
	sigaction(SIGUSR2, NULL, &action);
	sigprocmask(SIG_BLOCK, &others, NULL);
	sigprocmask(SIG_SETMASK, &some, &others);
	setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &found, 2);
	setsockopt(sock, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	getsockopt(sock, SOL_SOCKET, SO_TYPE, &found, &size);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	epoll_ctl(watch, EPOLL_CTL_ADD, pair[0], &event);
	writev(pair[1], parts, 4);
	epoll_wait(watch, &event, 1, 0);
	poll(&(struct pollfd){pair[0], POLLIN | POLLPRI}, 1, 0);
	ioctl(pair[0], FIONREAD, &found);
	FD_ZERO(&set);
	FD_SET(pair[0], &set);
	pselect(pair[0] + 1, &set, NULL, NULL, &soon, NULL);
	readv(pair[0], room, 2);
	sendmsg(udp, &message, 0);
	writev(pair[1], (struct iovec[]){{"abcdef", 6}}, 1);
	recvmsg(pair[0], &received, MSG_DONTWAIT);
	sched_getaffinity(0, sizeof(processors), &processors);
	prctl(PR_SET_NAME, "renamed");
	uname(&names);
}

static void name_constants(int sock)
{
	int one = 1, udp = socket(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
	int memory = memfd_create("memory", MFD_ALLOW_SEALING);
	struct flock lock = {F_WRLCK};

	setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(udp, SOL_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	fcntl(sock, F_SETFD, FD_CLOEXEC);
	fcntl(sock, F_SETFD, 0);
	fcntl(sock, F_GETFL, &one);
	fcntl(sock, F_SETFL, O_RDWR | O_APPEND);
	fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	fcntl(memory, F_SETLK, &lock);
	ioctl(udp, FIONBIO, &one);
	name_structures(sock, udp);
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_GET_DUMPABLE, 7);
	prctl(PR_CAPBSET_READ, 21);
	prctl(PR_SET_TIMERSLACK, 70000);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setxattr("missing", "user.key", "text", 4, XATTR_CREATE);
	close_range(3000, 4000, CLOSE_RANGE_CLOEXEC);
	chown(".", -1, getgid());
	mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int main(int count, char **words)
{
	struct sockaddr_in nobody = {AF_INET, htons(9), {htonl(INADDR_LOOPBACK)}};
	int pair[2], sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[20];
	pthread_t thread;

	chdir(words[1]);
	connect(sock, (struct sockaddr *)&nobody, sizeof(nobody));
	socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
	send(pair[0], "one\0two", 7, MSG_DONTWAIT);
	recv(pair[1], text, sizeof(text), 0);
	for (int n = 0; n < 3; n++) {
		pthread_create(&thread, NULL, work, "thread");
		pthread_join(thread, NULL);
	}
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	if (!fork()) {
		save("child");
		execlp("cat", "cat", "saved", NULL);
	}
	wait(NULL);
	name_constants(sock);
	lseek(99, 0, SEEK_END);
	syscall(999, 1, 2, 3);
	syscall(5000, 4);
	return save("end") < 0;
}
"""

MANY = """
mkdir work && cd work && cp /etc/passwd a && ln -s a b && mv a c && touch -d 2020-01-01 c
chmod 600 c && head -n 3 c && tail -n 3 c && wc c && sort c && uniq c && cut -d: -f1 c && nl c
tr a-z A-Z < c && tac c && sed s/root/x/ c && awk -F: '{ print $3 }' c && od c && md5sum c
dd if=c of=d bs=64 count=2 status=none && tee e < d && find . -type f && stat -c %s c && du -a
readlink b && realpath b && xargs echo < d && gzip -nc d > h && zcat h && ls / && cat c
tar -cf i --mtime @0 c d && tar tf i && install -m 644 d g && split -n 2 c && truncate -s 9 d
base64 c && id && getent passwd root && uname -a && bash -c 'echo "$PWD"'
cd .. && rm -r work
"""
"""What runs some 40 programs, one after the other."""

RUNS = {
    "python": ["/usr/bin/python3", "-S", "-c", "print(open('/etc/hostname').read())"],
    "program": [],
    "tools": ["sh", "-c", MANY],
    "sqlite": ["sqlite3", ":memory:", "select count(*) from (select 1)"],
}
"""Programs that do the same in each run, in the same environment."""

ALONE = ["PATH=/usr/bin:/bin", "MALLOC_ARENA_MAX=1"]


@pytest.fixture
def here(tool: Callable[[str], str], tmp_path: Path) -> Path:
    """A directory with the program, in which all runs."""
    (tmp_path / "program.c").write_text(PROGRAM)
    command = [tool("gcc"), "-g", "-O1", "-pthread", "-w", "program.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path


def program(here: Path) -> list[str]:
    """How the program is started."""
    return [str(here / "program"), str(here)]


SILENT: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)

VARYING = {"futex", "sysinfo", "restart_syscall", "getrandom", "tgkill", "rt_sigreturn"}
"""Calls that chance decides about."""

UNLIKE = re.compile("rlim_|stx?_mode|f_b?(free|avail)")
"""Members that strace computes, or that vary."""

LINE = re.compile(r"(\w+)\((.*)\) += (-?\w+|\?)(?: (E[A-Z0-9]+))?.*")
RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
NAMES = re.compile(r"[A-Z_][A-Z0-9_]*(\|[A-Z0-9_x]+)*")


class Seen:
    """A call: its thread, its name, its arguments, what it returned."""

    def __init__(self, pid: Any, name: str, arguments: Sequence[Any], result: Any) -> None:
        self.pid, self.name, self.arguments, self.result = pid, name, arguments, result


def by_strace(tool: Callable[[str], str], words: Sequence[str], log: Path) -> list[Seen]:
    """The calls that strace sees."""
    command = [tool("strace"), "-f", "-q", "-s", "4000", "-o", log, *words]
    subprocess.run(command, **SILENT, check=False)
    return [*read_strace(log.read_text(errors="surrogateescape"))]


def read_strace(text: str) -> Iterator[Seen]:
    unfinished: dict[str, str] = {}
    for line in text.splitlines():
        pid, _, call = line.partition(" ")
        if line.endswith("<unfinished ...>"):
            unfinished[pid] = call.removesuffix("<unfinished ...>").strip()
            continue
        if resumed := RESUMED.fullmatch(call.strip()):
            call = unfinished.pop(pid) + resumed[1]
        call = re.sub(r"^syscall_(0x\w+)\(", r"syscall(\1, ", call.strip())
        if found := LINE.fullmatch(call):
            result = f"-{found[4]}" if found[4] else found[3]
            yield Seen(pid, found[1], split(found[2]), result)


def split(arguments: str) -> list[str]:
    """The arguments, at the commas outside of what is in brackets or quotation marks."""
    found, depth, quoted, skip = [""], 0, False, False
    for char in arguments:
        if char == '"' and not skip:
            quoted = not quoted
        skip = char == "\\" and not skip
        depth += (char in "[{(") - (char in "]})") if not quoted else 0
        if char == "," and not depth and not quoted:
            found.append("")
        else:
            found[-1] += char
    return [each.strip() for each in found]


def by_lbtrace(lbtrace: Callable[..., Any], words: Sequence[str], into: Path) -> list[Seen]:
    """The calls that lbtrace sees."""
    options = ["--syscall", "*", "--strings", "4000", "--ring-size", "64M", "-o", into]
    lbtrace("attach", *options, "--", *words, capture_output=False, **SILENT)
    rows = [json.loads(line) for line in into.read_text().splitlines()]
    lost = next(row["lost"] for row in rows if row["type"] == "summary")
    assert not any(count for cause, count in lost.items() if cause != "string_fault")
    calls = sorted((row for row in rows if row["type"] == "call"), key=lambda row: row["start"])
    return [read_call(call) for call in calls]


def read_call(call: dict[str, Any]) -> Seen:
    """A call as JSON has it, where what the kernel has filled takes the place of its address."""
    result = call["result"]
    filled = result if isinstance(result, dict) else {}
    values = [filled.get(each["name"], each["value"]) for each in call["args"]]
    return Seen(call["tid"], call["name"], values, filled.get("returned", result))


def differences(mine: Seen, theirs: Seen) -> Iterator[str]:
    """What strace has of a call in other words: numbers, names of constants, texts, errors."""
    for number, (one, other) in enumerate(zip(mine.arguments, theirs.arguments, strict=False)):
        if one is not None and not is_same(one, other):
            yield f"{mine.name} {number}: {one}, {other}"
    if str(mine.result).startswith("-E") and mine.result != theirs.result:
        yield f"{mine.name} returns {mine.result}, {theirs.result}"


def is_same(one: Any, other: str) -> bool:
    """Whether an argument is what strace shows, as far as that is no address in memory."""
    if re.fullmatch(r"0x[0-9a-f]{1,4}", other) and re.fullmatch(r"0x[0-9a-f]+", str(one)):
        return bool(one == other)
    if other[:1] in ("{", "[", "~"):
        return is_same_structure(one, other)
    if other.startswith('"') and isinstance(one, str) and not one.startswith("0x"):
        text = other.removesuffix("...")[1:-1].encode().decode("unicode_escape")
        return text.encode("latin-1") == one.encode("utf-8", "surrogateescape")
    if re.fullmatch(r"-?\d+", other) and isinstance(one, int):
        return int(other, 8 if other[0] == "0" else 10) == one
    if NAMES.fullmatch(other) and other != "NULL" and not str(one).startswith("0x"):
        other = re.sub(r"(FUTEX_\w+)_PRIVATE", r"\1|FUTEX_PRIVATE_FLAG", other)
        words = {*re.sub(r"(SO_\w+)_OLD", r"\1", other).split("|")}
        return {*str(one).split("|")} == words - {"AT_STATX_SYNC_AS_STAT"}
    return True


def is_same_structure(one: Any, other: str) -> bool:
    """The same of what strace shows in brackets, as far as both have it."""
    inside = other.strip("~")[1:-1]
    if isinstance(one, dict):
        parts = dict(part.split("=", 1) for part in split(inside) if "=" in part)
        shared = {key for key in one.keys() & parts.keys() if not UNLIKE.match(key)}
        if parts.get("st_mode", "").startswith("S_IFDIR"):  # others write in it meanwhile
            shared.discard("st_size")
        return all(is_same(one[key], parts[key]) for key in shared)
    if isinstance(one, list):
        found = split(inside) if re.search(r"\D", inside.replace(" ", "")) else inside.split()
        return len(one) <= len(found) and all(map(is_same, one, found))
    if re.match(r"~?\[", str(one)):
        words = [f"SIG{name.replace('RTMIN', 'RT_0')}" for name in inside.split()]
        return bool(one == f"{'~' * (other[0] == '~')}[{', '.join(words)}]")
    if buffer := re.fullmatch(r'iov_base=(".*"), iov_len=\d+', inside):
        return is_same(one, buffer[1])
    return not (isinstance(one, int) and inside.isdigit()) or one == int(inside)


def by_thread(seen: Sequence[Seen]) -> dict[str, list[Seen]]:
    """The calls by their name and the number of their thread, in the order in which these come."""
    pids = {pid: number for number, pid in enumerate(dict.fromkeys(each.pid for each in seen))}
    found: dict[str, list[Seen]] = {}
    for each in seen:
        if each.name not in VARYING:
            found.setdefault(f"{pids[each.pid]} {each.name}", []).append(each)
    return found


@pytest.mark.parametrize("name", RUNS)
def test_what_strace_sees(
    lbtrace: Callable[..., Any], tool: Callable[[str], str], here: Path, name: str
) -> None:
    words = ["env", "-i", "-C", str(here), *ALONE, *(RUNS[name] or program(here))]
    theirs = by_thread(by_strace(tool, words, here / "strace.log"))
    mine = by_thread(by_lbtrace(lbtrace, words, here / "calls.jsonl"))
    count = {call: len(seen) for call, seen in theirs.items()}
    assert {call: len(seen) for call, seen in mine.items()} == count
    pairs = [pair for call, seen in mine.items() for pair in zip(seen, theirs[call], strict=True)]
    assert not [each for pair in pairs for each in differences(*pair)]


def test_below_functions(lbtrace: Callable[..., Any], here: Path) -> None:
    """They are below the functions that make them, also in threads and in forked processes."""
    options = ["--func", "save", "--within", "save", "--syscall", "open*,write,close"]
    done = lbtrace("attach", *options, "--", *program(here))
    opened = 'filename="saved", flags=O_WRONLY|O_CREAT|O_TRUNC, mode=0640) = '
    for call in ("│ openat(dfd=AT_FDCWD, " + opened, "│ write(fd=", "│ close(fd=", "└ save = "):
        assert done.stdout.count(call) == 5, done.stdout
    done = lbtrace("attach", "--syscall", "openat", "--", "cat", "/etc/hostname")
    assert 'filename="/etc/hostname", flags=O_RDONLY) = ' in done.stdout


def test_what_another_argument_decides(lbtrace: Callable[..., Any], here: Path) -> None:
    """What a number means, and whether it counts at all, and whether it is an address."""
    done = lbtrace("attach", "--syscall", "prctl,fcntl,ioctl", "--", *program(here))
    for call in (
        "prctl(option=PR_GET_DUMPABLE) = 1",
        "prctl(option=PR_SET_TIMERSLACK, arg2=70000) = 0",
        "cmd=F_GETFL) = ",
        "cmd=F_SETFD, arg=0) = 0",
        "cmd=F_SETLK, arg={l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=0, … 1 more}) = 0",
        "cmd=FIONBIO, arg=1) = 0",
    ):
        assert call in done.stdout
    (renamed,) = re.findall(r"prctl\(option=PR_SET_NAME.*", done.stdout)
    assert renamed == 'prctl(option=PR_SET_NAME, arg2="renamed") = 0'
    where = ("--where", "arg == FD_CLOEXEC and cmd == F_SETFD")
    done = lbtrace("attach", "--syscall", "fcntl", *where, "--", *program(here))
    assert done.stdout.count("fcntl(") == done.stdout.count("cmd=F_SETFD, arg=FD_CLOEXEC") == 1


SHOWN = (
    "sa_flags=SA_RESTORER|SA_RESTART|SA_NODEFER, sa_mask=[SIGUSR2, SIGWINCH], … 1 more}",
    "set=~[SIGINT, SIGRT_0, SIGRT_1]",
    "set=[SIGUSR2, SIGWINCH], oset=0x",
    "oset=~[SIGINT, SIGKILL, SIGSTOP, SIGRT_0, SIGRT_1]",
    "optname=SO_LINGER, optval={l_onoff=1, l_linger=5}, optlen=8",
    "optname=SO_SNDTIMEO, optval={tv_sec=2, tv_usec=500000}",
    "optname=SO_KEEPALIVE, optval=<not read>, optlen=2) = -EINVAL",
    'optname=TCP_CONGESTION, optval="reno", optlen=4',
    "= 0, optval=1",
    "event={events=EPOLLIN|EPOLLET, data.u64=7}",
    "= 1, events=[{events=EPOLLIN, data.u64=7}]",
    'vec=["one", "", "three", … 1 more], vlen=4) = 12',
    "events=POLLIN|POLLPRI}], nfds=1, timeout=0) = 1, ufds=[{fd=",
    "revents=POLLIN}]",
    "= 0, arg=12",
    '= 12, vec=["onet", "hreefour"]',
    'msg={msg_name=127.0.0.1:9, msg_iov=["one", "", "three"], msg_controllen=0, … 1 more}',
    '= 6, msg={msg_name=0x0, msg_iov=["abcd", "ef"], msg_controllen=0, msg_flags=0}',
    '= 0, name={sysname="Linux", nodename="',
)
"""Of the calls of `name_structures`."""


def test_what_structures_hold(lbtrace: Callable[..., Any], here: Path) -> None:
    names = "rt_sig*,*sockopt,epoll*,writev,poll,ppoll,ioctl,readv,sendmsg,recvmsg,uname"
    done = lbtrace("attach", "--syscall", names, "--", *program(here))
    assert not [shown for shown in SHOWN if shown not in done.stdout], done.stdout


def test_choices(lbtrace: Callable[..., Any], here: Path) -> None:
    def seen(name: str, *options: str) -> list[tuple[Any, Any]]:
        command = ["attach", "--syscall", name, *options, "-o", here / "x.jsonl", "--force"]
        lbtrace(*command, "--", *program(here))
        rows = map(json.loads, (here / "x.jsonl").read_text().splitlines())
        calls = [row for row in rows if row["type"] == "call"]
        return [([each["value"] for each in row["args"]], row["result"]) for row in calls]

    assert seen("lseek", "--where", "retval == -EBADF") == [([99, 0, "SEEK_END"], "-EBADF")]
    assert seen("lse*,fcntl", "--syscall", "!fcn*") == [([99, 0, "SEEK_END"], "-EBADF")]
    texts = [(["thread"], 6)] * 3 + [(["child"], 5), (["end"], 3)]
    where = ["--where", "retval >= 3 and retval < 7 and fd > 2"]
    assert seen("write", "--arg", "str(buf, count)", *where) == texts
    assert seen("lseek") == [([99, 0, "SEEK_END"], "-EBADF")]
    assert seen("connect")[-1][0][1] == "127.0.0.1:9"
    # The page of the text is not there before the call reads it.
    ((_, *sent, _, _), returned) = seen("sendto")[-1]
    assert sent == [None, 7, "MSG_DONTWAIT"]
    assert returned == {"returned": 7, "buff": "one\0two"}
    received = {"returned": 7, "ubuf": "one\0two"}
    assert seen("recvfrom")[-1][1] == received
    assert [result for _, result in seen("recvfrom", "--where", "retval == 7")] == [received]


def test_list(lbtrace: Callable[..., Any]) -> None:
    done = lbtrace("list", "--syscall", "read", "--syscall", "close,!close")
    assert done.stdout.split(maxsplit=1)[1] == "long read(int fd, char *buf, size_t count)\n"
    assert lbtrace("list", "--syscall").stdout.count("\n") > 300


def test_without_an_end(lbtrace: Callable[..., Any]) -> None:
    """Also where more is printed before it would be."""
    script = "for n in 1 2 3 4; do (sleep 0.1) & done; wait"
    done = lbtrace("attach", "--syscall", "*", "--", "sh", "-c", script)
    assert done.stdout.count("  exit_group(error_code=0)") == 5
    assert "└ exit_group" not in done.stdout


def test_the_end_of_a_child_is_before_that_of_waiting(lbtrace: Callable[..., Any]) -> None:
    command = ("--", "sh", "-c", "sleep 0.01; sleep 0.01; true")
    shown = lbtrace("attach", "--syscall", "exit_group,wait4", *command).stdout
    ends = re.findall(r"exit_group(?=\()|wait4(?=.* = \d)", shown)
    assert ends == ["exit_group", "wait4", "exit_group", "wait4", "exit_group"], shown


def test_errors(lbtrace: Callable[..., Any]) -> None:
    for options, said in (
        (["--syscall", "opena", "--", "true"], "nearest names: openat"),
        (["--syscall", "openat"], "name what to trace: --pid, a command, --cgroup, or --all"),
        (["--syscall", "openat,!open*", "--", "true"], "open*: leaves out all that is named"),
        (["--syscall", "openat", "--arg", "fd", "--", "true"], "fd is not known"),
    ):
        done = lbtrace("attach", *options)
        assert done.returncode == 2
        assert said in done.stderr


def test_in_goroutines(
    lbtrace: Callable[..., Any], go_program: Callable[..., Path], tmp_path: Path
) -> None:
    """They are below the functions of the goroutine that makes them."""
    options = ["--func", "main.main", "--syscall", "write", "-o", tmp_path / "x.jsonl"]
    done = lbtrace("attach", *options, "--", go_program("fib", "1.27.3"), "5")
    rows = map(json.loads, (tmp_path / "x.jsonl").read_text().splitlines())
    calls = [row for row in rows if row["type"] == "call"]
    (outer,) = (call for call in calls if call["name"] == "main.main")
    printed = [call for call in calls if call["name"] == "write" and call["args"][0]["value"] == 1]
    assert "".join(call["args"][1]["value"] for call in printed) == done.stdout
    assert {(call["goroutine"], call["depth"]) for call in printed} == {(outer["goroutine"], 1)}


FAILING = r"""
#include <unistd.h>
__attribute__((noinline)) long put(int fd, long size) { return write(fd, "text", size); }
int main(void)
{
	put(-1, 1);
	put(1, 2);
	put(-1, 3);
	put(1, 4);
}
"""


@pytest.mark.parametrize(
    ("options", "shown", "about"),
    [
        (("--errors",), [("put", 1), ("put", 3), ("write", 1), ("write", 3)], "all"),
        (("--where", "retval < 0"), [("put", 1), ("put", 3), ("write", 1), ("write", 3)], "all"),
        (("--where", "retval > 2"), [("put", 4), ("write", 4)], "all"),
        (("--where", "duration > 60s"), [], "all"),
        (
            ("--where", "fd == 1 and count == 2"),
            [*[("put", n) for n in (1, 2, 3, 4)], *[("write", 2)]],
            "not theirs: calls of functions",
        ),
        (
            ("--where", "fd == 1 and size == 2"),
            [*[("put", 2)], *[("write", n) for n in (1, 2, 3, 4)]],
            "not theirs: other calls",
        ),
    ],
)
def test_conditions_beside_functions(
    lbtrace: Callable[..., Any],
    tmp_path: Path,
    options: Sequence[str],
    shown: list[tuple[str, int]],
    about: str,
) -> None:
    """Those on what every call has are about the functions as well."""
    program, written = tmp_path / "failing", tmp_path / "calls.jsonl"
    command = ["gcc", "-g", "-O1", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=FAILING, text=True, check=True)
    sources = "--func", "put", "--syscall", "write"
    done = lbtrace("attach", *sources, *options, "-o", written, "--", program)
    rows = map(json.loads, written.read_text().splitlines())
    calls = [(row["name"], row["args"][-1]["value"]) for row in rows if row["type"] == "call"]
    assert sorted(calls) == shown
    note = re.search("([a-z ]+) are shown whether .* holds or not: it is (not theirs)", done.stderr)
    assert (f"{note[2]}: {note[1].strip()}" if note else "all") == about

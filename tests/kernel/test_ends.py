"""How a trace ends: signals, statuses, bounds, full disks, gone readers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]


def breakpoints(pid: int, program: Path, function: str) -> bool:
    """Whether the code of a running process differs from the file: a probe stands there."""
    symbols = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True)
    line = next(s.split() for s in symbols.stdout.splitlines() if s.endswith(f" {function}"))
    address, size = int(line[0], 16), int(line[1], 16)
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    base = next(int(m.split("-")[0], 16) for m in maps if str(program) in m)
    with open(f"/proc/{pid}/mem", "rb") as memory, open(program, "rb") as file:
        memory.seek(base + address)
        file.seek(address)  # the text of these small programs lies at its own address
        return memory.read(size) != file.read(size)


@pytest.fixture
def loop(start: Start, programs: Path) -> Any:
    started = start(programs / "loop", 500)
    started.wait_for("ready", "stdout")
    return started


def test_status_of_the_command_is_passed_on(lbtrace: Run, programs: Path) -> None:
    assert lbtrace("attach", "--func", "tick", "--", programs / "loop", 0, 3).returncode == 0
    shell = ["sh", "-c", f"{programs}/loop 0 3 >&2; exit 9"]
    done = lbtrace("attach", "--binary", programs / "loop", "--func", "tick", "--", *shell)
    assert done.returncode == 9
    assert "3 calls" in done.stderr
    assert "ticks 3" in done.stderr


def test_status_of_a_killed_command(lbtrace: Run, programs: Path) -> None:
    shell = ["sh", "-c", "kill -SEGV $$"]
    done = lbtrace("attach", "--binary", programs / "loop", "--func", "tick", "--", *shell)
    assert done.returncode == 128 + signal.SIGSEGV
    assert "was ended by SIGSEGV" in done.stderr


def test_output_of_the_command_is_left_alone(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    done = lbtrace("attach", "--func", "fib", "-o", out, "--quiet", "--", programs / "fib", 6)
    assert (done.stdout, done.stderr) == ("fib(6) = 8\n", "")
    assert json.loads(out.read_text().splitlines()[-1])["calls"] == 25


def test_input_of_the_command_is_left_alone(lbtrace: Run, programs: Path) -> None:
    done = lbtrace(
        *("attach", "--binary", programs / "fib", "--func", "fib", "--format", "jsonl", "--"),
        *("sh", "-c", f"read n; {programs}/fib $n >/dev/null"),
        input="2\n",
    )
    assert done.returncode == 0
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert kinds == ["clock", "thread", *["call"] * 3, "summary"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_command(
    start_lbtrace: Start, programs: Path, number: signal.Signals
) -> None:
    tracer = start_lbtrace("attach", "--func", "tick", "-o", "/dev/null", "--", programs / "loop")
    tracer.wait_for("ready", "stdout")
    tracer.process.send_signal(signal.SIGUSR1)
    tracer.wait_for("SIGUSR1", "stdout")  # of two that are pending the lower number comes first
    tracer.process.send_signal(number)
    status, out, error = tracer.finish()
    assert status == 7  # what the command makes of the signal
    assert "signals 1" in out
    assert "nothing lost" in error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("form", ["chrome", "jsonl", "lbt"])
def test_signals_close_the_output(
    start_lbtrace: Start, lbtrace: Run, loop: Any, tmp_path: Path, number: int, form: str
) -> None:
    out = tmp_path / f"trace.{form}"
    tracer = start_lbtrace(
        "attach", "--pid", loop.pid, "--func", "tick", "--format", form, "-o", out
    )
    tracer.wait_for("Ctrl-C ends")
    time.sleep(0.3)
    tracer.process.send_signal(number)
    status, _, error = tracer.finish()
    assert status == 0, error
    assert "nothing lost" in error
    if form == "chrome":
        assert len(json.loads(out.read_text())["traceEvents"]) > 10
    elif form == "jsonl":
        assert json.loads(out.read_text().splitlines()[-1])["type"] == "summary"
    else:
        exported = lbtrace("export", out, "--strict", "--format", "jsonl")
        assert exported.returncode == 0, exported.stderr
    assert not breakpoints(loop.pid, Path(loop.process.args[0]), "tick")
    assert loop.process.poll() is None


def test_kill_leaves_no_probe_and_a_readable_capture(
    start_lbtrace: Start,
    lbtrace: Run,
    loop: Any,
    tmp_path: Path,
    eventually: Callable[..., None],
    mode: str,
) -> None:
    out, program = tmp_path / "trace.lbt", Path(loop.process.args[0])
    tracer = start_lbtrace("attach", "--mode", mode, "--pid", loop.pid, "--func", "tick", "-o", out)
    tracer.wait_for("Ctrl-C ends")
    eventually(lambda: breakpoints(loop.pid, program, "tick"))
    started = out.stat().st_size
    eventually(lambda: out.stat().st_size > started + 10_000)
    tracer.process.kill()
    tracer.process.wait()
    eventually(lambda: not breakpoints(loop.pid, program, "tick"))
    exported = lbtrace("export", out, "--format", "jsonl")
    last = json.loads(exported.stdout.splitlines()[-1])
    assert last["interrupted"]
    assert last["calls"] > 50
    assert "interrupted" in exported.stderr
    loop.process.terminate()
    assert loop.process.wait() == 7


def test_ends_with_the_process(start_lbtrace: Start, loop: Any) -> None:
    tracer = start_lbtrace("attach", "--pid", loop.pid, "--func", "tick", "-o", "/dev/null")
    tracer.wait_for("Ctrl-C ends")
    time.sleep(0.3)
    loop.process.terminate()
    status, _, error = tracer.finish()
    assert status == 0
    assert "in 1 thread of 1 process, nothing lost" in error


def test_only_the_process_asked_for(start_lbtrace: Start, start: Start, programs: Path) -> None:
    first, second = (start(programs / "loop", 1000) for _ in range(2))
    for started in (first, second):
        started.wait_for("ready", "stdout")
    tracer = start_lbtrace(
        *("attach", "--pid", first.pid, "--func", "tick", "--format", "jsonl"),
        *("--duration", "500ms"),
    )
    status, out, _ = tracer.finish()
    assert status == 0
    pids = {record["pid"] for record in map(json.loads, out.splitlines()) if "pid" in record}
    assert pids == {first.pid}


def test_max_events(lbtrace: Run, programs: Path) -> None:
    words = ("attach", "--func", "fib", "--format", "jsonl", "--max-events", 5, "--")
    done = lbtrace(*words, programs / "fib", 10)
    assert done.returncode == 0
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    calls = [record for record in records if record["type"] == "call"]
    # fib(10) goes down to fib(1) before anything returns.
    shown = [(call["args"][0]["value"], call["result"]) for call in calls]
    assert shown == [(1, 1), (0, 0), (2, 1), (1, 1), (3, 2), *((n, None) for n in range(4, 11))]
    assert [call["end"] for call in calls] == ["returned"] * 5 + ["open"] * 7


def test_max_depth(lbtrace: Run, programs: Path) -> None:
    words = ("attach", "--func", "fib", "--format", "racket", "--max-depth", 2, "--quiet")
    done = lbtrace(*words, "-o", "/dev/stderr", "--", programs / "fib", 4)
    assert done.returncode == 0
    assert done.stderr == ">(fib 4)\n> (fib 3)\n< 2\n> (fib 2)\n< 1\n<3\n"


def test_reader_of_the_pipe_gone(programs: Path, tmp_path: Path) -> None:
    error = tmp_path / "error"
    shell = (
        f"{sys.executable} -m lbtrace attach --func fib --quiet -- {programs}/fib 18"
        f" 2>{error} | head -n 2"
    )
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 2
    assert error.read_text() == ""


def test_full_disk(lbtrace: Run, programs: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", small], check=True)
    try:
        out = small / "run.lbt"
        done = lbtrace("attach", "--func", "fib", "-o", out, "--", programs / "fib", 22)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert "make room" in done.stderr
        assert "Traceback" not in done.stderr
        done = lbtrace("export", out, "--format", "jsonl")
        assert json.loads(done.stdout.splitlines()[-1])["interrupted"]
        out.unlink()
        command = ["sh", "-c", f"{programs / 'fib'} 22; sleep 2"]
        done = lbtrace(
            *("attach", "--binary", programs / "fib", "--func", "fib", "-o", out, "--", *command)
        )
        assert done.returncode == 1
        assert "no longer traced: " in done.stderr
        assert "(sh)" in done.stderr
        done = lbtrace("attach", "--func", "fib", "-o", small / "t.txt", "--", programs / "fib", 22)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("returns", ["sites", "uretprobe"])
def test_nothing_is_unwound_by_detaching(
    lbtrace: Run, start: Start, programs: Path, tmp_path: Path, mode: str, returns: str
) -> None:
    """Probes go one by one, or link by link, while the program calls and returns."""
    started, out = start(programs / "nested"), tmp_path / "out.lbt"
    started.wait_for("ready", "stdout")
    done = lbtrace(
        *("attach", "--pid", started.pid, "--func", "nest*", "--mode", mode, "--quiet"),
        *("--returns", returns, "--ring-size", "64M", "--duration", "150ms", "-o", out),
    )
    assert done.returncode == 0, done.stderr
    exported = lbtrace("export", out, "--format", "jsonl", "--strict")
    assert exported.returncode == 0, exported.stderr
    records = map(json.loads, exported.stdout.splitlines())
    ends = Counter(record["end"] for record in records if record["type"] == "call")
    assert ends["returned"] > 100
    assert set(ends) <= {"returned", "open"}


MANY_EXITS = """\
#define CASE(n) case n: __asm__ volatile("nop" : "+r"(tag)); return tag + n;
#define WORK(name)                                                                  \\
    __attribute__((noinline)) long name(long tag, unsigned way)                     \\
    {                                                                               \\
        switch (way % 8) { CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) } \\
        return tag + 7;                                                             \\
    }
WORK(work1) WORK(work2) WORK(work3) WORK(work4) WORK(work5) WORK(work6) WORK(work7)
static long (*const all[])(long, unsigned) = {work1, work2, work3, work4, work5, work6, work7};
int main(void)
{
    unsigned way = 1;
    for (long tag = 0;; tag += 1000) {
        way = way * 1103515245 + 12345;
        __asm__ volatile("" : : "r"(all[(way >> 24) % 7](tag, way >> 16)));
    }
}
"""
"""Leaves functions by other instructions each time, and returns what they were passed, and more."""


@pytest.mark.host
def test_no_result_is_that_of_another_call_when_probes_go(
    lbtrace: Run, start: Start, compiled: Callable[..., Path], tmp_path: Path, mode: str
) -> None:
    """While some exits of a function have no probe any more, others still have."""
    made = compiled("exits", ["gcc", "-g", "-O2"], MANY_EXITS)
    out = tmp_path / "out.jsonl"
    words = ("--func", "work*", "--mode", mode, "--returns", "sites", "--ring-size", "64M")
    started = start(made)
    done = lbtrace(
        *("attach", "--pid", started.pid, *words, "--duration", "150ms", "-o", out), timeout=120
    )
    assert done.returncode == 0, done.stderr
    calls = [record for record in map(json.loads, out.open()) if record["type"] == "call"]
    assert len(calls) > 100
    assert {call["end"] for call in calls[:-1]} == {"returned"}
    for call in calls[:-1]:
        tag, way = (each["value"] for each in call["args"])
        assert call["result"] == tag + way % 8


def stalled(start_lbtrace: Start, programs: Path, format: str) -> tuple[Any, int]:
    """A trace of 50,000 calls whose reader takes nothing, and what it would read from."""
    reading, writing = os.pipe()
    words = ("attach", "--binary", programs / "hot", "--func", "push", "--format", format)
    traced = start_lbtrace(*words, stdout=writing)
    os.close(writing)
    traced.wait_for("Ctrl-C ends")
    subprocess.run([programs / "hot", "push", "50000"], check=True, capture_output=True)
    return traced, reading


@pytest.mark.parametrize("format", ["tree", "jsonl", "lbt"])
def test_ctrl_c_does_not_wait_for_a_reader_that_has_stopped(
    start_lbtrace: Start, programs: Path, format: str
) -> None:
    traced, reading = stalled(start_lbtrace, programs, format)
    traced.process.send_signal(signal.SIGINT)
    status, _, error = traced.finish()
    os.close(reading)
    assert status == 0
    assert "not yet written when Ctrl-C ended the trace" in error
    found = re.search(r"([\d,]+) calls? in .* ([\d,]+) events lost", error)
    assert found, error
    calls, lost = (int(number.replace(",", "")) for number in found.groups())
    assert 0 <= 2 * calls + lost - 100_000 <= 1  # a call may have begun before and returned after


def test_all_is_written_to_a_slow_reader_that_nobody_interrupts(
    start_lbtrace: Start, programs: Path
) -> None:
    traced, reading = stalled(start_lbtrace, programs, "racket")
    traced.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    with open(reading, "rb") as stream:
        assert stream.read().count(b"\n") == 100_000
    assert "50,000 calls in 1 thread of 1 process, nothing lost" in traced.finish()[2]


THROWING = """
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
struct Own : std::runtime_error { using std::runtime_error::runtime_error; int more = 3; };
struct Derived : Own { using Own::Own; };
struct Other : Own { using Own::Own; const char *what() const noexcept override { return "?"; } };
struct Bare {};
struct Kept { ~Kept() { asm volatile(""); } };
__attribute__((noinline)) void fails(int n)
{
    switch (n) {
    case 0: throw std::out_of_range("too far");
    case 1: throw Derived("derived");
    case 2: throw std::system_error(std::make_error_code(std::errc::io_error), "disk");
    case 3: throw Bare();
    case 4: throw std::exception();
    case 5: throw Other("base");
    }
}
__attribute__((noinline)) void passes(int n)
{
    Kept kept;
    fails(n);
    asm volatile("" :: "r"(&kept));
}
int main()
{
    for (int n = 0; n < 7; n++) {
        try { passes(n); }
        catch (std::out_of_range &e) { printf("std::out_of_range: \\"%s\\"\\n", e.what()); }
        catch (Own &e) {
            const char *name = dynamic_cast<Other *>(&e) ? "Other" : "Derived";
            printf("%s (std::runtime_error: \\"%s\\")\\n", name, e.std::runtime_error::what());
        }
        catch (std::system_error &e) { printf("std::system_error: \\"%s\\"\\n", e.what()); }
        catch (std::exception &e) { puts("std::exception"); }
        catch (Bare) { puts("Bare"); }
    }
}
"""


PANICKING = """
    #[inline(never)]
    fn fails(n: usize) -> usize {
        match n {
            0 => panic!("static"),
            1 => panic!("of {n}: é"),
            2 => Vec::<usize>::new()[n],
            3 => std::panic::panic_any((n, n)),
            _ => n,
        }
    }
    #[inline(never)]
    fn passes(n: usize) -> usize {
        let kept = vec![n; 3];
        fails(n) + kept.len()
    }
    #[inline(never)]
    fn unused(n: usize) -> usize {
        if n > 1 { panic!("nobody wants {}", n) }
        n
    }
    fn main() {
        std::panic::set_hook(Box::new(|_| {}));
        for n in 0..5 {
            if let Err(e) = std::panic::catch_unwind(|| passes(n)) {
                let formatted = e.downcast_ref::<String>().map(String::as_str);
                println!("{:?}", formatted.or(e.downcast_ref::<&str>().copied()));
            }
        }
        unused(1);
        let _ = std::panic::catch_unwind(|| unused(std::env::args().count() + 1));
        println!("Some(\\"nobody wants 2\\")");
    }
"""


@pytest.mark.parametrize("level", [0, 1, 2])
def test_calls_tell_which_panic_left_them(
    lbtrace: Run, compiled: Callable[..., Path], tmp_path: Path, level: int
) -> None:
    program = compiled(f"panicking{level}", ["rustc", "-g", f"-Copt-level={level}"], PANICKING)
    capture = tmp_path / "panicking.lbt"
    functions = ("--func", "*::fails", "--func", "*::passes", "--func", "*::unused", "--errors")
    done = lbtrace("attach", *functions, "--quiet", "-o", capture, "--", program)
    said = [line[6:-2] if line != "None" else None for line in done.stdout.splitlines()]
    assert len(said) == 5
    records = map(json.loads, lbtrace("export", capture, "--format", "jsonl").stdout.splitlines())
    found = [record["exception"] for record in records if "exception" in record]
    twice = [what for what in said[:-1] for _ in range(2)]
    assert [each.get("what") for each in found] == [*twice, said[-1]]
    assert {each["type"] for each in found} == {"panic"}


def test_calls_tell_which_exception_left_them(
    lbtrace: Run, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    program = compiled("throwing", ["g++", "-g", "-O1", "-x", "c++"], THROWING)
    capture = tmp_path / "throwing.lbt"
    functions = ("--func", "fails", "--func", "passes")
    done = lbtrace("attach", *functions, "--quiet", "-o", capture, "--", program)
    caught = done.stdout.splitlines()
    assert len(caught) == 6
    tree = lbtrace("export", capture).stdout
    for function in (r"fails\(n=\d\)", "passes"):
        assert re.findall(rf"{function} ✗ (.*)", tree) == caught
    records = map(json.loads, lbtrace("export", capture, "--format", "jsonl").stdout.splitlines())
    said = [record["exception"] for record in records if "exception" in record]
    assert said[:2] == [{"type": "std::out_of_range", "what": "too far"}] * 2
    assert said[8] == {"type": "std::exception"}
    assert said[-1] == {"type": "Other", "base": "std::runtime_error", "what": "base"}


BASES = """
#include <cstdio>
#include <cxxabi.h>
#include <future>
#include <stdexcept>
#include <typeinfo>
struct Mixin { virtual ~Mixin() {} int more = 7; };
struct Tag {};
struct Clone { virtual ~Clone() {} };
struct Front : std::runtime_error, Mixin { using std::runtime_error::runtime_error; };
struct Behind : Clone, std::runtime_error, Mixin {
    Behind(const char *text) : std::runtime_error(text) {}
};
struct Tagged : Tag, std::logic_error { Tagged(const char *text) : std::logic_error(text) {} };
struct Virtual : virtual std::runtime_error {
    Virtual(const char *text) : std::runtime_error(text) {}
};
struct Other : Clone, Front { Other(const char *text) : Front(text) {} };
struct Derived : std::range_error { using std::range_error::range_error; };
template <class Error> __attribute__((noinline)) int throws() { throw Error("as said"); }
template <class Error> __attribute__((noinline)) int again()
{
    return std::async(std::launch::async, throws<Error>).get();
}
static void caught(const char *base, const std::exception &e)
{
    const char *name = abi::__cxa_demangle(typeid(e).name(), 0, 0, 0);
    bool known = !dynamic_cast<const Virtual *>(&e) && !dynamic_cast<const Other *>(&e);
    known ? printf("%s (%s: \\"%s\\")\\n", name, base, e.what()) : puts(name) > 0;
}
template <class Error> void run()
{
    for (auto called : {throws<Error>, again<Error>}) {
        try { called(); }
        catch (std::range_error &e) { caught("std::range_error", e); }
        catch (std::runtime_error &e) { caught("std::runtime_error", e); }
        catch (std::logic_error &e) { caught("std::logic_error", e); }
    }
}
int main()
{
    run<Front>(), run<Behind>(), run<Tagged>(), run<Virtual>(), run<Other>(), run<Derived>();
}
"""


@pytest.mark.parametrize(
    "compiler",
    [["g++"], ["clang++", "-stdlib=libc++"], ["clang++", "-stdlib=libc++", "-static-libstdc++"]],
)
def test_exceptions_thrown_once_more_and_of_several_bases(
    lbtrace: Run, compiled: Callable[..., Path], compiler: list[str]
) -> None:
    command = [*compiler, "-g", "-O1", "-pthread", "-w", "-x", "c++"]
    program = compiled(f"bases_{len(compiler)}", command, BASES)
    done = lbtrace("attach", "--func", "throws*,again*", "--quiet", "--", program)
    said = re.findall(r"^\w.*$", done.stdout, re.MULTILINE)
    assert len(said) == 12
    # A call that takes long is shown at once, and its end by its name only.
    thrown = re.findall(r" throws<\w+>(?:\(\))? ✗ (.*)", done.stdout)
    assert sorted(thrown) == sorted(said)
    assert re.findall(r" again<\w+>(?:\(\))? ✗ (.*)", done.stdout) == said[1::2]

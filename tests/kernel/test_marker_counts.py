"""Markers of real programs at real work: as many as the program itself counts, or bpftrace."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lbtrace
from lbtrace import Call

pytestmark = pytest.mark.slow

JVM = "/usr/lib/jvm/java-17-openjdk-amd64"
POSTGRES = Path("/usr/lib/postgresql/15/bin")


def text(value: object) -> str:
    """The text of a value."""
    return getattr(value, "data", b"").decode()


def traced(command: list[str], usdt: list[str] | str, **options: object) -> list[Call]:
    """What is seen of the markers of a command."""
    with lbtrace.trace(command=command, usdt=usdt, **options) as session:  # type: ignore[arg-type]
        calls = list(session.calls())
        assert not session.losses().total
        return calls


RUBY = """
class Work
  def outer(n) = n.times { |i| begin; inner(i); rescue; end }
  def inner(i) = i % 3 == 0 ? raise("no") : i
end
seen = Hash.new(0)
TracePoint.new(:call, :return) { |t| seen[t.event] += 1 if t.defined_class == Work }.enable {
  40.times { |n| Work.new.outer(n) } }
puts seen[:call], seen[:return]
"""


def test_ruby(capfd: pytest.CaptureFixture[str]) -> None:
    wanted = {"strings": 100, "where": 'class_name == "Work"'}
    command = ["ruby", "--disable-gems", "-e", RUBY]
    calls = traced(command, "ruby:method__*", **wanted)
    called, returned = map(int, capfd.readouterr().out.split())
    kinds = Counter((call.name, call.end) for call in calls)
    assert called == returned == 40 + 40 * 39 // 2
    assert kinds == {("ruby:method__entry", "returned"): called}
    assert Counter(text(call["method"]) for call in calls) == {"outer": 40, "inner": 780}
    for call in calls:
        assert call.depth == (text(call["method"]) == "inner")


PHP = """
$count = 0;
function walk($n) { global $count; $count++; return $n < 2 ? $n : walk($n - 1) + walk($n - 2); }
class Shop {
    static function sell($n) {
        global $count;
        $count++;
        if ($n % 2) throw new Exception("$n");
    }
}
walk(12);
for ($n = 0; $n < 50; $n++) try { Shop::sell($n); } catch (Exception $e) {}
echo $count;
"""


def test_php_names_classes_and_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compiled for an include has no resolved path when that begins."""
    monkeypatch.setenv("USE_ZEND_DTRACE", "1")
    files = {"main.php": PHP, "first.php": "", "second.php": ""}
    for name, code in files.items():
        (tmp_path / name).write_text(f"<?php {code}")
    with (tmp_path / "main.php").open("a") as main:
        main.write("include __DIR__.'/first.php'; include __DIR__.'/second.php';")
    command = ["php8.2", str(tmp_path / "main.php")]
    calls = traced(command, ["php:exception__*", "php:compile__file__*"], strings=200)
    caught = [call for call in calls if call.name == "php:exception__caught"]
    thrown = [call for call in calls if call.name == "php:exception__thrown"]
    assert [text(c["class_name"]) for c in (*caught, *thrown)] == ["Exception"] * 50
    compiled = [call for call in calls if call.name == "php:compile__file__entry"]
    assert {call.end for call in compiled} == {"returned"}
    assert [Path(text(call["file"])).name for call in compiled] == [*files]
    capfd.readouterr()


PYTHON = """
import gc, sys
counts = {"walk": 0, "fails": 0}
def walk(n):
    counts["walk"] += 1
    return n if n < 2 else walk(n - 1) + walk(n - 2)
def fails(n):
    counts["fails"] += 1
    return fails(n - 1) if n else 1 // 0
gc.disable()
walk(10)
for n in range(20):
    try: fails(2)
    except ZeroDivisionError: pass
    gc.collect()
print(*counts.values())
"""


def test_python(capfd: pytest.CaptureFixture[str]) -> None:
    usdt = ["python:function__*", "python:gc__*"]
    calls = traced(["/usr/bin/python3.11", "-S", "-c", PYTHON], usdt)
    walked, failed = map(int, capfd.readouterr().out.split())
    # Python 3.11 comes to the marker of the entry of few calls only: bpftrace counts no more.
    returns = Counter(text(call["function"]) for call in calls if call.end == "point")
    assert (returns["walk"], returns["fails"]) == (walked, failed)
    assert sum(call.name == "python:gc__start" for call in calls) >= 20
    # ... unless its lines are traced, too
    calls = traced(["/usr/bin/python3.11", "-S", "-c", PYTHON], ["python:function__*", "python:l*"])
    assert capfd.readouterr().out.split() == [str(walked), str(failed)]
    entered = [call for call in calls if call.name == "python:function__entry"]
    assert {call.end for call in entered} == {"returned"}
    assert Counter(text(call["function"]) for call in entered)["walk"] == walked


JAVA = """
public class Work {
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static void fails(int n) { if (n == 0) throw new RuntimeException("no"); fails(n - 1); }
    public static void main(String[] words) throws Exception {
        fib(10);
        for (int n = 0; n < 10; n++) try { fails(3); } catch (RuntimeException error) { }
        for (int n = 0; n < 5; n++) {
            System.gc();
            Thread thread = new Thread(() -> fib(3), "worker " + n);
            thread.start();
            thread.join();
        }
    }
}
"""


def test_jdk(tmp_path: Path) -> None:
    (tmp_path / "Work.java").write_text(JAVA)
    subprocess.run([f"{JVM}/bin/javac", "-d", tmp_path, tmp_path / "Work.java"], check=True)
    log = tmp_path / "log"
    command = [
        *(f"{JVM}/bin/java", f"-Xlog:class+load,gc:file={log}::filecount=0", "-XX:+UseSerialGC"),
        *("-XX:+ExtendedDTraceProbes", "-Xshare:off", "-cp", str(tmp_path), "Work"),
    ]
    library = f"{JVM}/lib/server/libjvm.so"
    names = ["class__loaded", "thread__start", "gc__*", "mem__pool__gc__*"]
    usdt = [f"hotspot:{name}" for name in names]
    seen = traced(command, usdt, binary=library, strings=250)
    lines = log.read_text().splitlines()
    loaded = Counter(text(e["name"]) for e in seen if e.name == "hotspot:class__loaded")
    logged = Counter(
        re.split(r"\] ", line)[-1].split()[0].replace(".", "/")
        for line in lines
        if " source: " in line
    )
    lambdas = re.compile(r".*(0x[0-9a-f]+|\$\$Lambda.*|LambdaForm.*)")
    assert loaded["java/lang/Object"] == 1
    assert _without(loaded, lambdas) == _without(logged, lambdas)
    threads = [text(e["name"]) for e in seen if e.name == "hotspot:thread__start"]
    assert [name for name in threads if name.startswith("worker")] == [
        f"worker {n}" for n in range(5)
    ]
    pauses = [call for call in seen if call.name == "hotspot:gc__begin"]
    assert {call.end for call in pauses} == {"returned"}
    assert len(pauses) == sum(" Pause " in line for line in lines)
    pools = [call for call in seen if call.name == "hotspot:mem__pool__gc__begin"]
    assert {call.end for call in pools} == {"returned"}
    assert {text(call["pool"]) for call in pools} > {"Eden Space", "Metaspace", "Tenured Gen"}
    assert not any(call.name == "hotspot:mem__pool__gc__end" for call in seen)
    wanted = {"binary": library, "where": 'class_name == "Work"'}
    calls = traced(command, "hotspot:method__[er]*", **wanted)
    methods = Counter((text(call["method"]), call.end) for call in calls)
    assert methods["fib", "returned"] == 177 + 5 * 5
    assert methods["fails", "returned"] == 40
    assert methods["main", "returned"] == 1


def _without(names: Counter[str], pattern: re.Pattern[str]) -> Counter[str]:
    return Counter({name: n for name, n in names.items() if not pattern.fullmatch(name)})


@contextmanager
def server() -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A PostgreSQL server that logs its statements, in a directory of its own."""
    place = Path(tempfile.mkdtemp(prefix="lbtrace-pg-"))
    account = pwd.getpwnam("postgres")
    os.chown(place, account.pw_uid, account.pw_gid)
    user = {"user": account.pw_uid, "group": account.pw_gid, "cwd": place}
    try:
        subprocess.run(
            [POSTGRES / "initdb", "-D", place / "data", "--no-sync", "-A", "trust"],
            check=True,
            stdout=subprocess.DEVNULL,
            **user,  # type: ignore[call-overload]
        )
        words = ["listen_addresses=", "log_statement=all", "autovacuum=off", "fsync=off"]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *(POSTGRES / "postgres", "-D", place / "data", "-k", place),
                    *(part for word in words for part in ("-c", word)),
                ],
                stderr=log,
                **user,
            )
        try:
            for _ in range(200):
                if (place / ".s.PGSQL.5432").exists():
                    break
                time.sleep(0.05)
            time.sleep(0.5)
            yield process, place
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(place)


STATEMENTS = [
    "create table t as select n, n * 2 as m from generate_series(1, 1000) n",
    "select count(*) from t where m > 500",
    "select no_such_column from t",
    "update t set m = m + 1 where n < 100",
    "select 'ä' || sum(m) from t order by 1",
] * 3


def ask(place: Path) -> None:
    """Run the statements in one session."""
    words = [part for statement in STATEMENTS for part in ("-c", statement)]
    psql = [POSTGRES / "psql", "-h", place, "-U", "postgres", "-X", "-q", *words]
    subprocess.run(psql, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def test_postgresql() -> None:
    with server() as (process, place):
        program = f"usdt:{POSTGRES}/postgres:postgresql"
        script = "".join(
            f'{program}:{name} {{ @["{name}", pid] = count(); }} '
            for name in (
                "query__start",
                "query__done",
                "query__execute__start",
                "transaction__commit",
            )
        )
        peer = subprocess.Popen(
            ["bpftrace", "-e", f'BEGIN {{ printf("ready\\n"); }} {script}'],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert peer.stdout
        while "ready" not in peer.stdout.readline():
            assert peer.poll() is None
        usdt = [f"postgresql:{n}" for n in ("query__*", "transaction__commit")]
        with lbtrace.trace(
            pid=process.pid, follow=True, usdt=usdt, strings=100, binary=str(POSTGRES / "postgres")
        ) as session:
            ask(place)
            time.sleep(0.5)
            session.stop()
            calls = list(session.calls())
            assert not session.losses().total
        peer.terminate()
        said = Counter[str]()  # other servers may run the same program
        for name, pid, count in re.findall(r"@\[(\w+), (\d+)\]: (\d+)", peer.stdout.read()):
            said[name] += int(count) * (int(pid) in {call.pid for call in calls})
        log = (place / "log").read_text()
    queries = [call for call in calls if call.name == "postgresql:query__start"]
    queries.sort(key=lambda call: call.start)
    logged = re.findall(r"LOG:  statement: (.*)", log)
    assert [text(call["query"]) for call in queries] == logged == STATEMENTS
    failed = [text(call["query"]) for call in queries if call.end == "open"]
    assert failed == [each for n, each in enumerate(STATEMENTS) if n % 5 == 2 or n in (5, 10)]
    ends = Counter((call.name, call.end) for call in calls)
    assert ends["postgresql:query__start", "returned"] == said["query__done"]
    assert len(queries) == said["query__start"]
    assert ends["postgresql:transaction__commit", "point"] == said["transaction__commit"]
    assert (
        sum(n for (name, _), n in ends.items() if name == "postgresql:query__execute__start")
        == said["query__execute__start"]
    )
    assert {call.depth for call in queries} == {0}

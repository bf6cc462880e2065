"""lbtrace without its start: a process that has imported all of it, and forks for each command.

Python and the imports are most of what a short trace costs, and tests make a thousand of them.

    with Server() as server:
        server.run(["attach", "--func", "fib", "--", "./fib"], timeout=300)

`tests/kernel/conftest.py` uses it for nine tests of ten, the tenth starts lbtrace as people do.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import json
import os
import pkgutil
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

EARLY = ("PYTHON", "LC_", "LANG", "LD_", "GLIBC_", "MALLOC_")
"""Variables that count when a process starts: who changed them needs a process of its own."""


class Server:
    """Starts lbtrace's forks, whose standard input is this process's."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=(theirs.fileno(),)
            )
        self._lock = threading.Lock()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._process.wait(60)

    def can_run(self) -> bool:
        """Whether it runs, and a fork sees what a process that starts now would see."""
        if self._process.poll() is not None:
            return False
        now, then = os.environ, self._environment
        names = {name for name in (*now, *then) if name.startswith(EARLY)}
        return all(now.get(name) == then.get(name) for name in names)

    def run(
        self, words: Sequence[str], *, timeout: float, cwd: str | Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with its output captured as text."""
        request = {"words": words, "cwd": str(cwd or os.getcwd()), "environment": dict(os.environ)}
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, their_out = os.pipe()
        error, their_error = os.pipe()
        with mine, open(out, "rb") as output, open(error, "rb") as errors:
            memory = os.memfd_create("request")  # a message of a socket has a limit
            os.write(memory, json.dumps(request).encode())
            given = [memory, 0, their_out, their_error, theirs.detach()]
            with self._lock:
                socket.send_fds(self._control, [b"run"], given)
            for descriptor in (given[0], *given[2:]):
                os.close(descriptor)
            pid = int(mine.recv(20))
            killer = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
            killer.start()
            try:
                reported = _read(output, errors)
                status = int(mine.recv(20))
            finally:
                ran_out = not killer.is_alive()
                killer.cancel()
        texts = [io.TextIOWrapper(io.BytesIO(data), "utf-8").read() for data in reported]
        if ran_out:
            raise subprocess.TimeoutExpired(list(words), timeout, *texts)
        return subprocess.CompletedProcess(list(words), status, *texts)


def _read(*streams: Any) -> list[bytes]:
    """What comes from several pipes until all are closed."""
    parts: dict[Any, list[bytes]] = {stream: [] for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if data := os.read(key.fd, 1 << 16):
                    parts[key.fileobj].append(data)
                else:
                    selector.unregister(key.fileobj)
    return [b"".join(parts[stream]) for stream in streams]


def serve(control: socket.socket) -> None:
    """Fork for each request until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    readback = _import_all()
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is control:
                    said, descriptors, _, _ = socket.recv_fds(control, 10, 5)
                    if not said:
                        return
                    pid = os.fork()
                    if pid == 0:
                        selector.close()
                        control.close()
                        for other, reply in running.values():
                            os.close(other)
                            reply.close()
                        _become(descriptors, readback)
                    *_, last = descriptors
                    reply = socket.socket(fileno=last)
                    for descriptor in descriptors[:-1]:
                        os.close(descriptor)
                    reply.send(str(pid).encode())
                    handle = os.pidfd_open(pid)
                    running[pid] = handle, reply
                    selector.register(handle, selectors.EVENT_READ, pid)
                else:
                    handle, reply = running.pop(key.data)
                    selector.unregister(handle)
                    os.close(handle)
                    status = os.waitstatus_to_exitcode(os.waitpid(key.data, 0)[1])
                    with reply:
                        reply.send(str(status).encode())


def _import_all() -> Any:
    """Import lbtrace, and return tests/readback.py as a module."""
    spec = importlib.util.spec_from_file_location(
        "readback", Path(__file__).with_name("readback.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import lbtrace

    for found in pkgutil.walk_packages(lbtrace.__path__, "lbtrace."):
        if found.name != "lbtrace.__main__":
            # What an extra or another machine's analysis needs may not be installed.
            with suppress(lbtrace.DependencyError, ModuleNotFoundError):
                importlib.import_module(found.name)
    return module


def _become(descriptors: list[int], readback: Any) -> None:
    """Be the process that was asked for; does not return."""
    memory, *standard, reply = descriptors
    os.close(reply)
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    with open(memory, "rb") as file:
        file.seek(0)
        request = json.load(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv[1:] = request["words"]
    status: object = 70
    try:
        readback.run()
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                status = status or 120  # as Python ends
        os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # as with -m
    with socket.socket(fileno=int(sys.argv[1])) as line:
        serve(line)

"""`lbtrace.trace_this_process`: a process that traces itself, in all its threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, os, threading
import lbtrace

libc = {"binary": "libc.so.6", "args": 0}
with lbtrace.trace_this_process(functions=["getppid", "getpgid"], **libc) as trace:
    thread = threading.Thread(target=lambda: [os.getpgid(0) for _ in range(3)])
    thread.start()
    thread.join()
    os.getppid()
errors = []
try:
    with lbtrace.trace_this_process(functions="nothing_such"):
        pass
except lbtrace.UsageError as error:
    errors.append(error.message)
try:
    lbtrace.trace_this_process(funktions="getppid")
except TypeError as error:
    errors.append(str(error))
calls = [[call.name, call.result, call.tid == os.getpid()] for call in trace.calls()]
print(json.dumps([calls, trace.losses.total, str(trace), errors]))
"""


def test_all_threads_of_this_process() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, check=True
    )
    calls, lost, tree, errors = json.loads(done.stdout)
    group = os.getpgid(0)
    assert calls == [["getpgid", group, False]] * 3 + [["getppid", os.getpid(), True]]
    assert lost == 0
    assert tree.count(f"getpgid() = {group}") == 3
    nothing, parameter = errors
    assert nothing.startswith("nothing_such: matches no function of ")
    assert "'funktions'" in parameter
    assert "'functions'" in parameter


CELLS = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
head = "%%lbtrace --func getp*id --binary libc.so.6 --args 0\\n"
for cell in (
    "%load_ext lbtrace",
    "import os, json",
    head + "[os.getppid() for _ in range(300)]",
    "print(json.dumps(len([call.result for call in _.calls()])))",
    head + "1/0",
    "%%lbtrace --funk getppid\\n1",
):
    shell.run_cell(cell)
"""


def test_cells_of_a_notebook(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CELLS], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.count(f"getppid() = {os.getpid()}") == 198
    assert "  CALL\n" in done.stdout
    assert "… 102 more lines" in done.stdout
    assert "\n300\n" in done.stdout
    assert "ZeroDivisionError" in done.stdout
    assert "no calls" in done.stdout
    assert "no option is called --funk" in done.stdout + done.stderr

"""What is said of processes that still run."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest

from lbtrace.commands.ending import going_on
from lbtrace.model import Binary, Plan
from lbtrace.system.process import Running


@pytest.fixture
def sleeping():
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("binary", "given", "way"),
    [
        (sys.executable, [], "--func 'f*' --where 'n > 1'"),
        ("/bin/true", [], "--func NAME"),
        ("/x/libc.so.6", ["libc.so.6"], "--binary libc.so.6 --func 'f*' --where 'n > 1'"),
    ],
)
def test_the_way_to_go_on_is_one_that_works(sleeping, binary, given, way):
    session = SimpleNamespace(
        plan=Plan((Binary(binary),), (), ()), child=sleeping, target_ended=False
    )
    args = Namespace(binary=given, func=["f*"], where="n > 1", until_last=False)
    told = going_on([Running(sleeping.pid)], session, args)
    assert told[1] == f"  to continue: lbtrace attach --pid {sleeping.pid} --follow {way}"

"""What is said of processes that still run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

from lbtrace.commands import attach
from lbtrace.commands.ending import OF_ONE_TRACE, going_on
from lbtrace.commands.options import Parser
from lbtrace.model import Binary, Plan
from lbtrace.system.process import Running


@pytest.fixture
def sleeping():
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def parser():
    made = Parser(prog="lbtrace attach")
    attach.arguments(made)
    return made


def continued(parser, words, session, pid):
    """The words that are said to continue a trace of ``words``."""
    args = parser.parse_args(words)
    args.parser = parser
    reported = going_on([Running(pid)], session, args)[1]
    assert reported.startswith("  to continue: lbtrace attach ")
    return shlex.split(reported)[4:]


def session_of(binary, child):
    plan = Plan((Binary(binary),), (), ())
    return SimpleNamespace(plan=plan, child=child, target_ended=False)


@pytest.mark.parametrize(
    ("binary", "given", "way"),
    [
        (sys.executable, "--func f* --where n>1", "--func f* --where n>1"),
        (sys.executable, "--source a.c --func f", "--func f --source a.c"),
        ("/bin/true", "--func f*", "--func NAME"),
        ("/bin/true", "--line a.c:4 --locals", "--func NAME"),
        ("/x/libc.so.6", "--binary libc.so.6 --func f*", "--binary libc.so.6 --func f*"),
        ("/x/libul.so", "--usdt shop:* --provider a.d", "--usdt shop:* --provider a.d"),
        ("/x/libul.so", "--usdt shop:* --func f*", "--func NAME"),
    ],
)
def test_the_way_to_go_on_is_one_that_works(parser, sleeping, binary, given, way):
    words = continued(parser, given.split(), session_of(binary, sleeping), sleeping.pid)
    assert words == ["--pid", str(sleeping.pid), "--follow", *way.split()]


SAMPLES = {
    "args": "none",
    "ring_size": "16M",
    "duration": "10s",
    "off_cpu": "7us",
    "slow": "5ms",
    "returns": "sites",
    "mode": "plain",
    "depth": "4",
    "time": "clock",
    "color": "never",
    "unwind": "fp",
}
"""Values of options that do not take any."""


def samples(parser):
    """Each option of ``attach``, with a value that is not its default: two where it may be given
    again, of which one begins with a minus."""
    for action in parser._actions:
        if action.dest == "help":
            continue
        name = action.option_strings[-1]
        if action.nargs == 0:
            yield action, [name]
        elif isinstance(action.default, list) and action.dest != "pid":
            yield action, [name, "it's a", f"{name}=-b"]
        else:
            yield action, [name, SAMPLES.get(action.dest, "7")]


def test_all_that_says_what_is_traced_and_shown_is_continued(parser, sleeping):
    given = [*samples(parser)]
    all_words = [word for _, words in given for word in words]
    session = session_of(sys.executable, sleeping)
    parsed = parser.parse_args(all_words)
    again = continued(parser, all_words, session, sleeping.pid)
    parser.given.clear()
    result = parser.parse_args(again)
    for action, _ in given:
        if action.dest not in OF_ONE_TRACE:
            assert getattr(result, action.dest) == getattr(parsed, action.dest), action.dest
    assert result.pid == [sleeping.pid]
    assert result.follow
    assert {action.dest for action, _ in given} >= set(OF_ONE_TRACE)
    left_out = {name for name in OF_ONE_TRACE if getattr(result, name) == getattr(parsed, name)}
    assert left_out == {"follow"}


def test_an_option_that_was_not_given_is_not_continued(parser, sleeping):
    words = continued(parser, ["--func", "f"], session_of(sys.executable, sleeping), sleeping.pid)
    assert words == ["--pid", str(sleeping.pid), "--follow", "--func", "f"]

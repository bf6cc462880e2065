"""What a start of lbtrace loads: nothing that its answer has no use for."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from lbtrace.commands import attach
from lbtrace.model.choices import Returns

PROGRAM = Path(__file__).resolve().parents[1] / "programs/fib.c"

NOT_NEEDED = (
    *("lbtrace.api", "lbtrace.calls.table", "lbtrace.capture.reading", "lbtrace.expressions"),
    *("lbtrace.capture.opening", "lbtrace.capture.salvage", "lbtrace.capture.writing"),
    *(
        "lbtrace.plan.go",
        "lbtrace.dwarf.go_prototypes",
        "lbtrace.dwarf.rust_layout",
        "lbtrace.fetch.go_fetcher",
        "lbtrace.tables",
    ),
    *("lbtrace.machine.aarch64", "lbtrace.targets.mapped_files"),
    "lbtrace.plan.uretprobe_names",
    *("asyncio", "ctypes", "elftools", "http", "logging", "multiprocessing", "pathlib"),
    *("rust_demangler", "socketserver", "subprocess", "tempfile", "urllib"),
)


PARSING = {
    *("lbtrace", "lbtrace.commands", "lbtrace.commands.options", "lbtrace.commands.streams"),
    *("lbtrace.errors", "lbtrace.naming", "lbtrace.text", "lbtrace.validation"),
    *("lbtrace.system", "lbtrace.system.limits"),
}
"""What reads a command line, whatever the command."""

OF_ANSWERS = {
    *("lbtrace.commands.ending", "lbtrace.sinks"),
    *("lbtrace.commands.answers", "lbtrace.commands.attach"),
}

OF_COMMANDS = {
    "attach": {"lbtrace.commands.ending", "lbtrace.sinks"},
    "export": {"lbtrace.commands.ending", "lbtrace.sinks"},
    "count": OF_ANSWERS,
    "latency": OF_ANSWERS,
    "report": OF_ANSWERS | {"lbtrace.commands.export"},
    "stacks": OF_ANSWERS,
    "list": set[str](),
    "doctor": set[str](),
}
"""What the options of each command take besides."""

SLOW = {"cffi", "elftools", "iced_x86", "inspect", "json", "msgspec", "pathlib", "shutil", "urllib"}


def load(*options: object) -> tuple[int, set[str]]:
    """The exit status of lbtrace with these options, and the modules that it imports."""
    return imports("-m", "lbtrace", *options)


def imports(*words: object) -> tuple[int, set[str]]:
    """The exit status of Python with these words, and the modules that it asks for."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    names = {line.split("|")[-1].strip() for line in lines}
    return done.returncode, names - {"imported package"}


@pytest.mark.parametrize("options", [["--help"], ["nonsense"], ["--version"]], ids=str)
def test_no_command_loads_next_to_nothing(options: list[str]) -> None:
    _, loaded = load(*options)
    ours = {name for name in loaded if name.split(".")[0] == "lbtrace"}
    parsing = PARSING - {"lbtrace.commands.options", "lbtrace.validation"}
    assert ours <= parsing | {"lbtrace.commands.help"}
    assert loaded & (SLOW | {"argparse"}) == set()


@pytest.mark.parametrize("option", ["--help", "--nonsense"])
@pytest.mark.parametrize("command", OF_COMMANDS)
def test_options_load_little(command: str, option: str) -> None:
    status, loaded = load(command, option)
    assert status == (0 if option == "--help" else 2)
    ours = {name for name in loaded if name.split(".")[0] == "lbtrace"}
    assert ours <= PARSING | OF_COMMANDS[command] | {f"lbtrace.commands.{command}"}
    assert {name.split(".")[0] for name in loaded} & SLOW == set()


def test_values_of_returns() -> None:
    """They are written twice, because the plan's module takes long to load."""
    assert get_args(Returns) == attach.RETURNS


@pytest.mark.host
def test_a_trace_of_c_loads_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "fib"
    subprocess.run(["gcc", "-O1", "-g", PROGRAM, "-o", program], check=True)
    options = ["attach", "--dry-run", "--func", "fib", "--binary", program]
    status, loaded = load(*options)
    assert status == 0
    assert "lbtrace.plan.planner" in loaded
    assert [name for name in NOT_NEEDED if name.startswith("lbtrace") and not find_spec(name)] == []
    loaded_for_nothing = {
        name for name in loaded for prefix in NOT_NEEDED if f"{name}.".startswith(f"{prefix}.")
    }
    assert loaded_for_nothing == set()


KEPT = {
    *("lbtrace.capture", "lbtrace.capture.check", "lbtrace.capture.layout"),
    *("lbtrace.commands.show", "lbtrace.commands.tracing"),
    *("lbtrace.files", "lbtrace.files.cache", "lbtrace.files.regular"),
    *("lbtrace.model", "lbtrace.model.events", "lbtrace.model.fetching", "lbtrace.model.jumps"),
    *("lbtrace.model.choices", "lbtrace.model.clock", "lbtrace.model.kernel_event"),
    *("lbtrace.model.plan", "lbtrace.model.wire", "lbtrace.model.wire_limits", "lbtrace.probes"),
    *("lbtrace.probes.roles", "lbtrace.probes.source", "lbtrace.probes.sources"),
    *("lbtrace.session", "lbtrace.session.plan_cache"),
    "lbtrace.session.planned_code",
    *("lbtrace.session.prepare", "lbtrace.session.request", "lbtrace.system.file"),
    *("lbtrace.system.lookups", "lbtrace.system.procfs", "lbtrace.system.user"),
    *("lbtrace.targets", "lbtrace.targets.exchanged_stacks", "lbtrace.targets.patched_code"),
    "lbtrace.targets.reach",
    *("lbtrace.values", "lbtrace.values.base", "lbtrace.values.datum", "lbtrace.values.notation"),
}
"""What a plan of C that is kept takes besides the command line, and the files of the kinds of the
values in it."""

LIBRARIES = {"lbtrace", "msgspec"}
"""What such a plan takes besides the standard library."""


@pytest.mark.host
def test_a_plan_that_is_kept_loads_no_planner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "fib"
    subprocess.run(["gcc", "-O1", "-g", PROGRAM, "-o", program], check=True)
    time.sleep(0.1)  # what has just changed is not relied on
    options = ["attach", "--dry-run", "--quiet", "--func", "fib", "--binary", program]
    assert "lbtrace.session.planning" in load(*options)[1]
    _, loaded = load(*options)
    assert "lbtrace.session.plan_cache" in loaded
    ours = {
        n for n in loaded if n.split(".")[0] == "lbtrace" and not n.startswith("lbtrace.values.")
    }
    assert ours <= PARSING | OF_COMMANDS["attach"] | {"lbtrace.commands.attach"} | KEPT
    beyond = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names - LIBRARIES
    of_site = imports("-c", "")[1]  # what Python itself imports where it is installed
    assert beyond <= of_site | {"typing_extensions"}  # which is asked for, and refused
    assert loaded & {"hashlib", "inspect", "pathlib", "signal", "threading", "urllib"} == set()

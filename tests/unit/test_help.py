"""What shells complete, the manual page, and the pages of ``lbtrace help``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lbtrace.commands import COMMANDS, main
from lbtrace.commands.completion import SHELLS

ROOT = Path(__file__).resolve().parents[2]
MADE = ROOT / "lbtrace/commands/shells"

ASK = """
eval "$(lbtrace completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shtab_lbtrace lbtrace "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(tmp_path):
    """What bash proposes for the last of some words."""
    script = tmp_path / "lbtrace"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m lbtrace "$@"\n')
    script.chmod(0o755)

    def ask(*words):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        command = ["bash", "-c", ASK, "bash", "lbtrace", *map(str, words)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.stdout.split()

    return ask


def test_commands_options_and_functions(complete, tmp_path):
    fib = tmp_path / "fib"
    subprocess.run(["gcc", ROOT / "tests/programs/fib.c", "-o", fib], check=True)
    assert complete("at") == ["attach"]
    assert complete("attach", "--sy") == ["--syscall"]
    assert complete("attach", "--returns", "ur") == ["uretprobe"]
    assert complete("attach", "--format", "jso") == ["jsonl"]
    assert complete("report", "--format", "c") == ["csv"]
    assert complete("export", "--format", "speed") == ["speedscope"]
    assert str(os.getpid()) in complete("attach", "--pid", str(os.getpid()))
    assert complete("help", "coming") == ["coming-from"]
    assert complete("attach", "--binary", fib, "--func", "fi") == ["fib"]
    assert complete("attach", "--binary", f"{fib}x", "--func", "fi") == []


@pytest.mark.parametrize("name", [*(f"lbtrace.{shell}" for shell in SHELLS), "lbtrace.1"])
def test_all_options_are_there(name, capsys):
    text = (MADE / name).read_text().replace("\\-", "-")
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        options = {*re.findall(r"^ +(?:-\w, )?--([\w-]+)", capsys.readouterr().out, re.M)}
        assert all(option in text for option in options - {"help"}), command


def test_help_names_the_pages(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "lbtrace help TOPIC" in shown
    assert all(f" {page}" in shown for page in ("coming-from,", "off-cpu,", "values,", "within"))


def test_pages(capsys, monkeypatch):
    monkeypatch.setenv("PAGER", "cat")
    assert main(["help", "where"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/expressions.md").read_text()
    assert main(["help", "stacks"]) == 0  # a command, too
    page = (ROOT / "docs/stacks.md").read_text()
    assert capsys.readouterr().out == f"lbtrace stacks --help shows its options.\n\n{page}"
    assert main(["help", "count"]) == 0
    assert capsys.readouterr().out.startswith("usage: lbtrace count")
    assert main(["help", "nothing"]) == 2
    assert "there is no help on nothing" in (error := capsys.readouterr().err)
    assert "values" in error
    assert "architecture" not in error

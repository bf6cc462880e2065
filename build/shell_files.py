"""Makes what shells and man read, of the options that argparse knows: completions by shtab, the
page by argparse-manpage.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "lbtrace/commands/shells"
MAN = "lbtrace.1"

FILES = ("--binary", "--source", "--provider", "--output", "--lines", "capture")
"""The options and arguments that are files."""

FUNCTIONS = ("--func", "--within")
"""Those that are functions of the binary on the line."""

PROCESSES = "--pid"

PREAMBLE = {
    "bash": """\
_lbtrace_processes() { compgen -W "$(ps -A -o pid=)" -- "$1"; }
_lbtrace_functions() {
  local i binary=
  for ((i = 1; i < ${#COMP_WORDS[@]}; i++)); do
    [[ ${COMP_WORDS[i-1]} == --binary || ${COMP_WORDS[i-1]} == -- ]] && binary=${COMP_WORDS[i]}
  done
  [[ $binary ]] && compgen -W "$(lbtrace completion functions "$binary" "$1" 2>/dev/null)" -- "$1"
}
""",
    "zsh": """\
_lbtrace_functions() {
  local i binary=
  for ((i = 2; i <= $#words; i++)); do
    [[ ${words[i-1]} == --binary || ${words[i-1]} == -- ]] && binary=${(Q)words[i]}
  done
  [[ -n $binary ]] &&
    compadd -- ${(f)"$(lbtrace completion functions "$binary" "$PREFIX" 2>/dev/null)"}
}
""",
    "fish": """\
function _lbtrace_functions
  set -l words (commandline -opc) (commandline -t)
  set -l at (contains -i -- --binary $words; or contains -i -- -- $words)
  and lbtrace completion functions $words[(math $at + 1)] (commandline -t) 2>/dev/null
end
""",
}

COMPLETE = {
    "bash": "_lbtrace_functions",
    "zsh": "_lbtrace_functions",
    "fish": "(_lbtrace_functions)",
}
COMPLETE_PROCESSES = {
    "bash": "_lbtrace_processes",
    "zsh": "_pids",
    "fish": "(__fish_complete_pids)",
}


def make() -> None:
    """Write the files, those that have changed, into lbtrace/commands/shells/."""
    sys.path.insert(0, str(ROOT))
    parser = _parser()
    texts = {
        f"lbtrace.{shell}": shtab.complete(parser, shell, preamble=PREAMBLE) for shell in COMPLETE
    }
    page = Manpage(parser, format="pretty")
    page.manual, page.date, page.description = "User Commands", "", "trace function calls"
    texts[MAN] = str(page)
    MADE.mkdir(exist_ok=True)
    for name, text in texts.items():
        (MADE / name).write_text(text)


def _parser() -> argparse.ArgumentParser:
    """All commands as one parser, as their libraries want it."""
    from lbtrace.commands import COMMANDS, help

    parser = argparse.ArgumentParser("lbtrace", description="Shows how a compiled program runs.")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        module = import_module(f"lbtrace.commands.{name}")
        command = commands.add_parser(name, help=purpose, description=f"{purpose}.".capitalize())
        module.arguments(command)
        for action in command._actions:
            names = {*action.option_strings, action.dest}
            if names & {*FILES}:
                action.complete = shtab.FILE
            elif names & {*FUNCTIONS}:
                action.complete = COMPLETE
            elif PROCESSES in names:
                action.complete = COMPLETE_PROCESSES
            elif "--format" in names and action.choices is None:  # its help begins with them
                action.choices = action.help.partition(" (")[0].split(", ")
    topics = commands.add_parser("help", help="show a page of the documentation")
    topics.add_argument("topic", choices=(*help.pages(), *COMMANDS))
    return parser


if __name__ == "__main__":
    make()

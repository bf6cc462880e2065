"""``lbtrace completion``: what a shell completes on lbtrace's command lines."""

from __future__ import annotations

import argparse
from importlib import resources

from lbtrace.commands.rows import write_lines

SHELLS = ("bash", "zsh", "fish")

EPILOG = """\
examples:
  eval "$(lbtrace completion bash)"                  in ~/.bashrc
  eval "$(lbtrace completion zsh)"                   in ~/.zshrc, after compinit
  lbtrace completion fish | source                   in ~/.config/fish/config.fish
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "what", metavar="SHELL", choices=(*SHELLS, "functions"), help=", ".join(SHELLS)
    )
    # What the scripts ask: lbtrace completion functions BINARY BEGINNING
    parser.add_argument("binary", nargs="?", default="", help=argparse.SUPPRESS)
    parser.add_argument("beginning", nargs="?", default="", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the script of a shell, or names of functions. Raises `BinaryError`."""
    if args.what == "functions":
        # Imported here because scripts need no symbols.
        from lbtrace.elf import symbols
        from lbtrace.elf.image import Image
        from lbtrace.plan import patterns

        image = Image.open(args.binary, any_machine=True)
        table = symbols.read(image)
        names = {f.name for f in patterns.readable(table.functions) if "(" not in f.name}
        write_lines(name for name in sorted(names) if name.startswith(args.beginning))
    else:
        script = resources.files("lbtrace.commands").joinpath(f"shells/lbtrace.{args.what}")
        print(script.read_text(), end="")
    return 0

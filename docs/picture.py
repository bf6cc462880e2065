"""Draws docs/fib.svg from what lbtrace prints on a terminal: make picture."""

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    with TemporaryDirectory() as here:
        source = ROOT / "tests/programs/fib.c"
        subprocess.run(["gcc", "-O1", "-g", source, "-o", Path(here, "fib")], check=True)
        draw(shown(Path(here)))


def shown(here: Path) -> str:
    """What a terminal shows of lbtrace, in a directory with the program."""
    words = [sys.executable, "-m", "lbtrace", "attach", "--func", "fib", "--", "./fib", "4"]
    leader, follower = os.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    process = subprocess.Popen(words, cwd=here, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    printed = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # EIO: the last writer has closed the terminal
            break
        if not chunk:
            break
        printed += chunk
    process.wait()
    return printed.decode().replace("\r\n", "\n")


def draw(text: str) -> None:
    """Make the picture of what a terminal shows."""
    console = Console(record=True, width=72, file=StringIO())
    console.print(Text("$ lbtrace attach --func fib -- ./fib 4", style="bold"))
    console.print(Text.from_ansi(text))
    console.save_svg(str(ROOT / "docs/fib.svg"), title="lbtrace")


if __name__ == "__main__":
    main()

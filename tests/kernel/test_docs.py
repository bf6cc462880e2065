"""The examples of the documentation: they run, and print what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def pages_with(wanted: str) -> list[Path]:
    """The pages that have a block of a kind."""
    return [p for p in PAGES if wanted in {kind for kind, _ in BLOCK.findall(p.read_text())}]


VARIES = (
    (re.compile(r"\d+(?=  \S+$)", re.M), "PID"),
    (re.compile(r" *\d+(\.\d+)? (ns|µs|ms|s)(?= )"), " TIME"),
    (re.compile(r"^( +|.*TIME +)\d+(?=  )", re.M), " THREAD"),
    (re.compile(r"0x[0-9a-f]+ +\d+"), "ADDRESS SIZE"),
    (re.compile(r"build-id [0-9a-f]+"), "build-id"),
)
"""What differs from run to run and from compiler to compiler."""


def settled(text: str) -> str:
    for pattern, words in VARIES:
        text = pattern.sub(words, text)
    return "\n".join(" ".join(line.split()) for line in sorted(text.splitlines()))


@pytest.fixture
def here(programs: Path, tmp_path: Path) -> Path:
    """A directory with the samples, where lbtrace is in PATH."""
    for name in ("fib", "trace"):
        shutil.copy(programs / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/lbtrace"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m lbtrace "$@"\n')
    script.chmod(0o755)
    return tmp_path


def environment(here: Path) -> dict[str, str]:
    return {"PATH": f"{here}/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("page", pages_with("console"), ids=lambda page: page.name)
def test_consoles(page: Path, here: Path) -> None:
    for kind, block in BLOCK.findall(page.read_text()):
        if kind != "console":
            continue
        for example in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, expected = example.partition("\n")
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=here,
                env=environment(here),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            # A program's own output may come before or after the trace's.
            assert settled(done.stdout) == settled(expected), command


def test_picture() -> None:
    """It shows what the first example does."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for attributes, text in re.findall(
        r"<text([^>]*)>(.*?)</text>", (ROOT / "docs/fib.svg").read_text(), re.S
    ):
        x, y = (float(n) for n in re.findall(r' [xy]="([\d.]+)"', attributes)[:2])
        rows.setdefault(y, []).append((x, unescape(text).replace("\xa0", " ")))
    lines = ["".join(text for _, text in sorted(rows[y])) for y in sorted(rows)]
    picture = "\n".join(line for line in lines if line.strip() not in ("", "lbtrace"))
    console = BLOCK.search((ROOT / "README.md").read_text())
    assert console
    assert bare(picture) == bare(console[2])


def bare(text: str) -> list[str]:
    """Without numbers that vary, and spaces, in order."""
    lines = ["".join(line.split()) for line in text.splitlines()]
    return [re.sub(r"^([\d.]+[nµm]?s)?\d+(?=[^\d])", "", line) for line in lines if line]


@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python(page: Path, here: Path) -> None:
    subprocess.run(
        ["bin/lbtrace", "attach", "--func", "fib", "-o", "fib.lbt", "--", "./fib", "5"],
        cwd=here,
        capture_output=True,
        check=True,
    )
    blocks = BLOCK.findall(page.read_text())
    for number, (kind, block) in enumerate(blocks):
        if kind != "python":
            continue
        following, expected = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
        done = subprocess.run(
            [sys.executable, "-c", block],
            cwd=here,
            env=environment(here),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if following == "text":
            # The traced program prints a line of its own, before or between.
            assert set(expected.splitlines()) <= set(done.stdout.splitlines())

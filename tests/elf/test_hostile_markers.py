"""Markers whose notes nobody would write: names that are no names, and too much of everything."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from lbtrace.abi.marker_operands import count_operands, read_operands
from lbtrace.elf import data_symbols, stap_notes, strings, symbols
from lbtrace.elf.data_symbols import find_address
from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import NAME_SIZE, read_markers, unread
from lbtrace.plan.markers import known
from lbtrace.providers import UNDEFINED, find_definitions

PROGRAMS = Path(__file__).parents[1] / "programs"

ODD = [
    *(b"", b".", b"..", b"../providers/libc", b"/etc/passwd", b"libc.d", b"libc\n", b"__init__.py"),
    *(b"a" * 250, b"a" * 254, b"a" * 4096, b"a" * 100_000, "é".encode() * 130, b"\xff\xfe", b"a/b"),
    *(b"\x1b]0;x\x07", "\u202e".encode(), b"C:\\nul", b"*", b"~", b"-"),
]


def note(provider: bytes, name: bytes, operands: bytes = b"", address: int = 0) -> bytes:
    """A note of a marker."""
    described = struct.pack("<QQQ", address, 0, 0) + b"\0".join([provider, name, operands, b""])
    header = struct.pack("<III", 8, len(described), 3) + b"stapsdt\0"
    return header + described + bytes(-len(described) % 4)


def with_notes(path: Path, program: str, notes: Iterable[bytes]) -> str:
    """A copy of ``program`` at ``path`` that has ``notes``."""
    content = path.with_suffix(".notes")
    content.write_bytes(b"".join(notes))
    added = ["--add-section", f".note.stapsdt={content}"]
    subprocess.run(["objcopy", *added, program, path], check=True)
    return str(path)


@pytest.fixture(scope="module")
def fib(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("fib") / "fib"
    subprocess.run(["gcc", "-g", "-o", path, PROGRAMS / "fib.c"], check=True)
    return str(path)


@pytest.mark.parametrize("name", [each.decode(errors="replace") for each in ODD] + ["a\0b"])
def test_names_lead_to_no_file_of_definitions(name: str) -> None:
    assert find_definitions(name) is UNDEFINED


@pytest.mark.parametrize("words", [("list",), ("attach", "--dry-run")])
def test_markers_of_any_name_are_shown(fib: str, tmp_path: Path, words: tuple[str, ...]) -> None:
    """All of them, in lines that are no longer than names may be."""
    (main,) = symbols.read(Image.open(fib)).functions.named("main")
    notes = [note(each, b"x", b"-4@%edi", main.address) for each in ODD]
    odd = with_notes(tmp_path / "odd", fib, notes)
    done = subprocess.run(
        [sys.executable, "-m", "lbtrace", *words, "--usdt", "*", "--binary", odd],
        capture_output=True,
        text=True,
        check=True,
    )
    shown = [line for line in done.stdout.splitlines() if ":x" in line]
    assert len(shown) >= len(ODD) - 1  # two are alike once they are cut
    assert max(map(len, done.stdout.splitlines() + done.stderr.splitlines())) < 4 * NAME_SIZE


def test_names_and_arguments_are_cut(fib: str, tmp_path: Path) -> None:
    long = with_notes(tmp_path / "long", fib, [note(b"a" * 5000, b"b" * 5000, b"8@%rdi " * 1000)])
    (marker,) = read_markers(Image.open(long))
    assert marker.provider == "a" * NAME_SIZE + strings.CUT
    assert marker.name == "b" * NAME_SIZE + strings.CUT
    operands = read_operands("x86_64", marker.arguments, 0, lambda name: None)
    assert len(operands) < 1000
    assert not any(each.location.reason for each in operands[:-1])
    assert "cannot be read" in operands[-1].location.reason


OPERANDS = [b"8@$1234567", b"$1234567", b"8@-8(%rsp)", b"%r15d", b"8@%r15"]


@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("missing", range(1, 9))
def test_an_operand_that_is_cut_is_no_other_one(
    fib: str, tmp_path: Path, operands: bytes, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stap_notes, "ARGUMENTS", max(1, len(operands) - missing))
    (marker,) = read_markers(
        Image.open(with_notes(tmp_path / "cut", fib, [note(b"a", b"b", operands)]))
    )
    found = read_operands("x86_64", marker.arguments, 0, lambda name: None)
    assert all("cannot be read" in each.location.reason for each in found)


@pytest.mark.parametrize(("size", "most"), [(1 << 20, 10), (400, 1000)])
def test_what_is_too_much_is_left_out_and_said(
    fib: str, tmp_path: Path, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stap_notes, "LARGEST", size)
    monkeypatch.setattr(stap_notes, "MOST", most)
    notes = [note(b"shop", b"sale%03d" % number) for number in range(100)]
    image = Image.open(with_notes(tmp_path / "many", fib, notes))
    found = read_markers(image)
    assert 0 < len(found) <= 10
    assert [marker.name for marker in found] == [f"sale{n:03}" for n in range(len(found))]
    said = f"{image.path}: only its first {len(found)} markers (USDT) are read"
    assert unread(image) == [said]
    assert not unread(Image.open(with_notes(tmp_path / "few", fib, notes[: len(found)])))


def test_providers_that_are_unknown_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions are joined for those that have some, however many others there are."""
    joined: list[object] = []
    original = type(UNDEFINED).joined

    def count(self, other):
        joined.append(other)
        return original(self, other)

    monkeypatch.setattr(type(UNDEFINED), "joined", count)
    markers = [stap_notes.Marker(f"unknown{n}", "x", 0) for n in range(1000)]
    found = known([*markers, stap_notes.Marker("libc", "setjmp", 0)])
    assert "libc:setjmp" in found.markers
    assert len(joined) == 1


def test_spaces_are_looked_at_once() -> None:
    """A row of them is no reason to look at each rest of it: four thousand took a tenth of a
    second."""
    scanned = "8@%rdi" + " " * 200_000 + "x"
    (operand,) = read_operands("x86_64", scanned, 0, lambda name: None)
    assert "cannot be read" in operand.location.reason
    assert count_operands("x86_64", "8@%rdi   \t -4@%esi  8@ 8(%rsp)") == 3


def test_names_in_operands_are_looked_for_once(fib: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not more than a few, in an index."""
    image = Image.open(fib)
    asked: list[str] = []
    original = data_symbols._addresses
    monkeypatch.setattr(
        data_symbols, "_addresses", lambda *given: asked.append(given[2]) or original(*given)
    )
    (main,) = symbols.read(image).functions.named("main")
    for _ in range(3):
        assert find_address(image, "main") == main.address
        for number in range(1000):
            assert find_address(image, f"nothing{number}") is None
    assert len(asked) == len({*asked}) * 2 <= 2 * data_symbols.NAMES

"""Symbols that lie amid instructions, or give sizes beyond the file: the program does the same."""

from __future__ import annotations

import struct
import subprocess
import time
from pathlib import Path

import pytest

SOURCE = r"""
#include <stdio.h>
unsigned long outer(long n), short_of(long n);
__asm__(
    ".globl outer, amid, unsized, short_of, in_short\n"
    ".type outer, @function\n.type amid, @function\n.type unsized, @function\n"
    ".type short_of, @function\n.type in_short, @function\n"
    "outer: movabs $0xc3c3c3c3c3c3c3c3, %rax\n .set amid, .-4\n .size amid, 4\n"
    " add %rdi, %rax\n .set unsized, .-1\n ret\n .size outer, .-outer\n"
    "short_of: push %rbx\n .size short_of, .-short_of\n"
    " movabs $0x1122334455667788, %rbx\n .set in_short, .-8\n .size in_short, 8\n"
    " lea (%rbx,%rdi), %rax\n pop %rbx\n ret\n");
int main(void)
{
    for (long n = 0; n < 3; n++)
        printf("%lx %lx\n", outer(n), short_of(n));
    return 5;
}
"""

INNER = ("amid", "unsized", "in_short")
RETURNS = ("auto", "uretprobe", "none")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path / "symbols"
    source = tmp_path / "symbols.c"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-O1", source, "-o", made], check=True)
    return made


@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize("inner", INNER)
def test_a_symbol_amid_an_instruction(lbtrace, program: Path, inner: str, returns: str) -> None:
    """The instruction stays as it is, alone and with other functions; a note names the symbol."""
    plain = subprocess.run([program], capture_output=True, text=True, check=False)
    asked = ["--func", inner, "--func", "outer", "--func", "short_of"]
    done = lbtrace("attach", *asked, "--returns", returns, "-o", "/dev/null", "--", program)
    assert done.stdout == plain.stdout
    assert done.returncode == plain.returncode == 5
    assert f"{inner}: left out because the symbol is amid an instruction" in done.stderr
    assert "6 calls" in done.stderr


def test_all_functions(lbtrace, program: Path) -> None:
    plain = subprocess.run([program], capture_output=True, text=True, check=False)
    done = lbtrace("attach", "--func", "*", "-o", "/dev/null", "--", program)
    assert (done.stdout, done.returncode) == (plain.stdout, 5)
    assert all(inner in done.stderr for inner in INNER)


def test_only_a_symbol_amid_an_instruction(lbtrace, program: Path) -> None:
    done = lbtrace("attach", "--func", "amid", "--", program)
    assert done.returncode == 1
    assert "amid: left out because the symbol is amid an instruction" in done.stderr
    listed = lbtrace("list", "--binary", program, "--func", "amid", "--sites")
    assert "no probe" in listed.stdout


def give_size(path: Path, name: bytes, size: int) -> None:
    """Write another size into the symbols ``name`` of a file."""
    data = bytearray(path.read_bytes())
    (start,) = struct.unpack_from("<Q", data, 0x28)
    (count,) = struct.unpack_from("<H", data, 0x3C)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * n) for n in range(count)]
    for row in rows:
        if row[1] not in (2, 11):
            continue
        for at in range(row[4], row[4] + row[5], 24):
            into = rows[row[6]][4] + struct.unpack_from("<I", data, at)[0]
            if data[into : data.index(0, into)] == name:
                struct.pack_into("<Q", data, at + 16, size)
    path.write_bytes(data)


@pytest.mark.parametrize("size", [1 << 40, 1 << 44, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("more", [[], ["--no-cache"], ["--returns", "none"]])
def test_a_size_beyond_the_file(lbtrace, program: Path, size: int, more: list[str]) -> None:
    give_size(program, b"outer", size)
    begun = time.monotonic()
    done = lbtrace("attach", "--func", "outer", *more, "-o", "/dev/null", "--", program)
    assert done.returncode == 5
    assert "3 calls" in done.stderr
    dry = lbtrace("attach", "--func", "outer", *more, "--dry-run", "--binary", program)
    assert dry.returncode == 0
    assert time.monotonic() - begun < 30

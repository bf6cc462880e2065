"""Text of wide characters, as the source has it: live and read back from a capture."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

C = r"""
#include <wchar.h>
#include <uchar.h>
struct record { int n; wchar_t wide[6]; char16_t half[8]; };
__attribute__((noinline)) int take(const wchar_t *w, char16_t *u, char32_t *c, struct record *r)
{
    __asm__ volatile("" : : "r"(w), "r"(u), "r"(c), "r"(r) : "memory");
    return 1;
}
int main(void)
{
    struct record record = {1, L"w\u00efde", u"six\U0001F600"};
    char16_t half[] = u"a\U0001F600b";
    char32_t whole[] = U"z\U0001F601";
    take(L"h\u00e9", half, whole, &record);
    take(0, u"", U"", &record);
    take(L"0123456789012345678901234567890123456789012345678901234567890123456789", half, whole, 0);
    return 0;
}
"""

CPP = r"""
#include <string>
__attribute__((noinline)) int hold(const std::wstring &w, std::u16string &u, std::u32string &c,
                                   std::wstring_view v)
{
    __asm__ volatile("" : : "r"(&w), "r"(&u), "r"(&c), "r"(v.data()) : "memory");
    return 1;
}
int main()
{
    std::u16string half = u"sixteen\U0001F600 and so on";
    std::u32string whole = U"";
    return hold(L"w\u00efde", half, whole, L"vi\u00e9w") - 1;
}
"""


def values(output: str) -> list[list[Any]]:
    records = [json.loads(line) for line in output.splitlines() if line[0] == "{"]
    return [[each["value"] for each in r["args"]] for r in records if r["type"] == "call"]


@pytest.fixture(scope="module", params=["gcc", "clang"])
def compiler(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(compiler: str, folder: Path, name: str, source: str, *options: str) -> Path:
    (folder / name).write_text(source)
    plus = {"gcc": "g++", "clang": "clang++"}
    command = plus[compiler] if name.endswith("cc") else compiler
    subprocess.run([command, "-g", "-O1", "-o", "prog", name, *options], cwd=folder, check=True)
    return folder / "prog"


def test_of_c(lbtrace: Run, compiler: str, tmp_path: Path) -> None:
    program = made(compiler, tmp_path, "a.c", C)
    asked = ("w", "u", "c", "r->wide", "r->half", "r->wide[1]", "str(w)")
    words = ("--func=take", *(f"--arg={each}" for each in asked))
    done = lbtrace("attach", *words, "--format=jsonl", "--", program)
    expected = [
        ["hé", "a😀b", "z😁", "wïde", "six😀"],
        ["0x0", "", "", "wïde", "six😀"],
        ["0123456789" * 6 + "0123", "a😀b", "z😁", None, None],
    ]
    assert [each[:5] for each in values(done.stdout)] == expected, done.stderr
    assert values(done.stdout)[0][6] == "hé"


@pytest.mark.parametrize("library", [(), ("-stdlib=libc++",)])
def test_of_cpp(lbtrace: Run, compiler: str, library: tuple[str, ...], tmp_path: Path) -> None:
    if library and compiler == "gcc":
        return  # it knows one library
    program = made(compiler, tmp_path, "a.cc", CPP, "-std=c++17", *library)
    done = lbtrace("attach", "--func=hold", "--format=jsonl", "--", program)
    assert values(done.stdout) == [["wïde", "sixteen😀 and so on", "", "viéw"]], done.stderr

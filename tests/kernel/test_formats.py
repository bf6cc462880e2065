"""What functions that take a format are passed, compared with what a program passes."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.test_libc import strip_c_library

FUNCTIONS = {
    "printf": "",
    "fprintf": "stdout, ",
    "dprintf": "1, ",
    "sprintf": "buffer, ",
    "snprintf": "buffer, sizeof buffer, ",
    "asprintf": "&made, ",
    "syslog": "7, ",
    "warnx": "",
    "error": "0, 0, ",
}
"""The arguments before the format."""

SIZES = {"hh": 8, "h": 16, "": 32, "l": 64, "ll": 64, "j": 64, "z": 64, "t": 64}
WORDS = ["", "w", "foo", "\u20ac b", "x" * 90]


class Call:
    """A call with random arguments, as C writes it, and what is expected to be shown of it."""

    def __init__(self, dice: random.Random) -> None:
        self.name = dice.choice([*FUNCTIONS])
        self.format = ""
        self.passed: list[str] = []
        self.shown: list[object] = []
        for _ in range(dice.choice([0, 1, 2, 3, 4, 5, 7, 10])):
            self._convert(dice)

    def _take(self, passed: str, shown: object) -> None:
        self.passed.append(passed)
        self.shown.append(shown)

    def _convert(self, dice: random.Random) -> None:
        self.format += dice.choice(["", "=", "%%", "%m"]) + "%" + dice.choice(["", "-", "0", "#"])
        if dice.random() < 0.1:
            self.format += "*"
            self._take("7", 7)
        kind = dice.choice("diuxXocsssspfgeLln")
        if kind in "diuxXo":
            length = dice.choice([*SIZES])
            bits = SIZES[length]
            low = -(1 << bits - 1) if kind in "di" else 0
            number = dice.choice([dice.randrange(low, low + (1 << bits)), 0, 1, 4096, 70_000])
            number = min(number, low + (1 << bits) - 1)
            self.format += length + kind
            # what is left of the register is no part of it
            cast = "(long)" if bits == 64 else "(int)" if dice.random() < 0.5 else "(long)"
            self._take(f"{cast}{number % (1 << 64)}ul", number)
        elif kind == "c":
            self.format += "c"
            self._take("'q'", "q")
        elif kind == "s":
            text = dice.choice([*WORDS, None])
            count = dice.choice([-1, -1, 0, 3]) if text is not None else -1
            if count >= 0 and dice.random() < 0.5:
                self.format += ".*"
                self._take(str(count), count)
            elif count >= 0:
                self.format += f".{count}"
            self.format += "s"
            data = (text or "").encode()
            passed = "(char *)0" if text is None else json.dumps(text, ensure_ascii=False)
            self._take(passed, "0x0" if text is None else data[: count if count >= 0 else 64])
        elif kind in "pn":
            self.format += kind
            self._take("(void *)&number", "address")
        elif kind == "L":
            self.format += "Lf"
            self._take("2.5L", 2.5)
        elif kind == "l":
            self.format += "lc"
            self._take("(wint_t)L'w'", "w")
        else:
            self.format += kind
            self._take("1.25", 1.25)

    @property
    def source(self) -> str:
        values = "".join(f", {each}" for each in self.passed)
        return f'format = "{self.format}"; {self.name}({FUNCTIONS[self.name]}format{values});'


def is_as_passed(shown: object, value: dict[str, object], number: int) -> bool:
    """Whether a value is what was passed; a register for floats cannot be read, and not all texts
    are."""
    why = value.get("unreadable", "")
    if isinstance(shown, float):
        return value["value"] == shown or str(why).startswith("float in ")
    if isinstance(shown, bytes):
        text = str(value["value"]).encode("utf-8", "surrogateescape")
        whole = text == shown or ("length" in value and len(shown) - len(text) in range(4))
        return why == "too many values" if why and number > 3 else whole and shown.startswith(text)
    return str(value["value"]).startswith("0x7f") if shown == "address" else value["value"] == shown


@pytest.mark.parametrize("options", ["-O2", "-O2 -D_FORTIFY_SOURCE=2", "-O0"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("library", ["declared", "stripped"])
def test_what_formats_ask_for(
    lbtrace: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    compiler: str,
    options: str,
    library: str,
) -> None:
    if not shutil.which(compiler):
        compiler = "cc"
    dice = random.Random(f"{os.environ['LBTRACE_SEED']} {compiler} {options} {library}")
    calls = [Call(dice) for _ in range(300)]
    heads = "#define _GNU_SOURCE\n" + "".join(
        f"#include <{each}.h>\n" for each in ("err", "error", "stdio", "syslog", "wchar")
    )
    body = "\n".join(call.source for call in calls)
    # compilers know what a format that never changes is for
    variables = "const char *volatile format; char buffer[4096], *made; long number;"
    source = f"{heads}int main() {{ {variables}\n{body}\n}}\n"
    (tmp_path / "calls.c").write_text(source)
    program, capture = tmp_path / "calls", tmp_path / "run.lbt"
    flags = [*options.split(), "-fno-builtin", "-w", "-Wl,-rpath,$ORIGIN"]
    subprocess.run([compiler, *flags, tmp_path / "calls.c", "-o", program], check=True)
    if library == "stripped":
        strip_c_library(program)
    names = ",".join([*FUNCTIONS, *["__*_chk"] * ("FORTIFY" in options)])
    lbtrace("attach", "--func", names, "-o", capture, "--", program)
    done = lbtrace("export", capture, "--format", "jsonl")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    shown = [record for record in records if record.get("depth") == 0]
    assert len(shown) == len(calls)
    for call, record in zip(calls, shown, strict=True):
        own = [each for each in record["args"] if not each["name"]]
        is_cut = own and own[-1].get("unreadable") == "…"
        values = own[:-1] if is_cut else own
        assert is_cut or len(values) == len(call.shown), (call.source, record)
        fewest = 7 - 3 * call.shown.count(2.5)  # a long double takes the stack, and is aligned
        assert len(values) >= min(fewest, len(call.shown)) or len(call.format) > 63
        for number, (passed, value) in enumerate(zip(call.shown, values, strict=False)):
            assert is_as_passed(passed, value, number), (call.source, number, record)

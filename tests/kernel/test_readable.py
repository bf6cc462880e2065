"""Values and names of C++ as people read and write them, against what the program says of each
call."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (ROOT / "tests/programs/readable.cc").read_text()
COMMANDS = (
    *("g++ -O2", "clang++ -O0 -stdlib=libc++"),
    *(pytest.param(c, marks=pytest.mark.slow) for c in ("g++ -O0", "clang++ -O2 -stdlib=libc++")),
)
CALL = re.compile(r" *[\d.]+ .?s +\d+  (\w.*)")

Compile = Callable[[str, list[str], str], Path]


@pytest.mark.parametrize("command", COMMANDS)
def test_calls(
    compiled: Compile, lbtrace: Callable[..., Any], tmp_path: Path, command: str
) -> None:
    program = compiled("readable", [*command.split(), "-g", "-std=c++20", "-w"], PROGRAM)

    def trace(*options: str) -> tuple[list[str], list[str]]:
        """The calls of a trace that was captured and read back, and what the program says."""
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.txt"
        done = lbtrace("attach", *options, "-o", out, "--", program)
        assert done.returncode == 0, done.stderr
        lines = map(CALL.fullmatch, out.read_text().splitlines())
        return [line[1] for line in lines if line], done.stdout.splitlines()

    seen, truth = trace("--func", "*traced_*")
    assert seen == truth
    through = ("--arg", "r.customer->id", "--arg", "key=r.customer.name", "--arg", "r.owned")
    seen, _ = trace("--func", "traced_request", "--where", "r.customer != nullptr", *through)
    assert seen == ['traced_request(r.customer->id=7, key="octi", r.owned=nullptr) = 42']
    if "libc++" not in command:  # as scripts name members that are not for users
        own = (
            "--arg",
            "id=r.customer._M_ptr->id",
            "--arg",
            "r.customer._M_refcount._M_pi->_M_use_count",
        )
        seen, _ = trace("--func", "traced_request", *own)
        assert seen == ["traced_request(id=7, r.customer._M_refcount._M_pi->_M_use_count=2) = 42"]
    seen, _ = trace("--func", "Shape::Shape")  # their objects are not of a class yet
    assert [re.sub("0x[0-9a-f]+", "0x", call) for call in seen] == [
        f"Shape::Shape(this=0x, n={n})" for n in (0, 4)
    ]
    seen, truth = trace("--func", "Cache<int, std::shared_ptr<Customer> >::traced_get")
    assert seen == truth[-1:]

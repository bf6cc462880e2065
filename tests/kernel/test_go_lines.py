"""Variables at lines of Go programs are those that these print, or are unknown."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lbtrace
from lbtrace import Unreadable

pytestmark = pytest.mark.host

LOGGED = re.compile(r"number \((.+?)\) other \((.+?)\) both \((.+?)\) text (\d+)")
COMPLEX = re.compile(r"[-+]?[\d.]+")


@pytest.mark.parametrize("version", ["1.15", "1.27.3"])
@pytest.mark.parametrize("kind", ["plain", "unoptimised"])
def test_a_value_of_which_half_is_kept(
    go_program: Callable[..., Path], version: str, kind: str
) -> None:
    """Go describes it as if that half were all of it: so it is unknown. Without ``-N`` what is not
    in pieces is such a value."""
    program = str(go_program("halves", version, kind))
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    true = LOGGED.findall(done.stdout)
    with lbtrace.trace(
        command=[program], binary=program, lines="halves.go:13", locals=True
    ) as session:
        points = list(session.calls())
    assert len(true) == 5
    # A line that the compiler has put in several places counts each.
    assert len(points) % len(true) == 0
    each = len(points) // len(true)
    for number, point in enumerate(points):
        *numbers, length = true[number // each]
        shown = {argument.name: argument.value for argument in point.args}
        for name, logged in zip(("number", "other", "both"), numbers, strict=True):
            for found, part in zip(parts(shown[name]), COMPLEX.findall(logged), strict=True):
                assert isinstance(found, Unreadable) or found == float(part), name
            if kind == "unoptimised":
                assert not is_unknown(shown[name])
        text = shown["text"]
        assert is_unknown(text) or len(str(text)) == int(length)


def is_unknown(value: Any) -> bool:
    return isinstance(value, Unreadable)


def parts(value: Any) -> list[Any]:
    if isinstance(value, Unreadable):
        return [value, value]
    found = dict(value)
    return [found["real"], found["imag"]]

"""Debug information that is damaged: an error or the convention, soon, never a crash."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbtrace.elf import dwarf, symbols
from lbtrace.elf.image import Image
from lbtrace.errors import LbtraceError

SECTIONS = (".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_aranges")
WHICH, BYTES = st.integers(0, 4), st.binary(min_size=1, max_size=8)

PATIENCE = 20.0
"""Seconds for one damaged file of a few kilobytes: a bound, not a measurement."""


@pytest.fixture(scope="session")
def sample(build):
    """A small program's bytes, and where its debug information is in them."""
    path = build("-g", "-O1")
    image = Image.open(path)
    places = [s for s in (image.section(name) for name in SECTIONS) if s is not None]
    return Path(path).read_bytes(), [(s.offset, s.size) for s in places]


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    damage=st.lists(
        st.tuples(WHICH, st.floats(0, 1, exclude_max=True), BYTES), min_size=1, max_size=6
    )
)
def test_damaged_bytes(sample, tmp_path, damage):
    content, places = sample
    mutated = bytearray(content)
    for section, where, replacement in damage:
        offset, size = places[section % len(places)]
        at = offset + int(where * size)
        fitting = replacement[: offset + size - at]
        mutated[at : at + len(fitting)] = fitting
    path = tmp_path / "damaged"
    path.write_bytes(mutated)
    start = time.monotonic()
    try:
        image = Image.open(str(path))
        dwarf.prototypes(image, symbols.read(image).functions, 3)
    except LbtraceError:
        pass
    assert time.monotonic() - start < PATIENCE

"""Debug information that is damaged: an error or the convention, soon, never a crash."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbtrace.dwarf import prototypes
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.errors import LbtraceError

SECTIONS = (
    *(".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_types"),
    *(".debug_addr", ".debug_str_offsets", ".debug_rnglists", ".debug_loclists"),
    *(".debug_ranges", ".debug_loc"),
)
FLAVOURS = (
    ("gcc", "-g", "-O1"),
    ("clang", "-g", "-O1"),
    ("clang", "-gdwarf-4", "-fdebug-types-section"),
    ("gcc", "-gdwarf-2", "-O1"),
)
WHICH, BYTES = st.integers(0, 10), st.binary(min_size=1, max_size=8)

PATIENCE = 20.0
"""Seconds for one damaged file of a few kilobytes: a bound, not a measurement."""


@pytest.fixture(scope="session", params=FLAVOURS, ids=" ".join)
def sample(build, request):
    """A small program's bytes, and where its debug information is in them."""
    compiler, *flags = request.param
    path = build(*flags, compiler=compiler)
    image = Image.open(path)
    places = [s for s in (image.section(name) for name in SECTIONS) if s is not None]
    return Path(path).read_bytes(), [(s.offset, s.size) for s in places]


@settings(
    max_examples=60,
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
        prototypes.prototypes(image, symbols.read(image).functions, 3)
    except LbtraceError:
        pass
    assert time.monotonic() - start < PATIENCE


def damaged(build, tmp_path, name, content):
    """A program one of whose debug sections begins with something else."""
    path = build("-g", "-O1", compiler="clang")
    section = Image.open(path).section(name)
    assert section is not None
    raw = bytearray(Path(path).read_bytes())
    content = content[: section.size]
    raw[section.offset : section.offset + len(content)] = content
    (tmp_path / "damaged").write_bytes(raw)
    return str(tmp_path / "damaged")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".debug_info", b"\xff" * 8000),  # lengths that are reserved
        (".debug_info", bytes(8000)),  # units without length
        (".debug_info", b"\xff\xff\xff\xff" + b"\xff" * 8),  # the longest unit there is
        (".debug_abbrev", b"\xff" * 8000),  # numbers without end
        (".debug_abbrev", b"\x01\x2e\x01" + b"\x03\x16" * 4000),  # forms in entries
        (".debug_abbrev", b"\x01\x11\x01\x00\x00" * 1600),  # one code for all
        (".debug_str_offsets", b"\xff" * 8000),
        (".debug_addr", b"\xff" * 8000),
    ],
)
def test_sections_of_nonsense(build, tmp_path, name, content):
    image = Image.open(damaged(build, tmp_path, name, content))
    found = prototypes.prototypes(image, symbols.read(image).functions, 3)
    assert not found.skipped


def assembled(tmp_path, information, abbreviations, **sections):
    """A program with debug information that no compiler would write."""
    text = [".text", ".globl main", ".type main, @function", "main: ret", "last: nop"]
    all = {"info": information, "abbrev": abbreviations, **sections}
    for name, lines in all.items():
        text += [f'.section .debug_{name},"",@progbits', *lines]
    source = tmp_path / "source.s"
    source.write_text("\n".join(text) + "\n")
    program = tmp_path / "program"
    subprocess.run(["gcc", "-nostartfiles", "-Wl,-e,main", source, "-o", program], check=True)
    image = Image.open(str(program))
    start = time.monotonic()
    found = prototypes.prototypes(image, symbols.read(image).functions, 3)
    assert time.monotonic() - start < PATIENCE
    return found.found


UNIT = (
    *(".long end - begin", "begin: .short 4", ".long 0", ".byte 8"),
    *(".uleb128 1", ".quad main", ".quad last - main"),
)
FUNCTION = (
    ".uleb128 2",
    ".quad main",
    ".long {type} - begin + 4",
    ".uleb128 3",
    ".long {type} - begin + 4",
)
ABBREVIATIONS = (
    ".uleb128 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0",  # a unit: low_pc, high_pc
    ".uleb128 2, 0x2e, 1, 0x11, 1, 0x49, 0x13, 0, 0",  # a function: low_pc, type
    ".uleb128 3, 0x05, 0, 0x49, 0x13, 0, 0",  # a parameter: type
    ".uleb128 4, 0x16, 0, 0x49, 0x13, 0, 0",  # a typedef
    ".uleb128 5, 0x13, 1, 0x0b, 0x0f, 0, 0",  # a structure: byte_size
    ".uleb128 6, 0x0d, 0, 0x49, 0x13, 0x38, 0x0f, 0, 0",  # a member: type, location
    ".uleb128 7, 0x0f, 0, 0x49, 0x13, 0, 0",  # a pointer
    ".uleb128 8, 0x01, 1, 0x49, 0x13, 0, 0",  # an array
    ".uleb128 9, 0x21, 0, 0x37, 0x0f, 0, 0",  # its count
    ".uleb128 0",
)


def unit(type, *entries):
    function = [line.format(type=type) for line in FUNCTION]
    return [*UNIT, *function, ".byte 0", *entries, ".byte 0", "end:"]


def reference(name):
    return f".long {name} - begin + 4"


def test_what_is_assembled_here_can_be_read(tmp_path):
    found = assembled(tmp_path, unit("a", "a: .uleb128 5, 4", ".byte 0"), ABBREVIATIONS)
    (prototype,) = found.values()
    assert prototype.parameters[0].size == 4


def test_types_that_go_in_a_circle(tmp_path):
    typedefs = (
        *("a: .uleb128 4", reference("b")),
        *("b: .uleb128 4", reference("a")),
    )
    assert not assembled(tmp_path, unit("a", *typedefs), ABBREVIATIONS)
    structure = (*("a: .uleb128 5, 64", ".uleb128 6", reference("a"), ".uleb128 0", ".byte 0"),)
    assembled(tmp_path, unit("a", *structure), ABBREVIATIONS)


def test_types_that_double_on_every_level(tmp_path):
    """Billions of members, in a kilobyte."""
    levels: list[str] = []
    for level in range(60):
        inner = reference(f"t{level + 1}")
        levels.append(f"t{level}: .uleb128 5, 1 << {62 - level}")
        for half in range(2):
            levels += [".uleb128 6", inner, f".uleb128 {half} << {61 - level}"]
        levels.append(".byte 0")
    assembled(tmp_path, unit("t0", *levels, "t60: .uleb128 5, 4", ".byte 0"), ABBREVIATIONS)


def test_arrays_without_end(tmp_path):
    levels = []
    for level in range(60):
        levels += [f"t{level}: .uleb128 8", reference(f"t{level + 1}")]
        levels += [".uleb128 9, 0xffffffff", ".byte 0"]
    assembled(tmp_path, unit("t0", *levels, "t60: .uleb128 5, 4", ".byte 0"), ABBREVIATIONS)


def test_a_small_section_that_claims_to_be_huge(build, tmp_path):
    path = build("-g", "-gz")
    section = Image.open(path).section(".debug_info")
    raw = bytearray(Path(path).read_bytes())
    raw[section.offset + 8 : section.offset + 16] = (1 << 40).to_bytes(8, "little")
    (tmp_path / "damaged").write_bytes(raw)
    image = Image.open(str(tmp_path / "damaged"))
    assert not prototypes.prototypes(image, symbols.read(image).functions).found

"""Markers of files against readelf, their operands, and the definitions of providers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lbtrace.bpf._libbpf import ffi

import lbtrace.providers
from lbtrace.abi.locations import Detail, IndexedFetch
from lbtrace.abi.marker_operands import count_operands, read_operands
from lbtrace.bpf.fetch_slots import fill
from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import SECTION, Marker, read_markers
from lbtrace.errors import UsageError
from lbtrace.machine import Machine
from lbtrace.model import Fetch
from lbtrace.plan.marker_values import marker_values
from lbtrace.providers import (
    Argument,
    Definitions,
    Pair,
    choose,
    find_definitions,
    read_definitions,
)
from lbtrace.recognize.fetcher import Fetcher
from lbtrace.system.file import File

PLACES = (
    "lib/*/libstdc++.so.6",
    "aarch64-linux-gnu/lib/libstdc++.so.6",
    "lib/*/libpython3*.so*",
    "lib/*/libruby*.so*",
    "lib/jvm/*/lib/server/libjvm.so",
    "lib/postgresql/*/bin/postgres",
    "bin/python3",
    "bin/php8.2",
)
NOTE = re.compile(
    r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\S+), Base: (\S+), Semaphore: (\S+)\s+"
    r"Arguments:(.*)"
)


def marked_files() -> Iterator[str]:
    """Files of the machine that have markers."""
    found = [path for place in PLACES for path in Path("/usr").glob(place)]
    for path in sorted({os.path.realpath(path) for path in found}):
        if Image.open(path, any_machine=True).section(SECTION):
            yield path


MARKED = list(marked_files())


def test_markers_are_those_that_readelf_shows(tool: Callable[..., str]) -> None:
    assert MARKED
    for path in MARKED:
        image = Image.open(path, any_machine=True)
        base = image.section(".stapsdt.base")
        shown = []
        for provider, name, address, linked, semaphore, text in NOTE.findall(
            tool("readelf", "-nW", path)
        ):
            moved = base.address - int(linked, 16) if base else 0
            counter = int(semaphore, 16) + moved if int(semaphore, 16) else 0
            at = int(address, 16) + moved
            shown.append((provider, name, at, text.strip(), counter))
        found = [(*marker[:4], _address(image, marker.semaphore)) for marker in read_markers(image)]
        assert found == shown, path


def _address(image: Image, offset: int) -> int:
    segments = [s for s in image.segments if s.type == 1 and s.offset <= offset < s.offset + s.size]
    return segments[-1].address + offset - segments[-1].offset if offset else 0


def test_all_operands_of_real_markers_are_read() -> None:
    for path in MARKED:
        image = Image.open(path, any_machine=True)
        for marker in read_markers(image):
            for operand in read_operands(image.machine, marker.arguments, 0, lambda name: 0):
                assert not operand.location.reason, (path, marker)


def test_definitions_have_as_many_arguments_as_the_markers_of_packages() -> None:
    for path in MARKED:
        image = Image.open(path, any_machine=True)
        for marker in read_markers(image):
            defined = find_definitions(marker.provider).markers.get(marker.title)
            if defined is not None:
                count = len(read_operands(image.machine, marker.arguments, 0, lambda name: 0))
                assert len(choose(defined, count)) == count, (path, marker)


def test_operands_that_compilers_of_arm64_write(tmp_path: Path) -> None:
    source = Path(__file__).resolve().parents[1] / "programs" / "markers.c"
    header = tmp_path / "sys"
    header.mkdir()
    for name in ("sdt.h", "sdt-config.h"):
        found = [
            *Path("/usr/include").glob(f"sys/{name}"),
            *Path("/usr/include").glob(f"*/sys/{name}"),
        ]
        (header / name).symlink_to(found[0])
    for level in ("-O0", "-O2"):
        library = tmp_path / f"markers{level}.so"
        compiler = ["aarch64-linux-gnu-gcc", "-shared", "-fPIC", level, "-I", tmp_path]
        subprocess.run([*compiler, "-o", library, source], check=True)
        image = Image(File(str(library)), any_machine=True)
        markers = read_markers(image)
        assert {marker.title for marker in markers} == {"shop:sale", "shop:done"}
        assert all(marker.semaphore for marker in markers)
        for marker in markers:
            operands = read_operands("aarch64", marker.arguments, marker.address, lambda name: 1)
            assert [operand.size for operand in operands[:2]] in ([4, 8], [4, 4])
            # Where gcc puts objects together, their name is a local label, which no table has.
            unknown = [o.location.reason for o in operands if o.location.reason]
            assert all(".LANCHOR" in reason for reason in unknown), marker


def memory(register: str, offset: int, size: int) -> Fetch:
    return Fetch(register=register, offset=offset, read="integer", size=size)


def indexed(base: str, offset: int, size: int, index: Fetch, factor: int) -> Fetch:
    way = {"register": base} if base else {"base": "constant"}
    place = {"offset": offset, "read": "integer", "size": size}
    return IndexedFetch(**way, **place, index=index, factor=factor)  # type: ignore[arg-type]


AX, BX = (Fetch(register=name) for name in ("ax", "bx"))
X2, X20 = Fetch(register="x2"), Fetch(register="x20")
AX_BX, AX_AX = (IndexedFetch(register="ax", index=each, factor=n) for each, n in ((BX, 2), (AX, 1)))
LOW, SIGNED_LOW = (Fetch(register="x2", bit_size=32, signed=signed) for signed in (False, True))


def refused(operand: str) -> str:
    return f"the operand {operand} cannot be read"


SYMBOLS = {"NBuffers": 0x5000, "all.0": 0x6000}


@pytest.mark.parametrize(
    ("machine", "text", "size", "signed", "expected"),
    [
        ("x86_64", "4@all.0+8-4(%rip)", 4, False, memory("ip", 0x5004, 4)),
        ("x86_64", "8@$unknown", 8, False, refused("$unknown")),
        ("x86_64", "8@unknown(%rip)", 8, False, refused("unknown(%rip)")),
        ("x86_64", "8@NBuffers-all.0(%rip)", 8, False, refused("NBuffers-all.0(%rip)")),
        ("x86_64", "8@8(%rip)", 8, False, refused("8(%rip)")),
        ("x86_64", "8@NBuffers(%rax,%rbx,2)", 8, False, indexed("ip", 0x4000, 8, AX_BX, 1)),
        ("x86_64", "8@NBuffers(%rax,%rax)", 8, False, indexed("ip", 0x4000, 8, AX_AX, 1)),
        ("x86_64", "8@$18446744073709551615", 8, False, Fetch(base="constant", offset=-1)),
        ("x86_64", "8@$-9223372036854775809", 8, False, refused("$-9223372036854775809")),
        ("x86_64", "8@0xfffffffffffffff8(%rdi)", 8, False, memory("di", -8, 8)),
        ("x86_64", "8@010(%rax)", 8, False, memory("ax", 8, 8)),
        ("x86_64", "8@$08", 8, False, refused("$08")),
        ("x86_64", "8@$1x", 8, False, refused("$1x")),
        ("x86_64", "16@%rax", 16, False, refused("%rax") + ": it has fewer than 16 bytes"),
        ("x86_64", "8(%rax)", 8, False, refused("8(%rax)")),
        ("x86_64", "3@%eax", 8, False, refused("3@%eax")),
        ("aarch64", "-4@w19", 4, True, Fetch(register="x19")),
        ("aarch64", "8@[sp, 16]", 8, False, memory("sp", 16, 8)),
        ("aarch64", "8@[x29, -8]", 8, False, memory("x29", -8, 8)),
        ("aarch64", "-4@-5", 4, True, Fetch(base="constant", offset=-5)),
        ("aarch64", "4@wzr", 4, False, Fetch(base="constant")),
        ("aarch64", "8@[x0, #:lo12:NBuffers+8]", 8, False, memory("x0", 8, 8)),
        ("aarch64", "8@d3", 8, False, "a float in d3"),
        ("aarch64", "8@[x1, x2, lsl 3]", 8, False, indexed("x1", 0, 8, X2, 8)),
        ("aarch64", "4@[sp, x20]", 4, False, indexed("sp", 0, 4, X20, 1)),
        ("aarch64", "-4@[x1, w2, sxtw #2]", 4, True, indexed("x1", 0, 4, SIGNED_LOW, 4)),
        ("aarch64", "1@[x1, w2, uxtw]", 1, False, indexed("x1", 0, 1, LOW, 1)),
        ("aarch64", "8@[x1, x31]", 8, False, refused("[x1, x31]")),
        ("aarch64", "8@NBuffers", 8, False, Fetch(register="pc", offset=0x4000)),
        ("aarch64", "8@[x0, #:lo12:.LANCHOR0]", 8, False, refused("[x0, #:lo12:.LANCHOR0]")),
    ],
)  # fmt: skip
def test_operands(machine: str, text: str, size: int, signed: bool, expected: Fetch | str) -> None:
    (found,) = read_operands(machine, text, 0x1000, SYMBOLS.get)
    assert (found.size, found.signed) == (size, signed)
    if isinstance(expected, str):
        assert found.location.reason == expected
    else:
        assert found.location.words == (expected,)


def test_operands_with_spaces_are_distinguished() -> None:
    found = read_operands("aarch64", "8@[sp, 16] -4@w1 8@[x0, x1] 4@7", 0, SYMBOLS.get)
    assert [operand.size for operand in found] == [8, 4, 8, 4]


NUMBERS = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.integers(0, 1 << 70).map(hex),
    st.integers(0, 1 << 70).map("0{:o}".format),
    st.sampled_from(
        ["", "NBuffers", "_ZSt4cout", "_ZSt3cin+8", "unknown", "08", "0x", "\u0663", "9" * 5000]
    ),
)
NAMES = "rax eax ax al ah r9 r9d r9b rip rsp xmm1 st(0) x3 w3 x31 wzr sp d1 x\u0663"
REGISTERS = st.sampled_from(NAMES.split(" "))
SHAPES = st.sampled_from(
    ["${0}", "%{1}", "{0}(%{1})", "{0}(%{1},%{2},8)", "{0}(,%{2},4)", "{0}(%rip)", "%fs:{0}"]
    + ["{0}", "{1}", "[{1}, {0}]", "[{1}, {2}, lsl 3]", "[{1}, #:lo12:{0}]", "[{1}, {2}, sxtw #2]"]
)
WORDS = st.builds(
    lambda size, shape, *parts: size + shape.format(*parts),
    *(
        st.sampled_from(["", "8@", "-4@", "8f@", "4f@", "16@", "16f@", "1f@", "2@", "3@", "@"]),
        SHAPES,
    ),
    *(NUMBERS, REGISTERS, REGISTERS),
)
ANY_TEXT = st.one_of(
    st.text(alphabet="-0123456789@%$()[]+,. abcdefilprsx", max_size=60),
    st.lists(WORDS, max_size=4).map(" ".join),
    st.text(max_size=30),
)


@cache
def opened() -> list[Image]:
    """Files with markers, of all machines that there are."""
    return [Image.open(path, any_machine=True) for path in MARKED]


TYPES = ["", "double", "float", "int", "bool", "char *", "void *"]


@settings(deadline=None, max_examples=300)
@given(text=ANY_TEXT, types=st.lists(st.sampled_from(TYPES), min_size=4, max_size=4))
def test_operands_of_any_text_are_read_or_refused(text: str, types: list[str]) -> None:
    """Also the kernel's program can be given what is fetched of them."""
    names = ["text", "text_length", "name", "last"]
    for image in {image.machine: image for image in opened()}.values():
        machine = image.machine
        count = len(read_operands(machine, text, 1 << 63, SYMBOLS.get))
        assert count == count_operands(machine, text)
        way = tuple(map(Argument, types, names, (0, 0, 24, 0)))[:count]
        definitions = Definitions({"shop:sale": [way]})
        marker = Marker("shop", "sale", 1 << 63, text)
        fetcher = Fetcher(16, Detail())
        for variable in marker_values(image, marker, definitions):
            value = fetcher.value("a", variable.formal.type, variable.location)
            assert value.slot >= 0 or value.reason, text
            assert value.type.is_sound(), text
        slots = ffi.new("struct lbt_fetch[16]")
        for slot, fetch in zip(slots, fetcher.fetches, strict=False):
            fill(slot, fetch, Machine(machine).kernel.PT_REGS, ())


def test_definitions_of_users() -> None:
    found = read_definitions(
        """
        #pragma D attributes Evolving/Evolving/Common provider shop provider
        provider shop {  /* as the DTrace guide writes them */
            probe sale__start(const char *, uintptr_t, unsigned int, struct item *what);
            probe sale__done();  // nothing
            probe sale__done(unsigned long total);
            #pragma lbtrace pair sale__start sale__done by what nests
        };
        """,
        "shop.d",
    )
    assert [(a.type, a.name) for a in found.markers["shop:sale__start"][0]] == [
        ("char *", ""),
        ("uintptr_t", ""),
        ("unsigned int", ""),
        ("struct item *", "what"),
    ]
    assert choose(found.markers["shop:sale__done"], 1)[0].name == "total"
    assert choose(found.markers["shop:sale__done"], 2) == ()
    assert found.pairs == (Pair("shop:sale__start", "shop:sale__done", ("what",), nests=True),)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [  # LIBC_PROBE in malloc/malloc.c: sysmalloc, systrim, free, do_set_trim_threshold
        ("memory_sbrk_more", ["void * start", "size_t size"]),
        ("memory_sbrk_less", ["void * end", "size_t size"]),
        ("memory_mallopt_trim_threshold", ["size_t value", "size_t former", "int fixed"]),
    ],
)
def test_arguments_of_glibc_are_those_of_its_source(name: str, arguments: list[str]) -> None:
    (found,) = find_definitions("libc").markers[f"libc:{name}"]
    assert [f"{each.type} {each.name}" for each in found] == arguments


def test_pairs_are_of_probes_that_are_defined() -> None:
    for path in resources.files(lbtrace.providers).iterdir():
        if path.name.endswith(".d"):
            found = read_definitions(path.read_text(), path.name)
            for pair in found.pairs:
                for title in (pair.opening, pair.closing):
                    for arguments in found.markers[title]:
                        assert set(pair.by) <= {argument.name for argument in arguments}, pair
    for line in (
        "pair a",
        "pair a a",
        "pair a b by",
        "pair a c",
        "pairs a b",
        "pair a b by x nests y z!",
    ):
        with pytest.raises(UsageError, match="is no pair of markers"):
            read_definitions(
                f"provider x {{\nprobe a(int x); probe b(int x);\n#pragma lbtrace {line}\n}};",
                "x.d",
            )


def test_definitions_that_contradict_themselves() -> None:
    """What would be left out in silence is refused."""
    probes = "probe a(int x); probe b(int x);"
    with pytest.raises(UsageError, match=r"x\.d: x:a is defined twice with 1 argument"):
        read_definitions(f"provider x {{ {probes} probe a(long y); }};", "x.d")
    assert read_definitions(f"provider x {{ {probes} probe a(int y, int z); }};", "x.d").markers
    with pytest.raises(UsageError, match=r"x\.d: stands in no provider: #pragma lbtrace pair a b"):
        read_definitions(f"provider x {{ {probes} }};\n#pragma lbtrace pair a b\n", "x.d")


def test_texts_may_begin_after_the_address_that_is_passed() -> None:
    text = """provider x {
        probe a(char *name, int b);
        probe a(int c, char *name, int d);
        probe b();
        #pragma lbtrace text a name at 24
        #pragma lbtrace pair a b
    };"""
    found = read_definitions(text, "x.d")
    assert [[each.offset for each in way] for way in found.markers["x:a"]] == [[24, 0], [0, 24, 0]]
    for wrong in ("a b at 24", "a other at 24", "c name at 24"):
        with pytest.raises(UsageError, match="is text"):
            read_definitions(text.replace("a name at 24", wrong), "x.d")


@pytest.mark.parametrize("words", ["by y", "by x neests", "by x corsses nests"])
def test_pairs_are_by_arguments_that_there_are(words: str) -> None:
    with pytest.raises(UsageError, match="x:a and x:b have no argument"):
        read_definitions(
            f"provider x {{\nprobe a(int x); probe b();\n#pragma lbtrace pair a b {words}\n}};",
            "x.d",
        )


@pytest.mark.parametrize("text", ["", "provider x { probe; }", "probe a();", "provider x { a b }"])
def test_what_is_no_definition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no provider definition"):
        read_definitions(text, "x.d")

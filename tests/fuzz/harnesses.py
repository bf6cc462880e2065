"""What is fuzzed: one function a reader, from bytes to nothing.

A harness lets nothing out but what is wrong: lbtrace's own errors are right answers.
"""

from __future__ import annotations

import gzip
import io
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import product
from pathlib import Path

import bombs

from lbtrace.capture import Capture, read_capture
from lbtrace.commands.output import render
from lbtrace.dwarf import prototypes
from lbtrace.elf import debugfile, demangle, plt, symbols
from lbtrace.elf.go import build
from lbtrace.elf.image import Image
from lbtrace.elf.unwind import Unwind
from lbtrace.errors import LbtraceError
from lbtrace.expressions import syntax
from lbtrace.model import Losses
from lbtrace.plan import Selection, make_plan
from lbtrace.probes.sources import AFTER_ANY_CALL
from lbtrace.sinks import FORMATS
from lbtrace.system.file import File
from tests.chunks import sealed

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 1 << 16
"""Bytes of an input."""


class Given:
    """Bytes as a file that can be opened by its path."""

    def __init__(self, data: bytes) -> None:
        self.descriptor = os.memfd_create("given")
        os.write(self.descriptor, data)
        self.path = f"/proc/self/fd/{self.descriptor}"

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


def elf(data: bytes) -> None:
    """Headers, symbols, notes, stubs, and a plan whose sites all lie in code."""
    with Given(data) as path, suppress(LbtraceError):
        image = Image(File(path), any_machine=True)
        table = symbols.read(image)
        _ = image.build_id, image.is_program, build.version_text(image)
        plt.stubs(image)
        if image.machine != os.uname().machine:
            return
        plan = make_plan(image, Selection(("*",), force=True))
        for probe in plan.probes:
            if probe.source == AFTER_ANY_CALL:  # which is on no instruction
                continue
            assert image.offset(probe.site.address) == probe.site.offset >= 0
        assert all(f.offset >= 0 for f in table.functions)


@cache
def _base(go: bool = False) -> bytes:
    """A program with sections to put an input into."""
    code = b"\x55\xe8\0\0\0\0\x90\xeb\x02\x90\x90\x5d\xc3" + bytes(51)
    room = bytes(LARGEST)
    return bombs.named(
        *(b"main", b"_Z4mainv"),
        code=code,
        more=[
            bombs.Section(".eh_frame", bombs.PROGBITS, room, bombs.ALLOCATED),
            *([bombs.Section(".gopclntab", bombs.PROGBITS, room, bombs.ALLOCATED)] if go else []),
            bombs.Section(".debug_info", bombs.PROGBITS, room),
            bombs.Section(".debug_abbrev", bombs.PROGBITS, room),
            bombs.Section(".debug_ranges", bombs.PROGBITS, room),
        ],
    )


def _with(name: str, data: bytes) -> Given:
    """The program with ``data`` in the section ``name``."""
    base = bytearray(_base(name == ".gopclntab"))
    with Given(bytes(base)) as path:
        section = Image(File(path)).section(name)
    assert section is not None
    base[section.offset : section.offset + len(data)] = data
    return Given(bytes(base))


def frames(data: bytes) -> None:
    """``.eh_frame`` and what it refers to."""
    with _with(".eh_frame", data) as path:
        unwind = Unwind(Image(File(path)))
        for address in (bombs.address_of_text(), bombs.address_of_text() + 1):
            unwind.landing_pads(address)


def pclntab(data: bytes) -> None:
    """The function table of Go."""
    with _with(".gopclntab", data) as path, suppress(LbtraceError):
        image = Image(File(path))
        go = symbols.read(image).go
        if go is not None:
            _ = go.inlined
            for function in go.functions[:20]:
                go.argument_bytes(function.address)
                go.funcdata(function.address, 5)


def debug(data: bytes) -> None:
    """DWARF: three sections, one after the other."""
    base = bytearray(_base())
    with Given(bytes(base)) as path:
        image = Image(File(path))
        at = 0
        for name in (".debug_info", ".debug_abbrev", ".debug_ranges"):
            size = int.from_bytes(data[at : at + 2], "little")
            section = image.section(name)
            assert section is not None
            piece = data[at + 2 : at + 2 + size]
            base[section.offset : section.offset + len(piece)] = piece
            at += 2 + len(piece)
    with Given(bytes(base)) as path:
        image = Image(File(path))
        found = debugfile.find(image)
        prototypes.prototypes(image, symbols.read(image).functions, 2, found)


def capture(data: bytes) -> None:
    """A capture, as it is and with checksums that are right, read, salvaged and written as text."""
    for given, salvage in product((data, sealed(data)), (False, True)):
        with Given(given) as path, suppress(LbtraceError), read_capture(path, salvage=salvage) as c:
            name = ("tree", "jsonl", "chrome", "racket")[len(data) % 4]
            sink = FORMATS[name].load()(io.StringIO(), c.plan)
            account = partial(_account, c)
            render(c.plan, c.batches(), sink, account, damaged=lambda c=c: bool(c.left_out))


def _account(capture: Capture) -> tuple[Losses, bool]:
    return capture.losses, not capture.complete


def expressions(data: bytes) -> None:
    """``--arg`` and ``--where``."""
    text = data.decode("utf-8", "replace")
    for parse in (syntax.argument, syntax.condition):
        with suppress(LbtraceError):
            parse(text)


def names(data: bytes) -> None:
    """Mangled names."""
    text = data.decode("latin-1")
    for prefix in ("", "_R", "_ZN"):
        demangle.short(prefix + text)
        demangle.arity(prefix + text)
    demangle.short.cache_clear()
    demangle.demangled.cache_clear()
    demangle._Guard.bombs = 0


HARNESSES: dict[str, Callable[[bytes], None]] = {
    h.__name__: h for h in (elf, frames, pclntab, debug, capture, expressions, names)
}


def seeds(name: str) -> list[bytes]:
    """Small inputs to begin with."""
    return [*SEEDS[name]()]


def _elf_seeds() -> Iterator[bytes]:
    yield bombs.named(b"main", b"_Z4mainv", code=b"\x55\xe8\0\0\0\0\x5d\xc3" * 8)
    yield bombs.named(bombs.cxx_bomb(3), bombs.rust_bomb(3), b"a@@b", b"f.cold")
    yield _dynamic()


def _frame_seeds() -> Iterator[bytes]:
    cie = struct.pack("<IIB", 20, 0, 1) + b"zLR\0\1\x78\x10\2\x1b\x1b" + bytes(5)
    yield cie + struct.pack("<IIiII", 20, 28, 64, 16, 4) + bytes(40)


def _pclntab_seeds() -> Iterator[bytes]:
    """Of a file that is not position-independent; format by format."""
    with Given(_base(True)) as path:
        image = Image(File(path))
    text = image.sections[1].address
    for magic in (0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1):
        header = struct.pack("<IBBBBQ", magic, 0, 0, 1, 8, 1)
        yield header + struct.pack("<QQQ", text, 40, text + 64) + struct.pack("<Qi", text, 60)
        words = (1, 1, text, 72, 84, 88, 90, 100)
        table = struct.pack("<8Q", *words) + b"main.main\0\0\0" + bytes(16)
        yield struct.pack("<IBBBB", magic, 0, 0, 1, 8) + table + struct.pack("<IIII", 0, 12, 64, 0)


def _debug_seeds() -> Iterator[bytes]:
    parts = (
        bombs.whole_unit(
            b"\2" + struct.pack("<QI", bombs.address_of_text(), 40) + b"\0" + bytes(9)
        ),
        bombs.ROOT + bombs.FUNCTION + bombs.SCOPE + b"\0",
        struct.pack("<QQQQ", 1, 2, 0, 0),
    )
    yield b"".join(struct.pack("<H", len(part)) + part for part in parts)


def _capture_seeds() -> Iterator[bytes]:
    for path in sorted((ROOT / "tests/captures").glob("*.gz")):
        data = gzip.decompress(path.read_bytes())
        if len(data) < LARGEST:
            yield data


def _expression_seeds() -> Iterator[bytes]:
    for text in ("arg0 + 1", "str(arg0, arg1)", "ptr->field[3].x", "n > 3 and comm == 'a'"):
        yield text.encode()
    yield b"(uint8_t)x == 0x1f or not duration > 1ms"


def _name_seeds() -> Iterator[bytes]:
    yield from (b"_ZN1a1bEv", b"NvC1a1b", b"1a17h0123456789abcdefE", bombs.rust_bomb(3)[2:])


SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "elf": _elf_seeds,
    "frames": _frame_seeds,
    "pclntab": _pclntab_seeds,
    "debug": _debug_seeds,
    "capture": _capture_seeds,
    "expressions": _expression_seeds,
    "names": _name_seeds,
}


def _dynamic() -> bytes:
    """A small file with sections of each kind that is read."""
    return bombs.elf(
        [
            bombs.Section(".text", 1, b"\xf3\x0f\x1e\xfa\x55\xc3\x0f\x0b" * 8, bombs.CODE),
            bombs.Section(".symtab", 2, bombs.symbol(1, bombs.address_of_text(1), 8), 0, 3),
            bombs.Section(".strtab", 3, b"\0f\0"),
            bombs.Section(".dynsym", 11, bombs.symbol(1, 0) * 2, 2, 3, "", 24),
            bombs.Section(".rela.plt", 4, struct.pack("<QQq", 64, 1 << 32 | 7, 0), 2, 4),
            bombs.Section(".plt", 1, b"\xff\x25\0\0\0\0", 6),
            bombs.Section(".gnu.version_d", 0x6FFFFFFD, bytes(40), 2, 3),
            bombs.Section(".gnu.version", 0x6FFFFFFF, bytes(4), 2, 4),
            bombs.Section(".note.gnu.build-id", 7, struct.pack("<III", 4, 4, 3) + b"GNU\0abcd", 2),
        ],
        [(4, 4, ".note.gnu.build-id")],
    )

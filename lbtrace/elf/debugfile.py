"""Finds the debug information and the symbol table of an image: in itself, or in a separate
file.

The search is that of gdb ("Debugging Information in Separate Files", "MiniDebugInfo"): by build-id
and by the name in ``.gnu_debuglink``, below /usr/lib/debug and beside the image; then, where
DEBUGINFOD_URLS is set, at those servers, whose answers are kept where debuginfod-find(1) keeps
them. Names are also in ``.gnu_debugdata``. A file must have the build-id of the image, if both have
one, and the checksum in the link.
"""

from __future__ import annotations

import mmap
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from lbtrace.elf import cache
from lbtrace.elf.debug_sections import DwarfError, Sections
from lbtrace.elf.image import Image
from lbtrace.elf.regular import Mapped, open_regular
from lbtrace.elf.span import Buffer, Span
from lbtrace.system.lookups import doubt, note

if TYPE_CHECKING:
    from pathlib import Path

ROOT = "/usr/lib/debug"
PATIENCE = 10.0
"""Seconds a server may take to answer, unless DEBUGINFOD_TIMEOUT says otherwise."""

SLOWEST = 100 << 10
"""Bytes that must have arrived by then, as debuginfod-find(1) demands."""

MISSED = 600.0
"""Seconds for which servers that had nothing are not asked again."""

LARGEST = 4 << 30
"""Bytes of debug information taken from a server."""

SUMMED = 1 << 30
"""Bytes of the largest file whose checksum is computed, in half a second; larger ones are
identified by their build-id only."""

CHUNK = 1 << 20

UNPACKED, DICTIONARY = 32 << 20, 72 << 20
"""Bytes of ``.gnu_debugdata`` that are unpacked, and memory for it: what ``xz -9`` takes."""

BUILD_ID = re.compile(r"[0-9a-f]{8,128}")

WHOLE_NAMES = "use a build that is not stripped, or install its debug symbols"


class Found(NamedTuple):
    """A file with debug information, mapped; its status, if it is known."""

    path: str
    data: mmap.mmap
    status: os.stat_result | None = None


class Search(NamedTuple):
    """The result of a search for the debug file of an image: the paths that were ``looked`` at; in
    ``refused`` those that exist, but are of another build; ``asked``: servers were asked as
    well."""

    found: Found | None
    looked: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    asked: bool = False


class _Known:
    """What was found for an image until now."""

    def __init__(self, image: Image) -> None:
        self.search = _search(image)


class Table(NamedTuple):
    """The content of a symbol table and of its strings."""

    symbols: Span = Span()
    strings: Span = Span()


def find(image: Image) -> Found | None:
    """Return the file that holds the DWARF of ``image``; None where there is none.

    Raises nothing: a file that cannot be read or is of another build counts as missing.
    """
    if image.has_debug_info:
        return Found(image.path, image.data, os.fstat(image.file.descriptor))
    return search(image).found


def search(image: Image, *, servers: bool = True) -> Search:
    """Look for the separate debug file of ``image``, once: on this machine, then at ``servers``.
    Raises nothing."""
    known = image.once(_Known)
    if servers and known.search.found is None and not known.search.asked:
        known.search = _asked(image, known.search)
    return known.search


def symbol_table(image: Image, *, servers: bool = True) -> Table:
    """Return the symbol table that was stripped from ``image``, empty where it is not found.

    Raises nothing, as `find`.
    """
    found = search(image, servers=servers).found
    table = Table() if found is None else _table(found.data)
    return table if table.symbols.size else _table(_unpacked(image))


def advice(image: Image) -> str:
    """Advice on getting names for a stripped ``image``: where they were searched, and which file
    exists, but is of another build."""
    known = search(image)
    servers = "" if os.environ.get("DEBUGINFOD_URLS") else ", or set DEBUGINFOD_URLS"
    where = f" (looked for {', '.join(known.looked[:2])})" if known.looked else ""
    if known.refused:
        where = f" ({known.refused[0]} is of another build)"
    return f"{WHOLE_NAMES}{where}{servers}"


def _search(image: Image) -> Search:
    looked: list[str] = []
    refused: list[str] = []
    for path, checksum in _candidates(image):
        looked.append(path)
        found = _opened(path, checksum)
        if found is None:
            continue
        if _belongs(found.data, image, known=checksum is not None):
            return Search(found, tuple(looked), tuple(refused))
        refused.append(path)
    return Search(None, tuple(looked), tuple(refused))


def _asked(image: Image, known: Search) -> Search:
    """The result of the search at servers as well."""
    known = known._replace(asked=True)
    if not os.environ.get("DEBUGINFOD_URLS") or not BUILD_ID.fullmatch(image.build_id):
        return known
    kept = _downloaded(image.build_id)
    found = None if kept is None else _opened(kept, None)
    if found is None:
        doubt()  # they may have it next time
        return known
    if _belongs(found.data, image):
        return known._replace(found=found)
    return known._replace(refused=(*known.refused, found.path))


def _candidates(image: Image) -> Iterator[tuple[str, int | None]]:
    """Paths, each with the checksum its file must have, where one is known."""
    if BUILD_ID.fullmatch(image.build_id):
        yield f"{ROOT}/.build-id/{image.build_id[:2]}/{image.build_id[2:]}.debug", None
    name, checksum = _link(image)
    if not name:
        return
    own = os.path.realpath(image.path)
    places = dict.fromkeys(map(os.path.dirname, (own, os.path.abspath(image.path))))
    for directory in places:
        for place in (directory, f"{directory}/.debug", f"{ROOT}{directory}"):
            path = os.path.join(place, os.fsdecode(name))
            note(path)
            if os.path.realpath(path) != own:
                yield path, checksum


def _link(image: Image) -> tuple[bytes, int]:
    """The name and the checksum in ``.gnu_debuglink``; nothing where there is none."""
    section = image.section(".gnu_debuglink")
    if section is None or not 8 <= section.size <= os.pathconf("/", "PC_PATH_MAX"):
        return b"", 0
    content = image.data[section.offset : section.offset + section.size]
    name = content.split(b"\0", 1)[0]
    if b"/" in name or name in (b"", b".", b".."):
        return b"", 0
    return name, int.from_bytes(content[-4:], "little")


def _opened(path: str, checksum: int | None) -> Found | None:
    """The file ``path``; None where it is none, or has another checksum."""
    try:
        descriptor, status = open_regular(path)
        with open(descriptor, "rb", buffering=0):
            summed = checksum is not None and status.st_size <= SUMMED
            if summed and _sum(descriptor) != checksum:
                return None
            data = Mapped(descriptor)
    except (OSError, ValueError):  # ValueError: truncated since
        return None
    return Found(path, data, status)


def _sum(descriptor: int) -> int:
    """The checksum of a file; read, as what is mapped counts as memory of this process."""
    checksum = 0
    while chunk := os.read(descriptor, CHUNK):
        checksum = crc32(chunk, checksum)
    return checksum


def _belongs(data: mmap.mmap, image: Image, *, known: bool = False) -> bool:
    """Whether a file is of the build of ``image``. ``known`` is one by its checksum: it
    need not have a build-id, unless it was too large for that."""
    try:
        build_id = Sections(data).build_id.hex()
    except (DwarfError, IndexError):
        return False
    if not build_id or not image.build_id:
        return known and len(data) <= SUMMED
    return build_id == image.build_id


def _table(data: Buffer) -> Table:
    """The symbol table of a file; empty where it has none, or is damaged."""
    if not data:
        return Table()
    try:
        sections = Sections(data)
        parts = [sections.get(name) for name in (".symtab", ".strtab")]
        return Table(*(part.span for part in parts))
    except DwarfError:
        return Table()


def _unpacked(image: Image) -> bytes:
    """The file in ``.gnu_debugdata``; empty where there is none, or it is damaged."""
    section = image.section(".gnu_debugdata")
    if section is None or not section.size:
        return b""
    import lzma  # imported here because few files are compressed

    packed = image.data[section.offset : section.offset + section.size]
    try:
        engine = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=DICTIONARY)
        content = engine.decompress(packed, UNPACKED)
    except (lzma.LZMAError, MemoryError):
        return b""
    return content if engine.eof else b""


def _downloaded(build_id: str) -> str | None:
    """The path of the debug file that a server has for ``build_id``."""
    directory = _client_cache()
    if directory is None:
        return None
    from pathlib import Path  # imported here because it is slow and seldom needed

    kept = Path(directory) / build_id / "debuginfo"
    if kept.is_file():
        status = kept.stat()
        if status.st_size:
            return str(kept)
        if time.time() - status.st_mtime < MISSED:  # as debuginfod-find(1) notes it
            return None
    for url in os.environ["DEBUGINFOD_URLS"].split():
        try:
            if _fetched(f"{url.rstrip('/')}/buildid/{build_id}/debuginfo", kept):
                return str(kept)
        except (OSError, ValueError):  # URLError is an OSError: the next server may know
            continue
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.touch()
    return None


def _client_cache() -> str | None:
    """Where debuginfod-find(1) keeps what it got; None where others could meddle with it."""
    named = os.environ.get("DEBUGINFOD_CACHE_PATH")
    base = cache.trusted(named) if named else cache.home()
    return base and (base if named else os.path.join(base, "debuginfod_client"))


def _fetched(url: str, into: Path) -> bool:
    """Whether ``url`` could be copied to ``into``, which appears only when it is whole."""
    import tempfile  # late, as is urlopen: slow to import, seldom needed
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        return False
    patience = float(os.environ.get("DEBUGINFOD_TIMEOUT") or PATIENCE)
    into.parent.mkdir(parents=True, exist_ok=True)
    with urlopen(url, timeout=patience) as answer:
        descriptor, part = tempfile.mkstemp(dir=into.parent)
        try:
            size, start = 0, time.monotonic()
            with open(descriptor, "wb") as file:
                while chunk := answer.read1(1 << 20):
                    size += len(chunk)
                    late = time.monotonic() - start > patience and size < SLOWEST
                    if size > LARGEST or late:
                        return False
                    file.write(chunk)
            os.replace(part, into)
        finally:
            with suppress(FileNotFoundError):  # renamed
                os.unlink(part)
    return True

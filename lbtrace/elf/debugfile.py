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
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from msgspec import Struct

from lbtrace.elf.debug_sections import DwarfError, Sections
from lbtrace.elf.image import Image
from lbtrace.elf.span import Span
from lbtrace.elf.strings import Buffer
from lbtrace.files import cache
from lbtrace.files.new_file import NewFile
from lbtrace.files.regular import Mapped, open_regular
from lbtrace.system.lookups import mark_uncertain, note

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

MISSING = 404
"""The status of an answer that says that a server does not have it."""

UNPACKED, DICTIONARY = 32 << 20, 72 << 20
"""Bytes of ``.gnu_debugdata`` that are unpacked, and memory for it: what ``xz -9`` takes."""

BUILD_ID = re.compile(r"[0-9a-f]{8,128}")

WHOLE_NAMES = "use a build that is not stripped, or install its debug symbols"


class Found(Struct, frozen=True):
    """A file with debug information, mapped; its status, if it is known."""

    path: str
    data: mmap.mmap
    status: os.stat_result | None = None


OTHER, UNREADABLE = "of another build than the binary", "not readable as a debug file"
CHANGED = "of another build than the binary, or damaged"


class Refused(Struct, frozen=True):
    """A file that exists, but is not used, and ``why``: what it is."""

    path: str
    why: str


class Search(NamedTuple):
    """The result of a search for the debug file of an image: the paths that were ``looked`` at; in
    ``refused`` those that exist, but are not used; ``asked``: servers were asked as well, and
    those that ``failed`` to answer."""

    found: Found | None
    looked: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    asked: bool = False
    failed: tuple[str, ...] = ()


class _Known:
    """What was found for an image until now."""

    def __init__(self, image: Image) -> None:
        self.search = _search(image)


class Table(Struct, frozen=True):
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
    exists, but is not used."""
    known = search(image)
    servers = "" if os.environ.get("DEBUGINFOD_URLS") else ", or set DEBUGINFOD_URLS"
    if known.failed:
        servers = f"; no answer from {', '.join(known.failed[:2])}"
    from lbtrace.files.packages import package_of  # imported here because only errors need it

    package = package_of(image.path)
    named = f" (package {package}-dbgsym or {package}-dbg)" if package else ""
    where = f" (looked for {', '.join(known.looked[:2])})" if known.looked else ""
    if known.refused:
        where = f" ({known.refused[0].path} is {known.refused[0].why})"
    elif image.section(".gnu_debugdata") and not _unpacked(image):
        where = " (its .gnu_debugdata is damaged, or too large)"
    return f"{WHOLE_NAMES}{named}{where}{servers}"


def _search(image: Image) -> Search:
    looked: list[str] = []
    refused: list[Refused] = []
    for path, checksum in _candidates(image):
        looked.append(path)
        found = _opened(path, checksum, image)
        if isinstance(found, Found):
            return Search(found, tuple(looked), tuple(refused))
        if found is not None:
            refused.append(found)
    return Search(None, tuple(looked), tuple(refused))


def _asked(image: Image, known: Search) -> Search:
    """The result of the search at servers as well."""
    known = known._replace(asked=True)
    if not os.environ.get("DEBUGINFOD_URLS") or not BUILD_ID.fullmatch(image.build_id):
        return known
    failed: list[str] = []
    kept = _downloaded(image, failed)
    found = None if kept is None else _opened(kept, None, image)
    if isinstance(found, Found):
        return known._replace(found=found)
    mark_uncertain()  # they may have it next time
    refused = (*known.refused, *filter(None, [found]))
    return known._replace(refused=refused, failed=tuple(failed))


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


def _opened(path: str, checksum: int | None, image: Image) -> Found | Refused | None:
    """The file ``path``, if it is that of ``image``, or why not; None where there is none."""
    try:
        descriptor, status = open_regular(path)
        with open(descriptor, "rb", buffering=0):
            summed = checksum is not None and status.st_size <= SUMMED
            if summed and _sum(descriptor) != checksum:
                return Refused(path, CHANGED)
            data = Mapped(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):  # ValueError: truncated since
        return Refused(path, UNREADABLE)
    try:
        build_id = Sections(data).build_id.hex()
    except (DwarfError, IndexError):
        return Refused(path, UNREADABLE)
    # What is known by its checksum need not have a build-id, unless it was too large for that.
    known = checksum is not None and len(data) <= SUMMED
    fits = build_id == image.build_id if build_id and image.build_id else known
    return Found(path, data, status) if fits else Refused(path, OTHER)


def _sum(descriptor: int) -> int:
    """The checksum of a file; read, as what is mapped counts as memory of this process."""
    checksum = 0
    while chunk := os.read(descriptor, CHUNK):
        checksum = crc32(chunk, checksum)
    return checksum


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


def _downloaded(image: Image, failed: list[str]) -> str | None:
    """The path of the debug file that a server has for ``image``; adds to ``failed`` those that
    did not answer, or not wholly."""
    directory = _client_cache()
    if directory is None:
        return None
    from http.client import HTTPException  # imported here, as Path, because it is seldom needed
    from pathlib import Path

    kept = Path(directory) / image.build_id / "debuginfo"
    if kept.is_file():
        status = kept.stat()
        if status.st_size:
            return str(kept)
        if time.time() - status.st_mtime < MISSED:  # as debuginfod-find(1) notes it
            return None
    broken = False
    for url in os.environ["DEBUGINFOD_URLS"].split():
        try:
            if _fetched(f"{url.rstrip('/')}/buildid/{image.build_id}/debuginfo", kept, image):
                return str(kept)
        except (OSError, ValueError, HTTPException) as error:  # the next server may know
            if getattr(error, "code", 0) != MISSING:
                failed.append(url)
            broken |= isinstance(error, HTTPException)
    if not broken:
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.touch()
    return None


def _client_cache() -> str | None:
    """Where debuginfod-find(1) keeps what it got; None where others could meddle with it."""
    named = os.environ.get("DEBUGINFOD_CACHE_PATH")
    base = cache.trusted(named) if named else cache.home()
    return base and (base if named else os.path.join(base, "debuginfod_client"))


def _fetched(url: str, into: Path, image: Image) -> bool:
    """Whether ``url`` could be copied to ``into``, which appears only when it is whole."""
    from http.client import IncompleteRead  # late, as is this: slow to import, seldom needed
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        return False
    patience = float(os.environ.get("DEBUGINFOD_TIMEOUT") or PATIENCE)
    with urlopen(url, timeout=patience) as answer, _new_file(into) as made:
        size, start = 0, time.monotonic()
        while chunk := answer.read1(1 << 20):
            size += len(chunk)
            late = time.monotonic() - start > patience and size < SLOWEST
            if late:
                raise TimeoutError
            if size > LARGEST:
                return False
            with open(made.descriptor, "wb", closefd=False) as file:
                file.write(chunk)
        whole = _opened(made.opened, None, image)
        if not isinstance(whole, Found):
            if size == int(answer.headers.get("Content-Length") or -1):
                return False  # a page, as of a network that wants a password
            raise IncompleteRead(b"", None)  # the connection broke
        made.keep(into.name)
    return True


@contextmanager
def _new_file(into: Path) -> Iterator[NewFile]:
    into.parent.mkdir(parents=True, exist_ok=True)
    directory = os.open(into.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with NewFile(directory) as made:
            yield made
    finally:
        os.close(directory)

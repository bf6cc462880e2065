"""Rows that say where the callers of a file's functions are found: for BPF programs, which walk
stacks by them. Made of ``.eh_frame`` by lbtrace/native/unwind_rows.c, which has the layout."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from lbtrace.elf._unwind_rows import ffi, lib
from lbtrace.elf.image import Image

FRAMES = ".eh_frame"
GO = (".gopclntab", ".note.go.buildid")
"""Sections of programs of Go."""


class FrameRows(Struct, frozen=True):
    """The ``words`` of a table, 32 bits each, of which the first ones are about ``pages`` of the
    file from ``first_page`` on. ``keeps_pointers``: functions that have no rows keep frame
    pointers, as Go's."""

    words: bytes = b""
    first_page: int = 0
    pages: int = 0
    keeps_pointers: bool = False


class RowMaker:
    """Makes rows; the ``rules`` to which they refer (``struct lbt_unwind_rule``) are shared by all
    files. A table never has the rows of a page on both sides of a multiple of ``chunk`` words."""

    def __init__(self, chunk: int) -> None:
        rules = lib.lbt_unwind_rules_new()
        if not rules:
            raise MemoryError
        self._rules = ffi.gc(rules, lib.lbt_unwind_rules_free)
        self._chunk = chunk

    def rules(self, known: int) -> bytes:
        """Return the rules beyond those that are ``known``."""
        size = ffi.sizeof("struct lbt_unwind_rule")
        all_rules = ffi.buffer(self._rules.rules, self._rules.count * size)
        return bytes(all_rules[known * size :])

    def make(self, image: Image, base: int) -> FrameRows | None:
        """Return the rows of a file, which are to begin at word ``base``; None where it describes
        no frames, or not those of x86-64 (where the return address is register 16)."""
        go = any(image.section(name) for name in GO)
        section = image.section(FRAMES)
        frames = image.content(section) if section else b""
        if not section or not frames:
            return FrameRows(keeps_pointers=True) if go else None
        segments = image.executable_segments
        parts = [(s.address, s.offset, s.size) for s in segments]
        table: Any = ffi.new("struct lbt_unwind_table *")
        error = lib.lbt_unwind_make(
            *(self._rules, ffi.from_buffer(frames), len(frames), section.address),
            *(ffi.new("struct lbt_code_part[]", parts), len(parts), base, self._chunk, table),
        )
        if error or not table.pages:
            return FrameRows(keeps_pointers=True) if go else None
        try:
            words = bytes(ffi.buffer(table.words, 4 * table.size))
            return FrameRows(words, table.first_page, table.pages, go)
        finally:
            lib.lbt_unwind_table_free(table)

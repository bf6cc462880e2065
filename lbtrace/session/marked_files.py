"""The files of a process that have markers of wanted names: its program, and what is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import read_markers
from lbtrace.errors import LbtraceError
from lbtrace.model import Target
from lbtrace.plan.patterns import matching
from lbtrace.providers import LARGEST, UNDEFINED, Definitions, read_definitions
from lbtrace.system.file import File
from lbtrace.targets.images import OpenedImages, beside


def open_marked(target: Target, patterns: Sequence[str], opened: OpenedImages) -> OpenedImages:
    """Return the files that have markers which ``patterns`` name: of those ``opened``, and of those
    that the process of ``target`` has mapped or that are loaded with its command. Where none has
    such markers, return all that have any, after ``opened``. Files that cannot be read are left
    out."""
    names = [pattern.partition("@")[0] for pattern in patterns]
    known = {image.file.identity for image in opened.images}
    marked: list[Image] = []
    notes = list(opened.notes)
    for image, remarks in _loaded(target):
        if image.file.identity in known or not image.once(read_markers):
            continue
        known.add(image.file.identity)
        marked.append(image)
        notes += remarks
    images = [*opened.images, *marked]
    return OpenedImages([each for each in images if _has(each, names)] or images, notes)


def loaded_markers(pid: int) -> list[Image]:
    """Return the files with markers that a process has mapped, its program among them. Raises
    `TargetError`."""
    found: dict[tuple[int, int], Image] = {}
    for image, _ in _mapped(pid):
        if image.once(read_markers):
            found.setdefault(image.file.identity, image)
    return list(found.values())


def open_definitions(paths: Sequence[str]) -> Definitions:
    """Return what files of provider definitions say; of several on a marker, the last one. Raises
    `BinaryError`, `UsageError`."""
    found = UNDEFINED
    for path in paths:
        file = File(path)
        text = os.pread(file.descriptor, LARGEST, 0).decode("utf-8", "replace")
        found = found.joined(read_definitions(text, path))
    return found


def _loaded(target: Target) -> Iterator[tuple[Image, list[str]]]:
    if target.pid:
        yield from _mapped(target.pid)
        return
    around = beside(target)
    for path in around.paths if around else ():
        try:
            yield Image.open(path), []
        except LbtraceError:
            continue


def _mapped(pid: int) -> Iterator[tuple[Image, list[str]]]:
    # Imported here because only running processes have mapped files.
    from lbtrace.targets.mapped_files import mapped_files, open_file

    for file in mapped_files(pid):
        try:
            opened = open_file(file)
        except LbtraceError:
            continue
        yield opened.image, opened.notes


def _has(image: Image, names: Sequence[str]) -> bool:
    return bool(matching({marker.title for marker in image.once(read_markers)}, names, "usdt"))

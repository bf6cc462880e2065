"""The files of a process that have markers of wanted names: its program, and what is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lbtrace.elf.image import Image
from lbtrace.elf.stap_notes import read_markers
from lbtrace.errors import LbtraceError
from lbtrace.model import Target
from lbtrace.plan.merge import distinct
from lbtrace.plan.patterns import matching
from lbtrace.targets.images import OpenedImages, find_mapped_files


def open_marked(target: Target, opened: Iterable[Image]) -> OpenedImages:
    """Return the files with markers, besides those ``opened``, that a process of ``target`` has
    mapped or that are loaded with its command. Files that cannot be read are left out."""
    known = {image.file.identity for image in opened}
    found = OpenedImages([], [])
    for image, warnings in _loaded(target):
        if image.file.identity in known or not read_markers(image):
            continue
        known.add(image.file.identity)
        found.images.append(image)
        found.notes += warnings
    return found


def having(
    images: Sequence[Image], patterns: Sequence[str], *, other_providers: bool
) -> list[Image]:
    """Return those of ``images`` that have markers which ``patterns`` name; besides, where one of
    them names none, those with markers of that provider, or of any with ``other_providers``."""
    names = [pattern.partition("@")[0] for pattern in patterns]
    missing = [name for name in names if not any(_has(each, [name]) for each in images)]
    providers = {name.partition(":")[0] for name in missing}
    return [
        image
        for image in images
        if _has(image, names)
        or any(
            marker.provider in providers or (missing and other_providers)
            for marker in read_markers(image)
        )
    ]


def loaded_markers(pid: int) -> list[Image]:
    """Return the files with markers that a process has mapped, its program among them. Raises
    `TargetError`."""
    return distinct(image for image, _ in _mapped(pid) if read_markers(image))


def _loaded(target: Target) -> Iterator[tuple[Image, list[str]]]:
    if target.pids:
        for pid in target.pids:
            yield from _mapped(pid)
        return
    around = find_mapped_files(target)
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
    return bool(matching({marker.title for marker in read_markers(image)}, names, "usdt"))

"""Views of arguments from the tables of Go's runtime, which have their sizes and grouping
(``FUNCDATA_ArgInfo``, see `lbtrace.elf.go.arguments`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from lbtrace.elf.go.arguments import ArgumentPart, Group, Word
from lbtrace.model import Type
from lbtrace.recognize import Recognizer
from lbtrace.recognize import view as views

if TYPE_CHECKING:
    from lbtrace.recognize.view import FormOfType


class ArgumentView(views.PlainView):
    """The type of an argument, or of a part of one, that begins ``start`` bytes into the
    arguments: a `View`. It has ``size`` bytes, if not as many as its parts take."""

    __slots__ = ("_part", "_start", "size")

    language = "go"
    name = written = ""
    key = 0

    def __init__(self, part: ArgumentPart, start: int, size: int = 0) -> None:
        self._part, self._start = part, start
        self.size = size or max((w.offset + w.size - start for w in words(part)), default=0)

    @property
    def form(self) -> FormOfType:
        return "bits" if isinstance(self._part, Word) else "record"

    @property
    def members(self) -> Iterator[views.MemberView]:
        for inner in self._part.parts if isinstance(self._part, Group) else ():
            first = start_of(inner, self._start)
            yield views.MemberView("", ArgumentView(inner, first), first - self._start)


@lru_cache(maxsize=4096)  # large programs have a hundred thousand arguments, and most are alike
def words(part: ArgumentPart) -> tuple[Word, ...]:
    """Return all numbers and pointers of arguments, in order."""
    if isinstance(part, Word):
        return (part,)
    return tuple(word for inner in part.parts for word in words(inner))


def start_of(part: ArgumentPart, default: int = 0) -> int:
    """Return where a part begins in the arguments, in bytes; one of nothing at ``default``."""
    return min((word.offset for word in words(part)), default=default)


@lru_cache(maxsize=4096)
def type_of(part: ArgumentPart, start: int = 0, size: int = 0) -> Type:
    """Return the type of a part that begins ``start`` bytes into the arguments: see
    `ArgumentView`."""
    return Recognizer().type_of(ArgumentView(part, start, size))


def bits(size: int) -> Type:
    """Return the type of this many bytes of which nothing else is known."""
    return type_of(Word(0, size))

"""What the arguments of markers mean, by their provider: DTrace's provider definitions.

``NAME.d`` here is about provider NAME, and users may have definitions of their own: the
projects that have markers keep them in such files. The grammar is that of the DTrace guide,
"Statically Defined Tracing", with names for the arguments. A ``char *`` is text. Where an
argument ``NAME_length`` or ``NAME_len`` follows it, that is the number of its bytes; else it
ends with a NUL. A probe may be defined several times, for versions with other numbers of arguments.

``#pragma lbtrace text PROBE ARGUMENT at OFFSET`` says that the text begins so many bytes after the
address that is passed: see `Argument`.

``#pragma lbtrace pair OPENING CLOSING by ARGUMENT ...`` within a provider says that the two probes
open and close a call, which the arguments named tell from others: see `Pair`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from lbtrace.errors import BinaryError, UsageError, option
from lbtrace.system.file import File

COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
DIRECTIVES = re.compile(r"^[ \t]*#[^\n]*", re.M)
PROVIDER = re.compile(r"\bprovider\s+(\w+)\s*\{(.*?)\}", re.S)
PAIR = re.compile(
    r"^[ \t]*#[ \t]*pragma[ \t]+lbtrace[ \t]+pair[ \t]+(\w+)[ \t]+(\w+)"
    r"(?:[ \t]+by((?:[ \t]+\w+)+?))?(?:[ \t]+(nests))?[ \t]*$",
    re.M,
)
TEXT = re.compile(
    r"^[ \t]*#[ \t]*pragma[ \t]+lbtrace[ \t]+text[ \t]+(\w+)[ \t]+(\w+)"
    r"[ \t]+at[ \t]+([0-9]{1,6})[ \t]*$",
    re.M,
)
PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+lbtrace\b[^\n]*", re.M)
PROBE = re.compile(r"\s*probe\s+(\w+)\s*\(([^()]*)\)\s*;")

LENGTHS = ("_length", "_len")

WORDS = frozenset({"const", "unsigned", "signed", "int", "char", "long", "short", "void", "struct"})
"""Words that are part of a type, also at its end."""

EXAMPLE = "provider NAME { probe NAME(char *query, int rows); };"
"""What a file of definitions looks like."""

DEFINITIONS = f"name a file of provider definitions with {option('provider')}"

LARGEST = 1 << 20
"""Bytes of a file of definitions."""

CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")
"""What no text holds, in whatever encoding its comments are."""


class Argument(NamedTuple):
    """An argument as it is declared: its ``type`` in C, and its ``name``, which may be empty. Its
    text begins ``offset`` bytes after the address that is passed."""

    type: str
    name: str
    offset: int = 0

    @property
    def is_text(self) -> bool:
        """Whether it is the address of text."""
        return re.fullmatch(r"char ?\*|string", self.type) is not None


class Pair(NamedTuple):
    """Two markers, by ``provider:name``, which open and close a call.

    A closing marker is that of the innermost call of the pair whose arguments of the names ``by``
    have the same values. The next opening where the stack pointer is no lower ends a
    call that nothing closed, unless the pointer is the same and the values and the marker's place
    are others, or the pair ``nests`` without the stack's growing, as calls of an interpreter do.
    """

    opening: str
    closing: str
    by: tuple[str, ...] = ()
    nests: bool = False


class Definitions(NamedTuple):
    """What is known of providers: the arguments of ``markers`` by ``provider:name``, in each of
    the ways in which they are defined, and the ``pairs`` among them."""

    markers: dict[str, list[tuple[Argument, ...]]]
    pairs: tuple[Pair, ...] = ()

    def joined(self, other: Definitions) -> Definitions:
        """Return both; where both define a marker, what ``other`` says."""
        return Definitions(self.markers | other.markers, (*other.pairs, *self.pairs))


UNDEFINED = Definitions({})


def find_definitions(provider: str) -> Definitions:
    """What is known of ``provider``; nothing of one that is unknown. The name is a file's that
    others wrote: it is looked for among those that are here, and never becomes a path."""
    if provider not in _known():
        return UNDEFINED
    file = resources.files(__name__) / f"{provider}.d"
    return read_definitions(file.read_text("utf-8"), file.name)


@cache
def _known() -> frozenset[str]:
    """The providers of which there is a file of definitions."""
    names = (file.name for file in resources.files(__name__).iterdir())
    return frozenset(name.removesuffix(".d") for name in names if name.endswith(".d"))


def read_definitions(text: str, path: str) -> Definitions:
    """The markers that the provider definitions ``text`` of the file ``path`` define. Raises
    `UsageError`."""
    markers: dict[str, list[tuple[Argument, ...]]] = {}
    pairs: list[Pair] = []
    plain = COMMENTS.sub(" ", text[:LARGEST])
    if outside := PRAGMA.search(PROVIDER.sub("", plain)):
        raise UsageError(
            f"{path}: stands in no provider: {_line(outside[0])}",
            "write it between the braces of the provider whose markers it is about",
        )
    for provider, body in PROVIDER.findall(plain):
        probes = DIRECTIVES.sub(" ", body)
        position = 0
        while probe := PROBE.match(probes, position):
            arguments = tuple(_arguments(probe[2], path))
            ways = markers.setdefault(f"{provider}:{probe[1]}", [])
            if any(len(way) == len(arguments) for way in ways):
                raise UsageError(
                    f"{path}: {provider}:{probe[1]} is defined twice with"
                    f" {len(arguments)} argument{'s' * (len(arguments) != 1)}",
                    "leave one: markers of one name are distinguished by their number of arguments",
                )
            ways.append(arguments)
            position = probe.end()
        if rest := probes[position:].strip():
            raise _misread(path, rest)
        _shift_texts(provider, body, markers, path)
        pairs += _pairs(provider, body, markers, path)
    if not markers:
        raise _misread(path, text.strip())
    return Definitions(markers, tuple(pairs))


def open_definitions(paths: Sequence[str]) -> Definitions:
    """Return what files of provider definitions say; of several on a marker, the last one. Raises
    `BinaryError`, `UsageError`."""
    found = UNDEFINED
    for path in paths:
        file = _open_definition(path)
        data = os.pread(file.descriptor, LARGEST, 0)
        if CONTROLS.search(data):
            kind = "a program or library" if data.startswith(b"\x7fELF") else "binary"
            raise UsageError(f"{path}: is {kind}, not text", f"{DEFINITIONS}: {EXAMPLE}")
        found = found.joined(read_definitions(data.decode("utf-8", "replace"), path))
    return found


def _open_definition(path: str) -> File:
    try:
        return File(path)
    except BinaryError as error:
        hint = error.hint if "permissions" in error.hint else DEFINITIONS
        raise BinaryError(error.message, hint) from None


def _shift_texts(
    provider: str, body: str, markers: dict[str, list[tuple[Argument, ...]]], path: str
) -> None:
    for probe, name, offset in TEXT.findall(body):
        ways = markers.get(f"{provider}:{probe}", [])
        texts = [each for way in ways for each in way if each.name == name and each.is_text]
        if not texts:
            raise UsageError(
                f"{path}: {provider}:{probe} has no argument {name} that is text",
                "write: #pragma lbtrace text PROBE ARGUMENT at OFFSET",
            )
        ways[:] = [
            tuple(each._replace(offset=int(offset)) if each in texts else each for each in way)
            for way in ways
        ]


def _line(text: str) -> str:
    """What is shown of a line."""
    return " ".join(text.split())[:80]


def _pairs(
    provider: str, body: str, markers: dict[str, list[tuple[Argument, ...]]], path: str
) -> Iterator[Pair]:
    for line in PRAGMA.findall(body):
        if TEXT.fullmatch(line):
            continue
        read = PAIR.fullmatch(line)
        ends = [f"{provider}:{name}" for name in read.groups()[:2]] if read else []
        if read is None or len(set(ends)) < 2 or not all(end in markers for end in ends):
            raise UsageError(
                f"{path}: is no pair of markers: {_line(line)}",
                "write: #pragma lbtrace pair OPENING CLOSING by ARGUMENT ...",
            )
        by, how = tuple((read[3] or "").split()), read[4]
        known = {each.name for end in ends for arguments in markers[end] for each in arguments}
        if unknown := next((name for name in by if name not in known), ""):
            raise UsageError(
                f"{path}: {' and '.join(ends)} have no argument {unknown} to be paired by",
                "name arguments of theirs, and then nests if they do",
            )
        yield Pair(ends[0], ends[1], by, nests=how == "nests")


def choose(defined: Sequence[tuple[Argument, ...]], count: int) -> tuple[Argument, ...]:
    """The definition of a marker that has ``count`` arguments; nothing where none has as many, as
    which of them is which is unknown then."""
    return next((arguments for arguments in defined if len(arguments) == count), ())


def _arguments(text: str, path: str) -> Iterator[Argument]:
    for part in filter(None, (part.strip() for part in text.split(","))):
        words = re.findall(r"\w+|\*|\S", part)
        if not all(re.fullmatch(r"\w+|\*", word) for word in words):
            raise _misread(path, part)
        named = len(words) > 1 and words[-1] != "*" and words[-1] not in WORDS
        if named and len(words) == 2 and words[0] in ("const", "unsigned", "signed", "struct"):
            named = False
        type = [word for word in (words[:-1] if named else words) if word != "const"]
        yield Argument(" ".join(type).replace("* *", "**"), words[-1] if named else "")


def _misread(path: str, text: str) -> UsageError:
    line = " ".join(text.split())[:60] or "nothing"
    return UsageError(
        f"{path}: is no provider definition at: {line}",
        f"write: {EXAMPLE}",
    )

"""Exceptions, as calls show them that these have left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from lbtrace.text import clean
from lbtrace.values.base import Fetched
from lbtrace.values.datum import Datum, Form
from lbtrace.values.notation import text
from lbtrace.values.record import Fields
from lbtrace.values.string import Text, text_reader

TELLING = frozenset({
    *("St13runtime_error", "St11logic_error", "St12domain_error", "St16invalid_argument"),
    *("St12length_error", "St12out_of_range", "St11range_error", "St14overflow_error"),
    *("St15underflow_error", "St12system_error"),
})  # fmt: skip
"""Classes that begin with the text that their ``what()`` returns; those that derive from them begin
with it, too, but may return another one."""

STRING = "string"
"""Go's type of texts."""


class Thrown(Form, Struct, frozen=True):
    """An exception of C++, or a panic of Rust or Go: its ``type``, and what it, or its ``base`` of
    the standard library if that is named, says, of Go its value; None where that is not known."""

    type: str
    what: Form | None = None
    base: str = ""

    def text(self) -> str:
        own = clean(self.type)
        if self.what is None:
            return own
        said = text(self.what)
        return f"{own} ({clean(self.base)}: {said})" if self.base else f"{own}: {said}"

    def json(self) -> Any:
        base = {"base": self.base} if self.base else {}
        said = {}
        if self.what:
            said = {"what": self.what.json(), **dict(self.what.lacks("")).get("", {})}
        return {"type": self.type, **base, **said}


def read(
    fetched: Fetched,
    own: int,
    bases: Mapping[int, int],
    what: int,
    spelled: Callable[[str], str],
) -> Datum:
    """Return the exception of which the slot ``own`` has the mangled name, those of ``bases`` the
    names of bases, each with the slot of what may be its text, as ``what`` is of the exception
    itself; None where it was not read. ``spelled`` writes a name as people do."""
    name = text_reader(own)(fetched)
    if not isinstance(name, Text) or not name.data:
        return None
    for slot, said in {own: what, **bases}.items():
        base, text = str(text_reader(slot)(fetched)), text_reader(said)(fetched)
        if base in TELLING and isinstance(text, Text):
            return Thrown(spelled(str(name)), text, spelled(base) if slot != own else "")
    return Thrown(spelled(str(name)))


def read_panic(fetched: Fetched, slots: Sequence[int]) -> Datum:
    """Return the panic of Rust whose message is in one of the ``slots``, if anywhere."""
    found = [text_reader(slot)(fetched) for slot in slots]
    said = [each for each in found if isinstance(each, Text) and _is_text(each)]
    return Thrown("panic", said[0] if len(said) == 1 else None)


def _is_text(text: Text) -> bool:
    try:
        str(text).encode()
    except UnicodeEncodeError:
        return False
    return True


def panic_of(value: Datum) -> Datum:
    """Return the panic of Go with this ``value``, an interface's: of texts the text."""
    if isinstance(value, Fields) and len(value.fields) > 1:
        held, inside = value.fields[0].value, value.fields[1].value
        value = inside if held == STRING else value
    return Thrown("panic", value if isinstance(value, Form) else None)

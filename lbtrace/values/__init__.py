"""The kinds of values: their types, how they are decoded, and how they are written.

`KINDS` has a row for each. A capture names the kind of every value by its tag; what it is made of
is in the module of its row, which is imported when a value of the kind is met. `lbtrace.recognize`
has what recognises a kind in a program, and fetches it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import msgspec

from lbtrace.values.base import Member, Type, Value, decoder
from lbtrace.values.notation import results_text, text

__all__ = [
    "KINDS",
    "Type",
    "Value",
    "convert",
    "decoder",
    "join_results",
    "results_text",
    "text",
    "type_hook",
]


class Kind(msgspec.Struct, frozen=True):
    """A row of `KINDS`, for the files ``name`` in `lbtrace.values` and `lbtrace.recognize`.

    ``type`` is the class of its types in the former, whose tag is the name; without one, its
    types are of another kind. What it looks like in a program, the latter is asked about: a type of
    this ``form``, in this ``language`` if not any, whose name matches the ``pattern``. With
    ``through`` it is shown wherever a reference leads to it. Where ``is_fetched``, the latter says
    what is fetched, else that is one number.
    """

    name: str
    type: str = ""
    form: str = ""
    language: str = ""
    pattern: str = ""
    through: bool = False
    is_fetched: bool = False


RUST_TEXT = (
    r"&(mut )?(str|\[u8\]|std::path::Path|std::ffi::os_str::OsStr)$|(Os)?String$|PathBuf$"
    r"|alloc::boxed::Box<(str|\[u8\]),"
)

CPP_VIEW = r"basic_string_view(<(char|wchar_t|char8_t|char16_t|char32_t)[,>]|$)"
CPP_STRING = r"basic_string(<(char|wchar_t|char8_t|char16_t|char32_t)[,>]|$)"
GO_TIME = r"time\.Time$|go\.shape\.struct \{ time\.wall uint64; time\.ext int64;"
"""Instances of generic functions name types by their parts."""


def _library(name: str, type: str, pattern: str, language: str = "c++") -> Kind:
    """A record of a library, with a type of its own."""
    return Kind(name, type, "record", language, pattern, through=True, is_fetched=True)


KINDS = (
    Kind("integer", "Integer"),
    Kind("word", "Word", "bits"),
    Kind("character", "Character"),
    Kind("boolean", "Boolean"),
    Kind("float", "Float"),
    Kind("void", "Void"),
    Kind("opaque", "Opaque", is_fetched=True),
    Kind("go_duration", "GoDuration", "base", "go", r"time\.Duration$"),
    Kind("base_type", form="base"),
    Kind("enumeration", "Enumeration", "enumeration"),
    Kind("pointer", "Pointer", "pointer", is_fetched=True),
    Kind("member_pointer", form="member pointer"),
    Kind("array", "Array", "array", is_fetched=True),
    Kind("string", "String", "string", is_fetched=True),
    Kind("wide_text", "WideText", is_fetched=True),
    Kind("cpp_string", "", "record", "c++", CPP_STRING, through=True),
    Kind("cpp_string_view", "", "record", "c++", CPP_VIEW, through=True),
    _library("bit_vector", "BitVector", r"vector<bool\b|vector$"),
    _library("bitset", "Bitset", r"bitset<"),
    _library("vector", "Vector", r"vector(<|$)"),
    _library("optional", "Optional", r"optional(<|$)"),
    _library("choice", "Choice", r"variant(<|$)"),
    _library("smart_pointer", "SmartPointer", r"(unique|shared|weak)_ptr(<|$)"),
    _library("map", "Map", r"(multi)?(map|set)(<|$)"),
    _library("function", "Function", r"function<"),
    Kind("time_point", "", "record", "c++", r"time_point(<|$)", through=True),
    Kind("cpp_path", "", "record", "c++", r"path$", through=True),
    Kind("cpp_array", "", "record", "c++", r"array<"),
    Kind("cpp_atomic", "", "record", "c++", r"atomic(<|$)|atomic_\w+$"),
    Kind("cpp_tuple", "", "record", "c++", r"tuple<"),
    Kind("cpp_span", "", "record", "c++", r"span<", through=True),
    _library("deque", "Deque", r"deque(<|$)"),
    _library("chain", "Chain", r"(unordered_(multi)?(map|set)|(forward_)?list)(<|$)"),
    _library("duration", "Duration", r"duration<"),
    Kind("absl_string_view", "", "record", "c++", r"string_view$", through=True),
    Kind("rust_text", "", "record", "rust", RUST_TEXT, through=True),
    Kind("rust_vector", "", "record", "rust", r"&(mut )?\[|Vec<", through=True),
    Kind("rust_map", "", "record", "rust", r"(Hash|BTree)(Map|Set)<", through=True),
    Kind("trait_object", "TraitObject", "record", "rust", r".*\bdyn ", is_fetched=True),
    Kind("variants", "Variants", "record", "rust", is_fetched=True),
    _library("rust_duration", "RustDuration", r"Duration$", "rust"),
    _library("io_error", "IoError", r"Error$", "rust"),
    Kind("rust_number", "", "record", "rust", r"NonZero(<\w+>|[IU]\w+)$"),
    Kind("slice", "Slice", "slice", is_fetched=True),
    Kind("interface", "Interface", "interface", is_fetched=True),
    Kind("go_map", "GoMap", "map or channel", is_fetched=True),
    Kind("go_header", form="map or channel"),
    Kind("go_time", "Time", "record", "go", GO_TIME, is_fetched=True),
    Kind("record", "Record", "record", is_fetched=True),
    Kind("flags", "Flags"),
    Kind("mode", "Mode"),
    Kind("wait_status", "WaitStatus"),
    Kind("argument_vector", "ArgumentVector"),
    Kind("device", "Device"),
    Kind("owner", "Owner"),
    Kind("by_argument", "ByArgument"),
    Kind("outcome", "Outcome"),
    Kind("filled", "Filling"),
    Kind("failing", "Failing"),
    Kind("socket_address", "SocketAddress"),
    Kind("formatted", "Formatted"),
    Kind("packed", "Packed"),
    Kind("signal_set", "SignalSet"),
    Kind("bit_numbers", "BitNumbers"),
    Kind("directory_entries", "DirectoryEntries"),
    Kind("text_vector", "TextVector"),
    Kind("first_of", "FirstOf"),
    Kind("internet_address", "InternetAddress"),
    Kind("long_address", "LongAddress", is_fetched=True),
)
"""In the order in which they are asked whether a type in a program is theirs. Modules are
imported when they are needed."""

T = TypeVar("T")


def join_results(members: Iterable[Member] = (), size: int = 0) -> Type:
    """Return the type of a function's several results: a record without a name."""
    from lbtrace.values.record import Record  # imported here because few functions have several

    return Record("", size, tuple(members))


@cache
def find_kind(tag: str) -> type[Type] | None:
    """Return the class of the types with this tag; None where it is not known."""
    row = next((row for row in KINDS if row.name == tag and row.type), None)
    if row is None:
        return None
    found: type[Type] = getattr(import_module(f"lbtrace.values.{row.name}"), row.type)
    return found


def find_row(type: str) -> Kind | None:
    """Return the row of the kind whose types are of the class with this name."""
    return next((row for row in KINDS if row.type == type), None)


def type_hook(wanted: type, data: Any) -> Any:
    """Return what makes types of decoded data: msgspec's ``dec_hook`` for all that holds a `Type`.

    A type of an unknown kind becomes one whose values are unknown. Raises `ValueError`
    where the data are none of a type.
    """
    if wanted is not Type:
        raise NotImplementedError(f"{wanted} is not decoded")
    if not isinstance(data, dict):
        raise ValueError(f"Expected `object`, got `{type(data).__name__}`")
    tag = data.get("type")
    if not isinstance(tag, str):
        raise ValueError("Object missing required field `type`")
    found = find_kind(tag)
    try:
        if found is None:
            from lbtrace.values.unknown import Unknown

            size, name = data.get("size"), data.get("name")
            return Unknown(
                tag,
                name if isinstance(name, str) else "",
                size if isinstance(size, int) and size > 0 else 0,
            )
        return convert(data, found)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # msgspec adds where in the whole it is


def convert(data: Any, wanted: type[T]) -> T:
    """Return ``data`` as what is ``wanted``. Raises `msgspec.ValidationError`."""
    return msgspec.convert(data, wanted, strict=False, dec_hook=type_hook)

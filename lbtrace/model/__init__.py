"""The data model: plain data that flows from the plan to the sinks.

Nothing here holds a handle or touches the kernel. Everything that belongs to
a `Plan` can be written to a capture and read back by a later version, so
fields are only ever added, with defaults. The kinds of values are those of
`lbtrace.values`; each, and what happens when a plan runs, is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lbtrace.model.clock import Clock
from lbtrace.model.fetching import (
    CFA,
    OTHER_LANGUAGE,
    Condition,
    ConventionHints,
    Fetch,
    Formal,
    Operation,
    Piece,
    Prototype,
    Scalar,
)
from lbtrace.model.jumps import Jump
from lbtrace.model.kernel_event import KernelEvent
from lbtrace.model.plan import (
    NO_BINARY,
    NO_FUNCTION,
    SENDING,
    Addition,
    Binary,
    Column,
    Function,
    GoLayout,
    Grouping,
    Plan,
    Probe,
    Site,
    Symbols,
    Target,
    UnseenSwitches,
)
from lbtrace.values.base import Member, Type, Value

if TYPE_CHECKING:
    from lbtrace.model.calls import Arguments, Call, Callers, End, Loss, Summary
    from lbtrace.model.events import (
        Aggregate,
        Aggregates,
        Batch,
        Event,
        Frame,
        Losses,
        Thread,
        lost_events,
    )
    from lbtrace.values.array import Array, Elements
    from lbtrace.values.boolean import Boolean
    from lbtrace.values.character import Char, Character
    from lbtrace.values.datum import Argument, Datum, Form, Unreadable, keys_of
    from lbtrace.values.enumeration import Constant, Enumeration
    from lbtrace.values.float import Float
    from lbtrace.values.integer import LONG, Integer
    from lbtrace.values.interface import Interface
    from lbtrace.values.opaque import Opaque
    from lbtrace.values.pointer import Address, Pointer, Referent, Symbol
    from lbtrace.values.record import Fields, Record
    from lbtrace.values.slice import Slice
    from lbtrace.values.string import String, Text
    from lbtrace.values.variants import Case, Variant, Variants
    from lbtrace.values.vector import Vector
    from lbtrace.values.void import VOID, Void
    from lbtrace.values.word import UNKNOWN, Word
from lbtrace.model.wire_limits import (
    CALLERS,
    CLOSE,
    EXEC,
    FORK,
    INTERRUPT,
    LOSS,
    OFF_CPU,
    ON_ALTSTACK,
    OPEN,
    POINT,
    UNHOOKED,
    UNPROBED,
    UNWOUND,
)
from lbtrace.model.wire_limits import KIND_MASK as KIND

_HOMES = {
    **dict.fromkeys(
        ("Arguments", "Call", "Callers", "End", "Fork", "InheritedCall"), "model.calls"
    ),
    **dict.fromkeys(("Loss", "Summary"), "model.calls"),
    **dict.fromkeys(("Aggregate", "Aggregates", "Batch", "Event", "Frame"), "model.events"),
    **dict.fromkeys(("Losses", "Thread"), "model.events"),
    **dict.fromkeys(("executed_programs", "forked_thread", "lost_events"), "model.events"),
    **dict.fromkeys(("Argument", "Datum", "Form", "Unreadable", "keys_of"), "values.datum"),
    **dict.fromkeys(("Array", "Elements"), "values.array"),
    "Boolean": "values.boolean",
    **dict.fromkeys(("Char", "Character"), "values.character"),
    **dict.fromkeys(("Constant", "Enumeration"), "values.enumeration"),
    "Float": "values.float",
    **dict.fromkeys(("LONG", "Integer"), "values.integer"),
    "Interface": "values.interface",
    "Opaque": "values.opaque",
    **dict.fromkeys(("Address", "Pointer", "Referent", "Symbol"), "values.pointer"),
    **dict.fromkeys(("Fields", "Record"), "values.record"),
    "Slice": "values.slice",
    **dict.fromkeys(("String", "Text"), "values.string"),
    **dict.fromkeys(("Case", "Variant", "Variants"), "values.variants"),
    "Vector": "values.vector",
    **dict.fromkeys(("VOID", "Void"), "values.void"),
    **dict.fromkeys(("UNKNOWN", "Word"), "values.word"),
}
"""The module that defines a name which a plan has no use for, or not every plan."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lbtrace.model' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"lbtrace.{_HOMES[name]}"), name)
    return found

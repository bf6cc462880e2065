"""Where the standard library's classes have their members: libstdc++'s, and libc++'s (``__1``).

They are the same in all versions with the same mangled names: their ABIs promise it. A class is
known with the allocators and the like that it has by default.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

DEFAULTS = (
    *("std::allocator<", "std::char_traits<", "std::default_delete<"),
    *("std::ratio<", "std::chrono::"),
)
"""Arguments after the first that add no members."""


class Layout(Struct, frozen=True):
    """The ``size`` of a class in bytes (0: of its first argument) and its ``members``, with their
    offsets and types, ``{0}`` being the first argument of the template. Objects are passed
    ``by_value`` or as an address. What ``is_number`` is an enumeration."""

    size: int
    members: tuple[tuple[str, int, str], ...] = ()
    by_value: bool = False
    is_number: bool = False


LAYOUTS = {
    "std::__cxx11::basic_string": Layout(
        32, (("_M_dataplus", 0, "std::_Alloc_hider"), ("_M_string_length", 8, "unsigned long"))
    ),
    "std::__1::basic_string": Layout(24, (("__l", 0, "std::__1::__long<{0}>"),)),
    "std::__1::__long": Layout(24, (("__size_", 8, "unsigned long"), ("__data_", 16, "{0}*"))),
    "std::basic_string_view": Layout(
        16, (("_M_len", 0, "unsigned long"), ("_M_str", 8, "{0} const*")), by_value=True
    ),
    "std::__1::basic_string_view": Layout(
        16, (("__data_", 0, "{0} const*"), ("__size_", 8, "unsigned long")), by_value=True
    ),
    "std::vector": Layout(24, (("_M_start", 0, "{0}*"), ("_M_finish", 8, "{0}*"))),
    "std::__1::vector": Layout(24, (("__begin_", 0, "{0}*"), ("__end_", 8, "{0}*"))),
    "std::unique_ptr": Layout(8, (("_M_head_impl", 0, "{0}*"),)),
    "std::__1::unique_ptr": Layout(8, (("__ptr_", 0, "{0}*"),)),
    **dict.fromkeys(
        ("std::shared_ptr", "std::weak_ptr"),
        Layout(16, (("_M_ptr", 0, "{0}*"), ("_M_refcount", 8, "std::__shared_count<void>"))),
    ),
    "std::__shared_count": Layout(8, (("_M_pi", 0, "void*"),)),
    **dict.fromkeys(
        ("std::__1::shared_ptr", "std::__1::weak_ptr"),
        Layout(16, (("__ptr_", 0, "{0}*"), ("__cntrl_", 8, "void*"))),
    ),
    "std::function": Layout(
        32,
        (("_M_functor", 0, "void*"), ("_M_manager", 16, "void*"), ("_M_invoker", 24, "void*")),
    ),
    "std::chrono::duration": Layout(0, (("__r", 0, "{0}"),), by_value=True),
    "std::__1::chrono::duration": Layout(0, (("__rep_", 0, "{0}"),), by_value=True),
    "std::initializer_list": Layout(
        16, (("_M_array", 0, "{0} const*"), ("_M_len", 8, "unsigned long")), by_value=True
    ),
    **dict.fromkeys(("std::memory_order", "std::errc"), Layout(4, is_number=True)),
    **dict.fromkeys(
        ("std::_Ios_Openmode", "std::_Ios_Fmtflags", "std::_Ios_Seekdir"),
        Layout(4, is_number=True),
    ),
    "std::align_val_t": Layout(8, is_number=True),
}
"""By name. Sources: libstdc++'s ``bits/basic_string.h``, ``string_view``, ``bits/stl_vector.h``,
``bits/unique_ptr.h``, ``bits/shared_ptr_base.h``, ``bits/std_function.h``, ``bits/chrono.h``,
``initializer_list``, ``bits/ios_base.h``; libc++'s ``string``, ``string_view``, ``vector``,
``__memory/unique_ptr.h``, ``__memory/shared_ptr.h``, ``__chrono/duration.h``."""


def find_layout(name: str, arguments: Sequence[str]) -> Layout | None:
    """Return the layout of the class ``name`` with these template ``arguments``, as people write
    them; None where none is known."""
    found = LAYOUTS.get(name)
    if found is None or not all(each.startswith(DEFAULTS) for each in arguments[1:]):
        return None
    if arguments and (arguments[0].endswith("]") or (arguments[0] == "bool" and "vector" in name)):
        return None
    return found

"""Buffers that known functions fill: what is in them at entry is no argument.

Source: the Linux man-pages, sections 2 and 3; zlib.h.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from lbtrace.model import Function, Prototype

FILLED = {
    name: numbers
    for numbers, names in {
        (0,): "ctermid fgets fgets_unlocked getcwd getdomainname gethostname getlogin_r"
        " gets getwd snprintf sprintf stpcpy stpncpy strcpy strfmon strftime strftime_l strlcpy"
        " strncpy strxfrm tmpnam vsnprintf vsprintf wcstombs",
        (1,): "asctime_r confstr ctime_r gzgets ptsname_r readlink realpath strerror_r ttyname_r"
        " xpg_strerror_r",
        (2,): "inet_ntop readlinkat",
        (2, 4): "getnameinfo",
    }.items()
    for name in names.split()
}
"""By name, the numbers of the parameters, from 0, to which a function writes text."""

CORE = re.compile(r"_*(?:IO_|GI_+)?(\w+?)(?:_chk)?(?:@.*)?")
"""The name in that of a variant, as the C library has them: ``__snprintf_chk``."""


def mark(function: Function, prototype: Prototype) -> Prototype:
    """``prototype`` of ``function`` with the buffers marked that it fills."""
    names = filter(None, map(CORE.fullmatch, (function.name, *function.aliases)))
    filled = {number for name in names for number in FILLED.get(name[1], ())}
    if not filled:
        return prototype
    parameters = (
        replace(each, filled=number in filled and "const" not in each.type.name)
        for number, each in enumerate(prototype.parameters)
    )
    return replace(prototype, parameters=tuple(parameters))

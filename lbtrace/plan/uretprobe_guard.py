"""What speaks against uretprobes where the user asks for them (``--returns uretprobe``).

A uretprobe replaces the return address on the stack while a call runs. Code that reads it, leaves
calls or switches stacks goes wrong by that. This is a check by names alone, of the files that the
traced processes map: it finds the usual reasons, not all. Nobody gets a uretprobe unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from lbtrace.elf import symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.symbol_table import Wanted
from lbtrace.errors import BinaryError, UsageError, option
from lbtrace.plan.known_names import FIBERS, SYSTEM
from lbtrace.plan.processes import processes
from lbtrace.plan.selection import Selection
from lbtrace.system.lookups import remembering

HAZARDS: dict[str, tuple[str, ...]] = {
    "exceptions follow return addresses": (
        *("__cxa_throw", "__cxa_begin_catch", "__gxx_personality_v0", "_Unwind_Resume"),
        *("_Unwind_RaiseException", "_Unwind_ForcedUnwind", "rust_eh_personality"),
        *("__gnat_personality_v0", "_d_throwdwarf", "objc_exception_throw"),
    ),
    "the program switches stacks": (*FIBERS, "makecontext", "swapcontext", "setcontext"),
    "calls may be left by longjmp": ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"),
    "threads may end by unwinding": ("pthread_exit", "pthread_cancel", "thrd_exit"),
    "return addresses are read": (
        *("backtrace", "_Unwind_Backtrace", "getcontext", "mcount", "__fentry__"),
        *("__cyg_profile_func_enter", "__asan_init", "__tsan_init", "__msan_init", "la_version"),
        *("ProfilerStart", "HeapProfilerStart", "heaptrack_init"),
    ),
    "a runtime walks or switches its stacks": (
        *("caml_startup", "caml_main", "JNI_CreateJavaVM", "JVM_DefineClass", "JLI_Launch"),
        *("napi_module_register", "node_module_register", "JS_Init", "mono_main", "hs_init"),
        *("coreclr_initialize", "scm_init_guile", "ruby_init", "zend_fiber_init_context"),
    ),
    "signal handlers may run on alternate stacks": ("sigaltstack",),
    "system calls may be watched, that of a uretprobe as well": ("ptrace",),
}
"""Names that a file imports or has a copy of, by what they show."""

_WHY = {name: why for why, names in reversed(HAZARDS.items()) for name in names}
_WANTED = Wanted(_WHY)
_STATIC = re.compile(r"_Unwind_|__g(xx|cc)_personality")
"""What every static program has a copy of, used or not."""


def check(images: Sequence[Image], selection: Selection) -> list[str]:
    """Return remarks about uretprobes that the user asks for. Raises `UsageError` where names show
    that they would harm, unless the user insists (``--force``)."""
    if selection.hazard:  # the kernel's own, and watched system calls
        raise _harmful(selection.hazard)
    library = next((image.path for image in images if not image.is_program), "")
    if selection.strangers and library:
        raise _harmful(f"it would change return addresses in every process with {library}")
    found = [*survey(images, selection)]
    if selection.altstack_checked:  # the session's program refuses the hook there
        found = [each for each in found if not each.startswith("signal handlers")]
    if found and not selection.force:
        raise _harmful(found[0])
    return [f"uretprobes may harm the program: {each}" for each in found]


def _harmful(why: str) -> UsageError:
    return UsageError(
        f"{option('returns', 'uretprobe')} may crash what is traced: {why}",
        f"leave {option('returns')} out, or insist by {option('force')}",
    )


def survey(images: Sequence[Image], selection: Selection) -> Iterator[str]:
    """Yield what speaks against uretprobes in the processes that run ``images``."""
    running = processes(images, selection.beside)
    paths = dict.fromkeys(chain((i.path for i in images), *(each.paths for each in running)))
    for why in HAZARDS:
        for path in paths:
            if name := next((n for n in _names(path) if _WHY[n] == why), ""):
                yield f"{why} ({path} has {name})"
                break


@remembering(512)
def _names(path: str) -> tuple[str, ...]:
    """The names of the table that a file imports or has a copy of."""
    try:
        image = Image.open(path)
        dynamic = image.once(Dynamic)
    except BinaryError:
        return ()
    if SYSTEM.match(dynamic.soname):
        return ()
    found = {name for name in dynamic.imports.wanted(_WANTED) if name in _WHY}
    try:
        own = image.once(symbols.read).functions.wanted(_WANTED)
    except BinaryError:
        own = ()
    static = not dynamic.needed
    for name in (name for f in own for name in (f.name, *f.aliases)):
        if name in _WHY and not (static and _STATIC.match(name)):
            found.add(name)
    return tuple(sorted(found))

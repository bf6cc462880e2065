"""Names that speak against uretprobes: in files that traced processes map, and of functions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lbtrace.plan.known_names import FIBERS

ALTERNATE = "signal handlers may run on alternate stacks"

HAZARDS: dict[str, tuple[str, ...]] = {
    "exceptions follow return addresses": (
        *("__cxa_throw", "__cxa_begin_catch", "__gxx_personality_v0", "_Unwind_Resume"),
        *("_Unwind_RaiseException", "_Unwind_ForcedUnwind", "rust_eh_personality"),
        *("__gnat_personality_v0", "_d_throwdwarf", "objc_exception_throw"),
    ),
    "stacks are switched": (*FIBERS, "makecontext", "swapcontext", "setcontext"),
    "calls may be left by longjmp": ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"),
    "threads may end by unwinding": ("pthread_exit", "pthread_cancel", "thrd_exit"),
    "return addresses are read": (
        *("backtrace", "_Unwind_Backtrace", "unw_backtrace", "getcontext", "mcount"),
        *("__fentry__", "__cyg_profile_func_enter", "__asan_init", "__tsan_init", "__msan_init"),
        *("la_version", "ProfilerStart", "HeapProfilerStart", "heaptrack_init"),
        *("dlsym", "dlvsym"),  # ask who calls, so libraries that are preloaded may as well
    ),
    "plugins may be loaded, of which nothing is known": ("dlopen", "dlmopen"),
    "a runtime walks or switches its stacks": (
        *("caml_startup", "caml_main", "JNI_CreateJavaVM", "JVM_DefineClass", "JLI_Launch"),
        *("napi_module_register", "node_module_register", "JS_Init", "mono_main", "hs_init"),
        *("coreclr_initialize", "scm_init_guile", "ruby_init", "zend_fiber_init_context"),
    ),
    ALTERNATE: ("sigaltstack",),
    "system calls may be watched, and a uretprobe makes one": ("ptrace",),
}
"""Names that a file imports or has a copy of, by what they show."""

_KEEPS = re.compile(
    # Return twice, or into another frame.
    r"_*(libc_)?(sig)?(set|long)jmp(_chk)?|savectx|_*(libc_)?vfork|_*clone3?(_internal)?"
    r"|_*((get|set|swap|make)context|start_context|push___start_context)"
    r"|(make|jump|ontop)_fcontext|coro(utine)?_transfer|co_switch|coctx_swap|acosw|_mco_switch"
    r"|fiber_switchContext|slp_switch|__morestack.*|__stack_split_initialize|swift_task_switch.*"
    # The kernel, the loader or a jump leads there.
    r"|_*start|_*restore(_rt)?(_sa_restorer)?|_*(default|kernel)_rt_\w+|_dl_.*|stg_.*"
    # Ask who called them, or return in its place.
    r"|_*(libc_)?dl(v?sym|m?open)(_\w+)?|do_(dl)?(v?sym|open)|_*dl_iterate_phdr"
    r"|_*mcount(_.*)?|__fentry__|__gnu_mcount_nc|__cyg_profile_func_\w+|_p(enter|exit)|__xray_.*"
    r"|__interceptor_.*|__sanitizer_.*|__x86_(indirect|return)_thunk.*|__(llvm_ret|indirect_)\w+"
    # Walk from their own frame.
    r"|_Unwind_.*|__cxa_(re)?throw|_*backtrace(_\w+)?|_*UL?(x86_|aarch)64_.*|\w+64_getcontext"
    r"|unw_.*|uw_.*|_*pthread_(exit|unwind)|__do_cancel|thrd_exit"
    r"|caml_(c_call|call_gc|start_program|alloc|raise|callback|perform|resume|runstack|system).*"
    r"|caml_call_realloc_stack"
)
"""Functions whose return address must stay what it is, without what compilers append."""


def keeps_address(names: Sequence[str]) -> bool:
    """Return whether a function with one of these names must keep its return address."""
    return any(_KEEPS.fullmatch(re.split(r"[.@]", name, maxsplit=1)[0]) for name in names)

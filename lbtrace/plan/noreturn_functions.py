"""Functions that never return to their callers, by name.

What follows a call of one is reached otherwise or is no code. The sources say
so by ``noreturn``, ``[[noreturn]]`` or ``-> !``.
"""

from __future__ import annotations

import re
from functools import cache

NAMES = frozenset(
    {
        # POSIX and C: stdlib.h, unistd.h, setjmp.h, pthread.h, threads.h
        *("abort", "exit", "_exit", "_Exit", "quick_exit", "thrd_exit", "pthread_exit"),
        *("longjmp", "_longjmp", "siglongjmp", "__longjmp", "____longjmp_chk", "__longjmp_chk"),
        # glibc: assert/assert.h, debug/*.c, csu/libc-start.c, err.h, error.h
        *("__assert", "__assert_fail", "__assert_perror_fail", "__libc_start_main"),
        *("__stack_chk_fail", "__stack_chk_fail_local", "__fortify_fail", "__chk_fail"),
        *("__libc_fatal", "__libc_assert_fail", "__libc_message", "_dl_signal_error"),
        *("_dl_fatal_printf", "err", "errx", "verr", "verrx"),
        # musl: src/exit, src/env
        *("__stack_chk_fail_local", "__libc_start_main_stage2"),
        # Itanium C++ ABI: exception handling, 2.4 and 2.5; libgcc's unwinder
        *("__cxa_throw", "__cxa_rethrow", "__cxa_bad_cast", "__cxa_bad_typeid"),
        *("__cxa_call_unexpected", "__cxa_call_terminate", "__clang_call_terminate"),
        *("__cxa_throw_bad_array_new_length", "__cxa_pure_virtual", "__cxa_deleted_virtual"),
        *("_Unwind_Resume",),
        # Rust: library/panic_unwind, library/std/src/panicking.rs
        *("rust_begin_unwind", "rust_panic", "__rust_start_panic_abort", "__rust_alloc_error"),
        # GLib and others of wide use
        *("g_assertion_message", "g_assertion_message_expr", "g_abort"),
        *("xmlAbort", "Py_FatalError", "_Py_FatalErrorFunc", "Py_Exit", "Py_ExitStatusException"),
        *("rb_raise", "rb_exc_raise", "rb_bug", "rb_fatal", "rb_memerror", "rb_throw_obj"),
        *("lua_error", "luaL_error_noreturn", "luaD_throw", "Perl_croak", "Perl_croak_nocontext"),
        *("Perl_die_unwind", "Perl_croak_no_modify", "Perl_croak_memory_wrap", "Perl_my_exit"),
        *("_zend_bailout", "zend_error_noreturn", "zend_throw_error_noreturn"),
        *("ExceptionalCondition", "pg_re_throw", "proc_exit"),
        # Go: src/runtime (they are called where a check fails)
        *("runtime.gopanic", "runtime.panicdivide", "runtime.panicshift", "runtime.panicmem"),
        *("runtime.panicwrap", "runtime.panicnil", "runtime.throw", "runtime.fatal"),
        *("runtime.fatalthrow", "runtime.fatalpanic", "runtime.panicoverflow"),
        *("runtime.goPanicIndex", "runtime.panicIndex", "runtime.panicIndexU"),
        *("runtime.panicunsafealignment", "runtime.panicdottypeE", "runtime.panicdottypeI"),
        *("runtime.panicnildottype", "runtime.goexit0", "runtime.panicCheck2"),
        *("runtime.panicBounds", "runtime.panicExtend", "runtime.panicrangestate"),
        *("runtime.block", "runtime.gogo", "runtime.abort", "runtime.mcall_noreturn"),
    }
)

PATTERN = (
    r"_ZSt\d+__throw_\w+$"  # std::__throw_*: libstdc++'s functexcept.h
    r"|_ZSt9terminatev$|_ZSt10unexpectedv$|_ZSt17rethrow_exceptionNSt\w+$"
    r"|_ZNSt6__ndk1\d+__throw_\w+$|_ZNSt3__1\d+__throw_\w+$"  # libc++'s
    r"|_ZN10__cxxabiv111__terminateEPFvvE$|_ZN10__cxxabiv112__unexpectedEPFvvE$"
    r"|_ZN4core9panicking\d+\w+|_ZN4core6option13(?:unwrap|expect)_failed17h\w+E$"
    r"|_ZN4core6result13unwrap_failed17h\w+E$|_ZN4core5slice5index\d+slice_\w+_fail17h\w+E$"
    r"|_ZN4core3str16slice_error_fail17h\w+E$|_ZN3std9panicking\d+(?:begin_panic|rust_panic"
    r"|resume_unwind)\w*17h\w+E$|_ZN5alloc5alloc18handle_alloc_error17h\w+E$"
    r"|_ZN5alloc7raw_vec(?:17capacity_overflow|12handle_error)17h\w+E$"
    r"|_R\w*4core9panicking\w+$|_R\w*4core6option13(?:unwrap|expect)_failed$"
    r"|_R\w*4core6result13unwrap_failed$|_R\w*5alloc5alloc18handle_alloc_error$"
    r"|_R\w*5alloc7raw_vec(?:17capacity_overflow|12handle_error)$"
    r"|runtime\.(?:go)?[pP]anicSlice\w+$"
)
"""Families of them, mangled (Rust's: library/core/src/panicking.rs and its kin). Programs in C
have no name that needs it compiled."""

MANGLED = ("_Z", "_R", "runtime.")
"""What the names of `PATTERN` begin with."""


def never_returns(name: str) -> bool:
    """Return whether the function called ``name`` never returns."""
    if name in NAMES:
        return True
    return name.startswith(MANGLED) and _families().match(name) is not None


@cache
def _families() -> re.Pattern[str]:
    return re.compile(PATTERN)

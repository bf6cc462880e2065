"""Names of functions and libraries that stand for something."""

from __future__ import annotations

import re
from collections.abc import Sequence

FIBERS = frozenset(
    {
        *("make_fcontext", "jump_fcontext", "ontop_fcontext", "coroutine_transfer"),
        *("coro_transfer", "co_switch", "coctx_swap", "aco_resume", "_mco_switch"),
        *("fiber_switchContext", "pth_init", "st_thread_create", "co_resume"),
        *("tb_context_jump", "acosw", "taskcreate", "lthread_create", "wasm_fiber_switch"),
        *("__morestack", "__splitstack_makecontext", "__splitstack_getcontext"),
        *("ruby_init", "ruby_setup", "rb_fiber_new", "zend_fiber_init_context", "PyInit__greenlet"),
    }
)
"""What switches stacks: assembly of Boost.Context, Ruby's coroutine/, libcoro, libco, Tencent's,
libaco, minicoro, druntime, GNU Pth, State Threads, tbox, libtask, lthread; split stacks; cont.c of
Ruby, Zend/zend_fibers.c of PHP, slp_switch of greenlet."""

SYSTEM = re.compile(
    r"(libc|libm|libpthread|libdl|librt|libutil|libresolv|libnsl|libanl|libmvec)\.so\.\d+(\.\d+)?$"
    r"|libgcc_s\.so\.1$|ld-(linux|musl)-.*|ld64\.so\.\d|libc\.musl-.*|ld-.*\.so$"
    r"|libBrokenLocale\.so\.1$|libthread_db\.so\.1$|libnss_\w+\.so\.2$"
)
"""Libraries, by DT_SONAME, of the C library and the unwinder. They offer what the table
names and use it for those that call it; what they load themselves is their own (libgcc_s,
character sets, name services), which throws through no caller."""

KEEPS_ADDRESS = frozenset(
    {
        # Return twice, or into another frame: setjmp(3), vfork(2), clone(2), getcontext(3).
        *("setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "savectx"),
        *("vfork", "__vfork", "__libc_vfork", "clone", "__clone", "clone3", "__clone3"),
        *("__clone_internal", "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"),
        *("__longjmp", "____longjmp_chk", "__libc_longjmp", "__libc_siglongjmp"),
        *("getcontext", "swapcontext", "setcontext", "__getcontext", "__swapcontext"),
        *("__setcontext", "__start_context", "__push___start_context", "makecontext"),
        *("__makecontext", "jump_fcontext", "ontop_fcontext", "make_fcontext"),
        *("coroutine_transfer", "coro_transfer", "co_switch", "coctx_swap", "acosw"),
        *("_mco_switch", "fiber_switchContext", "slp_switch"),
        # Not called: the kernel, the loader or a jump leads there (elf/rtld.c, sigaction.c).
        *("_start", "__start", "_dl_start", "_dl_start_user", "__restore_rt", "__restore"),
        *("__restore_rt_sa_restorer", "__kernel_rt_sigreturn", "__default_rt_sa_restorer"),
        *("_dl_runtime_resolve", "_dl_runtime_resolve_fxsave", "_dl_runtime_resolve_xsave"),
        *("_dl_runtime_resolve_xsavec", "_dl_runtime_profile", "_dl_runtime_profile_sse"),
        *("_dl_runtime_profile_avx", "_dl_runtime_profile_avx512"),
        *("_dl_tlsdesc_return", "_dl_tlsdesc_undefweak", "_dl_tlsdesc_dynamic"),
        *("_dl_tlsdesc_dynamic_fxsave", "_dl_tlsdesc_dynamic_xsave"),
        "_dl_tlsdesc_dynamic_xsavec",
        # Ask who called them: RETURN_ADDRESS (0) in dlfcn/ and elf/dl-libc.c of glibc.
        *("dlsym", "__dlsym", "___dlsym", "dlvsym", "__dlvsym", "___dlvsym"),
        "dlsym_implementation",
        *("dlopen", "__dlopen", "___dlopen", "dlopen_implementation", "dlmopen", "__dlmopen"),
        *("___dlmopen", "dlmopen_implementation", "__libc_dlopen_mode", "__libc_dlsym"),
        *("__libc_dlvsym", "dlsym_doit", "dlvsym_doit", "dlopen_doit", "dlmopen_doit"),
        *("do_dlopen", "do_dlsym", "_dl_sym", "_dl_vsym", "do_sym", "_dl_open"),
        *("__dl_iterate_phdr", "dl_iterate_phdr"),
        # Ask for their caller's caller, or return in its place (gcc -pg, uftrace, XRay).
        *("mcount", "_mcount", "__fentry__", "__mcount_internal", "__cyg_profile_func_enter"),
        *("__cyg_profile_func_exit", "_penter", "_pexit", "__gnu_mcount_nc", "mcount_return"),
        *("__morestack", "__morestack_non_split", "__stack_split_initialize"),
        # Walk from their own frame: libgcc unwind.inc, libunwind, backtrace(3).
        *("_Unwind_RaiseException", "_Unwind_Resume", "_Unwind_Resume_or_Rethrow"),
        *("_Unwind_ForcedUnwind", "_Unwind_Backtrace", "__cxa_throw", "__cxa_rethrow"),
        *("backtrace", "__backtrace", "backtrace_full", "backtrace_simple", "unw_getcontext"),
        *("unw_backtrace", "_ULx86_64_step", "_Ux86_64_getcontext", "_x86_64_getcontext"),
        *("pthread_exit", "__pthread_exit", "__pthread_unwind", "__do_cancel", "thrd_exit"),
        # OCaml's assembly keeps where its callers' frames are (runtime/amd64.S, arm64.S).
        *("caml_c_call", "caml_call_gc", "caml_start_program", "caml_alloc1", "caml_alloc2"),
        *("caml_alloc3", "caml_allocN", "caml_raise_exn", "caml_callback_asm"),
        *("caml_callback2_asm", "caml_callback3_asm", "caml_perform", "caml_resume"),
        *("caml_runstack", "caml_call_realloc_stack", "caml_c_call_stack_args"),
    }
)
"""Functions whose return address must stay what it is: they keep it for later, look at it,
or are reached otherwise than by a call, so that something else lies where it would be."""

KEEPS_BEGINNINGS = (
    *("__x86_indirect_thunk", "__indirect_thunk", "__x86_return_thunk", "__llvm_retpoline"),
    *("_Ux86_64_", "_ULx86_64_", "_Uaarch64_", "_ULaarch64_", "uw_init_context"),
    *("uw_install_context", "_dl_relocate_static_pie", "caml_system__", "stg_", "mcount_"),
    *("__interceptor_", "__sanitizer_", "__xray_", "swift_task_switch"),
)
"""The same, by the beginning of their names: thunks of retpolines (which overwrite it),
unwinders, assembly of runtimes, interceptors of sanitizers (GET_CALLER_PC)."""


def keeps_address(names: Sequence[str]) -> bool:
    """Return whether a function with one of these names must keep its return address."""
    plain = [plain_name(name) for name in names]
    return any(n in KEEPS_ADDRESS or n.startswith(KEEPS_BEGINNINGS) for n in plain)


_SUFFIX = re.compile(r"\.(?:constprop|isra|part|lto_priv|llvm|cold|localalias)(?![^.])")
_WORDS = re.compile(r"[\w.]*")


def plain_name(name: str) -> str:
    """Return a symbol's name without its version and what compilers and linkers append."""
    plain = name.partition("@")[0] if name.find("@") > 0 else name
    appended = _SUFFIX.search(plain) if "." in plain else None
    if appended is None or not _WORDS.fullmatch(plain, appended.end()):
        return plain
    return plain[: appended.start()]

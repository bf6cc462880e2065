"""The functions and runtimes that a replaced return address would harm, each with its source.

A uretprobe replaces the return address on the stack while a call runs. That harms code that reads
it there, that continues elsewhere than at this address, or that switches to another stack: the
kernel decides which calls are over by the stack pointer alone (``cleanup_return_instances`` in
``kernel/events/uprobes.c``).

Names are those that a binary imports or has a copy of (`lbtrace.elf.dynamic`); a file
that only offers one to others, as the C library does, has no use of it by that.

Looked at and left out, since they read no return address and leave no call: Boehm's
collector (``GC_mark_from`` takes stack words for what they may point to), ``__tls_get_addr``,
``setjmp`` without a jump.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from lbtrace.elf.symbol_table import Wanted

Danger: TypeAlias = Literal["stack", "left", "handler", "loads", "starts"]
"""``stack``: calls below others on the stack are read, left or moved away from: functions
that call none of that are safe. ``handler``: a signal handler may do it to any function.
``loads``: further libraries may come, with any of it. ``starts``: other programs may."""


class Hazard(NamedTuple):
    """Functions that make return addresses matter, and why: a clause for users.

    ``names`` are whole names, ``pattern`` matches others from their beginning.
    ``source`` is where it is seen or said. ``in_handler`` says what a handler of signals, in a file
    that sets any, may do to whatever function it interrupts.
    """

    why: str
    names: tuple[str, ...]
    source: str
    pattern: str = ""
    danger: Danger = "stack"
    in_handler: str = ""


EXCEPTIONS = "exceptions follow return addresses"
SWITCHES = "the program switches stacks"
LEFT = "calls may be left by longjmp"
ENDS = "threads may end by unwinding"
READ = "return addresses are read"
COLLECTOR = "a collector finds frames by return addresses"
RUNTIME = "a runtime walks or switches its stacks"

THROWN = "signal handlers may throw exceptions"
SWITCHED = "signal handlers may switch stacks"
ENDED = "signal handlers may end threads by unwinding"

SETS_HANDLERS = frozenset(
    {
        *("sigaction", "signal", "sigset", "sigvec", "ssignal", "bsd_signal"),
        *("sysv_signal", "__sysv_signal"),
    }
)
"""What sets handlers of signals: sigaction(2), signal(2), sysv_signal(3), sigset(3), and
signal/signal.h of glibc."""

UNWOUND = frozenset({"_Unwind_Resume", "__gcc_personality_v0", "__gxx_personality_v0"})
"""What a file imports whose functions clean up when they are unwound. Where no file of a process
does, threads end without reading return addresses: nptl/unwind.c calls the cleanup handlers of C
also where the unwinder finds no further frame."""

IF_UNWOUND = frozenset({"pthread_exit", "pthread_cancel", "thrd_exit", "pthread_setcanceltype"})
"""What is no danger in handlers where no function is cleaned up."""

CALLED = re.compile(r"lib(stdc\+\+|c\+\+|c\+\+abi|jemalloc|tcmalloc)\w*\.so")
"""Libraries, by DT_SONAME, that clean up in functions which call none of a program that can end
its thread: those of C++ and its allocators."""

RECORDS = re.compile(r"libcrypto\.so")
"""Libraries whose handlers only note that there was a signal: recsig() in crypto/ui/ui_openssl.c of
OpenSSL."""

HAZARDS = (
    # Exceptions.
    Hazard(
        EXCEPTIONS,
        ("__cxa_throw", "__cxa_begin_catch", "__cxa_rethrow", "__gxx_personality_v0"),
        "Itanium C++ ABI, exception handling, 1.6 (_Unwind_RaiseException finds frames by them)",
        r"_ZSt\d+__throw_|_ZSt17rethrow_exception|_ZSt9terminatev|_ZNSt15__exception_ptr",
        in_handler=THROWN,  # gcc -fnon-call-exceptions; Rust's handlers cannot
    ),
    Hazard(
        EXCEPTIONS,
        (
            *("_Unwind_Resume", "_Unwind_RaiseException", "_Unwind_Resume_or_Rethrow"),
            *("_Unwind_ForcedUnwind", "rust_eh_personality", "__gcc_personality_v0"),
        ),
        "Itanium C++ ABI, 1.3 to 1.6; library/panic_unwind of Rust; gcc -fexceptions (cleanup)",
    ),
    Hazard(
        EXCEPTIONS,
        (
            *("__gnat_personality_v0", "__gnat_raise_exception", "_d_throw_exception"),
            *("_d_throwdwarf", "_d_eh_personality", "__gdc_personality_v0", "__gdc_throw"),
            *("objc_exception_throw", "__objc_personality_v0", "__gcj_personality_v0"),
            *("_d_eh_swapContextDwarf", "__gnu_objc_personality_v0", "__wine_setjmpex"),
        ),
        "gcc/ada/raise-gcc.c, libphobos deh.d, libobjc exception.c: personalities of the unwinder",
        in_handler=THROWN,  # init.c of Ada's runtime, etc.linux.memoryerror of D's
    ),
    # Other stacks.
    Hazard(
        SWITCHES,
        ("makecontext", "swapcontext", "setcontext"),
        "makecontext(3); sysdeps/unix/sysv/linux/x86_64/swapcontext.S of glibc",
        in_handler=SWITCHED,
    ),
    Hazard(
        SWITCHES,
        (
            *("make_fcontext", "jump_fcontext", "ontop_fcontext", "coroutine_transfer"),
            *("coro_transfer", "co_switch", "coctx_swap", "aco_resume", "_mco_switch"),
            *("fiber_switchContext", "pth_init", "st_thread_create", "co_resume"),
            *("tb_context_jump", "acosw", "taskcreate", "lthread_create", "wasm_fiber_switch"),
        ),
        "assembly of Boost.Context, Ruby's coroutine/, libcoro, libco, Tencent libco, libaco,"
        " minicoro, druntime, GNU Pth, State Threads, tbox, libtask, lthread",
        r"_ZN5boost7context|_ZN5boost6fibers|_ZN5boost10coroutines|_ZN5folly6fibers"
        r"|_ZN7bthread|bthread_start|_ZN4core6thread5fiber",
        in_handler=SWITCHED,
    ),
    Hazard(
        SWITCHES,
        ("__morestack", "__splitstack_makecontext", "__splitstack_getcontext"),
        "libgcc/config/i386/morestack.S: a split stack continues in another segment",
    ),
    Hazard(
        SWITCHES,
        ("ruby_init", "ruby_setup", "rb_fiber_new", "zend_fiber_init_context", "PyInit__greenlet"),
        "cont.c of Ruby, Zend/zend_fibers.c of PHP, slp_switch of greenlet (gevent and"
        " eventlet stand on it)",
        r"PyInit__greenlet|swift_task_switch|jl_init|jl_switch",
    ),
    # Frames that are left.
    Hazard(
        LEFT,
        ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "__wine_longjmp"),
        "longjmp(3); what is called next in a frame that was left looks like its tail call",
        danger="left",
    ),
    Hazard(
        ENDS,
        ("pthread_exit", "pthread_cancel", "thrd_exit"),
        "nptl/unwind.c of glibc: _Unwind_ForcedUnwind calls the cleanup handlers",
        in_handler=ENDED,
    ),
    # Those that read return addresses.
    Hazard(
        READ,
        ("backtrace", "_Unwind_Backtrace", "backtrace_full", "backtrace_simple", "_ULx86_64_step"),
        "backtrace(3), libgcc unwind.inc, libbacktrace",
        r"unw_(backtrace|step|init_local)|_U(L?)(x86_64|aarch64)_(step|init_local)"
        r"|_ZN4absl\d*\D*\d*GetStackTrace|_ZNSt10stacktrace",
    ),
    Hazard(
        READ,
        ("getcontext", "__getcontext"),
        "getcontext(3): REG_RBP and REG_RSP, from which unwinders go on to return addresses",
    ),
    Hazard(
        READ,
        ("dl_iterate_phdr", "_dl_find_object"),
        "libgcc unwind-dw2-fde-dip.c: imported by files with an unwinder linked in",
    ),
    Hazard(
        READ,
        (
            *("mcount", "_mcount", "__fentry__", "__cyg_profile_func_enter"),
            *("__cyg_profile_func_exit", "_penter", "__gnu_mcount_nc"),
        ),
        "gcc -pg, -mfentry, -finstrument-functions; libmcount of uftrace replaces addresses itself",
        r"__xray_",
    ),
    Hazard(
        READ,
        ("__asan_init", "__tsan_init", "__msan_init", "__hwasan_init", "__lsan_init"),
        "compiler-rt sanitizer_common: interceptors unwind by frame pointers",
        r"__asan_version_mismatch_check|__tsan_version_mismatch_check"
        r"|__msan_version_mismatch_check|__hwasan_version_mismatch_check",
    ),
    Hazard(
        READ,
        ("ProfilerStart", "HeapProfilerStart", "heaptrack_init", "_Z14GetStackTracePPvii"),
        "gperftools src/stacktrace*.h, heaptrack: stacks of allocations and samples",
    ),
    Hazard(
        READ,
        ("la_version",),
        "rtld-audit(7): an auditing library's la_pltexit returns in the place of the function",
    ),
    # Runtimes.
    Hazard(
        COLLECTOR,
        ("caml_startup", "caml_main", "caml_start_program", "caml_frametable", "caml_init_gc"),
        "runtime/stack.h and roots_nat.c of OCaml: caml_frame_descriptors are found by them",
    ),
    Hazard(
        RUNTIME,
        ("JNI_CreateJavaVM", "JVM_DefineClass", "JNI_GetCreatedJavaVMs", "JLI_Launch"),
        "HotSpot src/hotspot/share/runtime/frame.cpp: sender() reads the return address",
    ),
    Hazard(
        RUNTIME,
        ("napi_module_register", "node_module_register", "JS_Init", "JSGlobalContextCreate"),
        "V8 src/execution/frames.cc (StackFrameIterator), SpiderMonkey JSJitFrameIter, JSC",
        r"_ZN2v8|_ZNK2v8|_Z\d+JS_(Init|NewContext)|_ZN3JSC|_ZNK3JSC",
    ),
    Hazard(
        RUNTIME,
        ("mono_jit_init", "mono_main", "coreclr_initialize", "hostfxr_main", "coreclr_execute"),
        "mono/mini/mini-exceptions.c; CoreCLR unwinds native frames, and hijacks return addresses",
        r"mono_jit_|hostfxr_main|RhpReversePInvoke",
    ),
    Hazard(
        RUNTIME,
        ("hs_init", "hs_main", "hs_init_ghc", "enif_make_atom", "erts_alloc", "scm_init_guile"),
        "GHC rts/StgCRun.c (code that is jumped to, not called), BEAM, Guile continuations.c"
        " (copies the C stack)",
        r"stg_ap_|scm_boot_guile|Sscheme_init|CHICKEN_|SBCL_|luaJIT_",
    ),
    # Signal handlers on stacks of their own.
    Hazard(
        "handlers run on an alternate stack",
        ("sigaltstack",),
        "arch_uretprobe_is_alive, arch/x86/kernel/uprobes.c: a call in a handler on a stack above"
        " drops what the thread has pending, and it dies of SIGILL",
        danger="handler",
    ),
    Hazard(
        "threads may be cancelled at any instruction",
        ("pthread_setcanceltype",),
        "pthread_setcanceltype(3): PTHREAD_CANCEL_ASYNCHRONOUS unwinds from a signal handler",
        danger="handler",
    ),
    Hazard(
        "system calls may be watched, that of a uretprobe as well",
        ("ptrace",),
        "ptrace(2), PTRACE_SYSCALL and PTRACE_SYSEMU of itself or its children; uretprobe in"
        " arch/x86/kernel/uprobes.c",
        danger="handler",
    ),
    # What brings others.
    Hazard(
        "plugins may throw or switch stacks",
        ("dlopen", "dlmopen", "android_dlopen_ext"),
        "dlopen(3)",
        danger="loads",
    ),
    Hazard(
        "it starts other programs",
        (
            *("execve", "execv", "execvp", "execvpe", "execl", "execle", "execlp", "execveat"),
            *("fexecve", "posix_spawn", "posix_spawnp", "popen", "system", "_IO_proc_open"),
        ),
        "exec(3), posix_spawn(3), system(3)",
        danger="starts",
    ),
)

BY_NAME = {name: hazard for hazard in reversed(HAZARDS) for name in hazard.names}

_ANY = re.compile("|".join(f"(?:{h.pattern})" for h in HAZARDS if h.pattern))


def hazard_of(name: str) -> Hazard | None:
    """Return what a function of this name stands for."""
    found = BY_NAME.get(name)
    if found is not None or not _ANY.match(name):
        return found
    return next(hazard for pattern, hazard in _patterns() if pattern.match(name))


def _beginning(pattern: str) -> str:
    """How all names begin that one alternative of a pattern matches: its literal characters, and
    ``#`` for ``\\d+``, as `lbtrace.elf.symbol_table.Wanted` takes it."""
    parts = re.match(r"(?:\\d\+|\w(?![?*]))*", pattern)
    return parts[0].replace(r"\d+", "#") if parts else ""


@cache
def wanted_names() -> Wanted:
    """Return the whole names of the table."""
    return Wanted(BY_NAME)


@cache
def wanted_patterns(hazards: frozenset[int]) -> Wanted:
    """Return what matches the patterns of some ``hazards``, by their numbers, and maybe some
    more."""
    patterns = [HAZARDS[number].pattern for number in sorted(hazards)]
    return Wanted((), [_beginning(each) for text in patterns for each in text.split("|")])


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Hazard], ...]:
    """Compiled when a name needs them: most programs have none."""
    return tuple((re.compile(h.pattern), h) for h in HAZARDS if h.pattern)


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


def keeps_address(names: tuple[str, ...]) -> bool:
    """Return whether a function with one of these names must keep its return address."""
    plain = [plain_name(name) for name in names]
    return any(n in KEEPS_ADDRESS or n.startswith(KEEPS_BEGINNINGS) for n in plain)


@cache
def wanted_keepers() -> Wanted:
    """Return the names for which `keeps_address` holds, and some more."""
    return Wanted(KEEPS_ADDRESS, KEEPS_BEGINNINGS)


_SUFFIX = re.compile(r"\.(?:constprop|isra|part|lto_priv|llvm|cold|localalias)(?![^.])")
_WORDS = re.compile(r"[\w.]*")


def plain_name(name: str) -> str:
    """Return a symbol's name without its version and what compilers and linkers append."""
    plain = name.partition("@")[0] if name.find("@") > 0 else name
    appended = _SUFFIX.search(plain) if "." in plain else None
    if appended is None or not _WORDS.fullmatch(plain, appended.end()):
        return plain
    return plain[: appended.start()]

"""Names of functions and libraries that stand for something."""

from __future__ import annotations

import re

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
"""Libraries, by DT_SONAME, of the C library and the unwinder. They offer what other
tables name and use it for those that call it; what they load themselves is their own (libgcc_s,
character sets, name services), which throws through no caller."""

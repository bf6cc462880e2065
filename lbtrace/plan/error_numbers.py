"""Functions of the C library that leave the number of an error in ``errno`` whenever they return
what says that they failed.

Source: the sections RETURN VALUE of the Linux man-pages, sections 2 and 3. Left out are functions
that may return the same without an error, or without a number: ``readdir``, ``getpriority``,
``sysconf``, ``getline``, ``fputs``. Those that fail only for lack of memory say nothing more by it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.fetch.call_values import CallValues
from lbtrace.machine import Machine
from lbtrace.model import Fetch, Function, Value
from lbtrace.model.wire_limits import FETCHES, KEPT
from lbtrace.plan.filled_buffers import CORE, INT
from lbtrace.values.failing import ERROR, Failing

LOCATION, CODE = "__errno_location", 32
"""The function that returns where ``errno`` is, and bytes of its code, at most."""

FAILURES = {
    name: failure
    for failure, names in {
        -1: (
            # Files.
            "access acct chdir chmod chown chroot close copy_file_range creat dup dup2 dup3"
            " eaccess euidaccess faccessat fallocate fchdir fchmod fchmodat fchown fchownat fcntl"
            " fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatat fstatfs"
            " fstatvfs fsync ftruncate futimens futimes futimesat getdents getxattr ioctl lchown"
            " lgetxattr link linkat listxattr llistxattr lockf lremovexattr lseek lsetxattr lstat"
            " lutimes mkdir mkdirat mkfifo mkfifoat mknod mknodat mount name_to_handle_at open"
            " open_by_handle_at openat openat2 pipe pipe2 pread preadv preadv2 pwrite pwritev"
            " pwritev2 read readahead readlink readlinkat readv remove removexattr rename renameat"
            " renameat2 rmdir sendfile setxattr splice stat statfs statvfs statx swapoff swapon"
            " symlink symlinkat sync_file_range syncfs tee truncate umount umount2 unlink unlinkat"
            " utime utimensat utimes vmsplice write writev"
            # Streams, directories, temporary files, terminals.
            " closedir dirfd fclose fflush fgetpos fileno fseek fseeko fsetpos ftell ftello grantpt"
            " mkostemp mkostemps mkstemp mkstemps openpty pclose posix_openpt scandir scandirat"
            " tcdrain tcflow tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak tcsetattr tcsetpgrp"
            " telldir unlockpt"
            # Sockets, and what waits for several files.
            " accept accept4 bind bindresvport connect epoll_create epoll_create1 epoll_ctl"
            " epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd_read eventfd_write fanotify_init"
            " fanotify_mark getifaddrs getpeername getsockname getsockopt inet_pton"
            " inotify_add_watch inotify_init inotify_init1 inotify_rm_watch isfdtype listen poll"
            " ppoll pselect recv recvfrom recvmmsg recvmsg select send sendmmsg sendmsg sendto"
            " setsockopt shutdown signalfd sockatmark socket socketpair"
            # Processes, users, limits.
            " clone daemon execl execle execlp execv execve execveat execvp execvpe fexecve fork"
            " forkpty getgroups getpgid getresgid getresuid getrlimit getrusage getsid initgroups"
            " kill killpg login_tty pidfd_getfd pidfd_open pidfd_send_signal prctl prlimit"
            " process_vm_readv process_vm_writev sched_getaffinity sched_getparam"
            " sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setparam"
            " sched_setscheduler sched_yield setegid seteuid setgid setgroups setns setpgid setpgrp"
            " setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid syscall"
            " system tgkill unshare vfork wait wait3 wait4 waitid waitpid"
            # Signals, time.
            " adjtime adjtimex clock_adjtime clock_getres clock_gettime clock_settime getitimer"
            " gettimeofday nanosleep ntp_adjtime pause setitimer settimeofday sigaction sigaltstack"
            " siginterrupt sigpending sigprocmask sigsuspend sigtimedwait sigwaitinfo timer_create"
            " timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create"
            " timerfd_gettime timerfd_settime usleep"
            # Memory, and what processes share.
            " brk madvise memfd_create mincore mlock mlock2 mlockall mprotect mq_close mq_getattr"
            " mq_notify mq_open mq_receive mq_send mq_setattr mq_timedreceive mq_timedsend"
            " mq_unlink msgctl msgget msgrcv msgsnd msync munlock munlockall munmap pkey_alloc"
            " pkey_free pkey_mprotect remap_file_pages sem_close sem_destroy sem_getvalue sem_init"
            " sem_post sem_timedwait sem_trywait sem_unlink sem_wait semctl semget semop semtimedop"
            " shm_open shm_unlink shmctl shmdt shmget"
            # The rest.
            " aio_cancel aio_fsync aio_read aio_suspend aio_write getcontext getdomainname"
            " getentropy gethostname getrandom iconv_close iconv_open mmap mremap sbrk setcontext"
            " setdomainname setenv sethostname shmat signal swapcontext sysinfo uname unsetenv"
            " vhangup"
        ),
        0: (
            "canonicalize_file_name fdopen fdopendir fmemopen fopen freopen get_current_dir_name"
            " getcwd getlogin getwd if_indextoname if_nameindex inet_ntop mkdtemp newlocale"
            " open_memstream open_wmemstream opendir popen realpath sem_open tempnam tmpfile"
            " ttyname"
        ),
    }.items()
    for name in names.split()
}
"""What functions return that failed, by their names: -1, of addresses ``(void *)-1``, or a null
pointer."""


def _failures(function: Function) -> Iterator[int]:
    """What a function returns that failed; nothing where it does not tell why."""
    for name in (function.name, *function.aliases):
        core = CORE.fullmatch(name)
        for each in (core[1], core[1].removesuffix("64")) if core else ():
            if each in FAILURES:
                yield FAILURES[each]


def with_errno(image: Image, function: Function, values: CallValues) -> CallValues:
    """Return ``values`` of a ``function`` of the C library with ``errno`` as a part of the result;
    the same where the function need not set it, where it is not known where it lies, and where
    there is no room."""
    result = values.result
    if result is None or result.slot < 0:
        return values
    failure = next(_failures(function), None)
    by_process = any(c.subject in ("pid", "tid") for c in values.result_conditions)
    if failure is None or len(values.kept.split()) >= (1 if by_process else KEPT):
        return values
    places = image.once(_place)
    if not places or len(values.result_fetches) + len(places) > FETCHES:
        return values
    *words, number = places
    if words:
        number = replace(number, plus=len(values.result_fetches))
    fetches = (*values.result_fetches, *words, number)
    errno = Value(ERROR, INT, len(fetches) - 1)
    type = Failing(result.type.name, result.type.size, failure)
    made = replace(result, type=type, members=(replace(result, name=""), errno))
    return replace(values, result=made, result_fetches=fetches)


def by_slot(image: Image, function: Function, values: CallValues, slot: int) -> CallValues:
    """Return ``values`` with ``errno`` found from another file, a ``slot`` of which holds where the
    function is mapped once it has been called."""

    def moved(fetch: Fetch) -> Fetch:
        if fetch not in image.once(_place) or fetch.base != "file":
            return fetch
        return replace(fetch, offset=slot, derefs=(fetch.offset - function.address,))

    return replace(values, result_fetches=tuple(map(moved, values.result_fetches)))


def _place(image: Image) -> tuple[Fetch, ...]:
    """What fetches ``errno`` of the thread: how far from the thread pointer it lies, which the
    loader of glibc wrote into a word of the file, and the number there; of musl that alone."""
    dynamic = image.once(Dynamic)
    number = Fetch(base="thread", read="integer", size=4, signed=True, optional=True)
    if slot := dynamic.thread_slot(ERROR):
        return (Fetch(base="file", offset=slot, read="integer", optional=True), number)
    function = dynamic.defined(LOCATION)
    code = image.code(function, CODE) if function else b""
    place = Machine(image.machine).linking.thread_place(code)
    return () if place is None else (replace(number, offset=place),)

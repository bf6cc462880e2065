"""Which functions may have a uretprobe whatever else their process does.

What throws, switches stacks or reads return addresses does so to calls that are open
then: to the functions that called it. A function that, as far as its calls and theirs can
be followed, calls nothing but what is known to do none of this is never among them.
Calls are followed in the binary itself, and ended by the names in `HARMLESS`.

Of other libraries only names are trusted, and only those that no library has a reason to replace by
something that leaves or looks at its callers: not ``malloc`` (profilers of the heap take backtraces
there), not what may be cancelled (pthreads(7)) or calls back (``qsort``), not ``abort`` (handlers
of SIGABRT).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from lbtrace.elf import plt
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.elf.symbols import SHF_EXECINSTR, Symbols
from lbtrace.elf.unwind import Unwind
from lbtrace.machine import Machine
from lbtrace.machine.code import Code, Reach
from lbtrace.model import Function
from lbtrace.plan import stack_switches
from lbtrace.plan.code_walk import Cause, Meaning, Question, Walk, WalkedFile, WalkVerdict
from lbtrace.plan.hazard_table import hazard_of, keeps_address, plain_name, wanted_keepers
from lbtrace.plan.tail_callers import find_tail_callers

_MEMORY = (
    "memcpy memmove memset memcmp memchr memrchr rawmemchr memmem mempcpy memccpy bcmp bcopy bzero"
    " explicit_bzero strlen strnlen strcmp strncmp strcasecmp strncasecmp strchr strrchr strchrnul"
    " strstr strcasestr strspn strcspn strpbrk strcpy strncpy stpcpy stpncpy strcat strncat"
    " strsep strtok_r strverscmp index rindex strcasecmp_l strncasecmp_l"
    " wcsnlen wcslen wcscmp wcsncmp wcschr wcsrchr wcscpy wcsncpy wmemcpy"
    " wmemset wmemcmp wmemchr wmemmove strlcpy strlcat swab ffs ffsl ffsll basename"
)
_CHECKED = (
    "__memcpy_chk __memmove_chk __memset_chk __mempcpy_chk __strcpy_chk __strncpy_chk __strcat_chk"
    " __strncat_chk __stpcpy_chk __stpncpy_chk __explicit_bzero_chk __rawmemchr __stpcpy"
    " __strlcpy_chk __strlcat_chk __stack_chk_fail __strtok_r __strchrnul __mempcpy __memchr"
    " __new_memcpy __libc_memmove __libc_strstr __strcasecmp_l __strncasecmp_l"
)
_CHARACTERS = (
    "isalnum isalpha isascii isblank iscntrl isdigit isgraph islower isprint ispunct isspace"
    " isupper isxdigit tolower toupper toascii __ctype_b_loc __ctype_tolower_loc"
    " __ctype_toupper_loc __ctype_get_mb_cur_max __errno_location ___errno_location"
    " atoi atol atoll strtol strtoul strtoll strtoull __isoc23_strtol __isoc23_strtoul"
    " __isoc23_strtoll __isoc23_strtoull htonl htons ntohl ntohs abs labs llabs div ldiv lldiv"
)
_NUMBERS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1"
    " fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma_r llrint llround log log10"
    " log1p log2 logb lrint lround modf nan nearbyint nextafter pow remainder remquo rint round"
    " roundeven scalbln scalbn sin sincos sinh sqrt tan tanh tgamma trunc"
)
_TIME = "clock_gettime gettimeofday time getpid getuid geteuid getgid getegid sched_getcpu"
_ARITHMETIC = (
    "__divti3 __modti3 __udivti3 __umodti3 __udivmodti4 __multi3 __popcountdi2 __popcountsi2"
    " __ctzdi2 __clzdi2 __ffsdi2 __parityti2 __powidf2 __powisf2 __muldc3 __mulsc3 __divdc3"
    " __divsc3 __floattidf __floatuntidf __fixdfti __fixunsdfti __addtf3 __subtf3 __multf3"
    " __divtf3 __eqtf2 __netf2 __lttf2 __letf2 __gttf2 __getf2 __extenddftf2 __trunctfdf2"
)

HARMLESS = frozenset(
    {
        *_MEMORY.split(),
        *_CHECKED.split(),
        *_CHARACTERS.split(),
        *_NUMBERS.split(),
        *(f"{name}{kind}" for name in _NUMBERS.split() for kind in "fl"),
        *_TIME.split(),
        *_ARITHMETIC.split(),
    }
)
"""Functions of C libraries and compilers' runtimes that neither call back nor are left.

string.h, ctype.h, math.h and the numbers of stdlib.h (C17, chapter 7) as glibc and musl have
them; what gcc's fortification and stack protector call (``__stack_chk_fail`` ends a process that
is damaged already); the vDSO's clocks; libgcc's arithmetic (gcc internals, chapter 4)."""

NODES = 4000
"""Stretches of code that are followed besides the traced functions; what lies beyond is in
doubt."""

LARGEST = 1 << 18
"""Bytes of a function that are decoded; a larger one is in doubt."""

AMID = 1 << 18
"""Bytes of code to which jumps lead amid functions that only the full decoder reads, which takes
some 5 µs for each: what lies beyond is in doubt. libcrypto has half of that."""

CHOSEN = "a function chosen at run time"


_KEPT = {
    "keeper": "its return address must stay as it is",
    "read": "it reads its return address",
    "unread": "not all of the code at {:#x} is known, which may read its return address",
    "passed": "the code at {:#x}, which it calls, may reach its return address",
    "shared": "the code at {:#x} jumps to it, and passes on where their return address is",
    "away": "it jumps through a pointer, maybe to what reads its return address",
}
"""Why a function keeps its return address, by the kind of the cause and where that is."""


class Verdict(NamedTuple):
    """What is known of a function. ``keeps`` says why no uretprobe may be on it in any
    process, ``doubt`` why it is not harmless; both may be empty."""

    keeps: str = ""
    doubt: str = ""


class Judge:
    """Judges the functions of an image.

    ``others`` are names that something else in its processes offers too, so that calls of
    them may lead there; None where that may be any.
    """

    def __init__(
        self,
        image: Image,
        table: Symbols,
        stubs: Mapping[int, Stub],
        others: Container[str] | None,
    ) -> None:
        self._image = image
        self._table = table
        self._others = others
        self._machine = Machine(image.machine)
        self._unwind = image.once(Unwind)
        self._named = dict(sorted(_named(image, table, stubs)))
        self._stubs = [*self._named.values()]
        self._keepers = dict(sorted(_keepers(image, table)))
        self._chosen = frozenset((CHOSEN, *table.ifunc_names.values()))
        self._decoded: dict[int, str] = {}
        self._left = AMID

    def judge(self, functions: Sequence[Function], *, in_doubt: bool = True) -> dict[int, Verdict]:
        """Return the verdict on each of ``functions``, by address. That functions keep their
        return addresses because of what jumps to them is known of those ``in_doubt`` if that is
        asked."""
        roots = dict.fromkeys(f.address for f in functions)
        walk = Walk(self._native(), [*roots])
        found = self._follow(walk, roots)
        free = [at for at, it in found.items() if not it.keeps and (in_doubt or not it.doubt)]
        callers = find_tail_callers(self._image, self._table, self._named, free)
        for address in callers:
            walk.add(address)
        return self._follow(walk, roots) if callers else found

    def _follow(self, walk: Walk, roots: Mapping[int, None]) -> dict[int, Verdict]:
        """What is known of ``roots`` when all is followed."""
        while question := walk.proceed():
            self._answer(walk, question)
        return {
            address: Verdict(self._describe_kept(verdict), self._describe_doubt(verdict.doubt))
            for address, verdict in zip(roots, walk.verdicts(), strict=True)
        }

    def _native(self) -> WalkedFile:
        """What native code follows."""
        return WalkedFile(
            self._image.data,
            self._image.executable_segments,
            self._table.functions.native,
            [*self._named],
            [*self._keepers],
            NODES,
            LARGEST,
            self._machine.is_read_natively,
        )

    def _answer(self, walk: Walk, question: Question) -> None:
        if question.kind == "name":
            walk.answer_name(question.number, *self._meaning(self._stubs[question.number]))
        elif question.kind == "extent":
            extent, cold = self._holder(question.address)
            walk.answer_extent(question.address, extent, cold=cold)
        elif question.kind == "end":
            alone = not self._unwind.may_describe(question.address)
            walk.answer_end(self._room_end(question.address), alone=alone)
        else:
            address, end = question.address, question.end
            if self._holder(address)[0].start != address:
                self._left -= end - address
            if self._left < 0:
                reach = Reach(doubt="calls more than is followed", unread=True)
            else:
                code = self._image.code(address, end - address)
                offset = self._image.offset(address)
                reach = self._machine.find_reach(Code(code, address, offset, end), question.depth)
            self._decoded[question.number] = reach.doubt
            walk.answer_reach(reach)

    def _meaning(self, stub: Stub) -> tuple[Meaning, int]:
        """What a name means where it is called, and the address where its code is followed."""
        name = plain_name(stub.name)
        if keeps_address((name,)):
            return "keeps", 0
        own = stub.address and (self._image.is_program or self._others is not None)
        replaced = bool(own or name in HARMLESS) and self._is_replaced(name)
        if name in HARMLESS and not replaced:
            return ("offered" if self._others is None else "harmless"), 0
        if own and not replaced and self._image.offset(stub.address) >= 0:
            return "leads", stub.address
        # What the C library offers reads no return addresses but for those that have a name here.
        anything = self._others is None
        elsewhere = anything or stub.name in self._chosen or self._is_replaced(name)
        return ("away" if elsewhere else "doubt"), 0

    def _is_replaced(self, name: str) -> bool:
        """Whether something else offers ``name``."""
        return self._others is not None and name in self._others

    def _holder(self, address: int) -> tuple[range, bool]:
        """The function that holds ``address``, or the part of one that was split off, and whether
        it is the latter."""
        extent = self._table.functions.extent(address)
        if extent is not None:
            return extent, False
        cold = self._cold_at(address)
        return (range(cold.address, cold.address + cold.size), True) if cold else (range(0), False)

    def _cold_at(self, address: int) -> Function | None:
        part = self._table.cold.holding(address)
        return part if part and address < part.address + part.size else None

    def _room_end(self, address: int) -> int:
        """Where code at ``address`` ends that no function claims."""
        following = self._table.following(address)
        ends = (
            section.address + section.size
            for section in self._image.sections
            if section.flags & SHF_EXECINSTR
            and section.address <= address < section.address + section.size
        )
        described = self._unwind.following(address)
        return min(next(ends, address), following, described)

    def _describe_kept(self, verdict: WalkVerdict) -> str:
        kind, at, _ = verdict.keeps
        if kind in _KEPT:
            return _KEPT[kind].format(at)
        if kind in ("name", "elsewhere"):
            name = plain_name(self._stubs[at].name)
            reads = "reads it" if kind == "name" else "may read its return address"
            return f"{name}, which {reads}, is called in its place"
        return "its frame pointer is followed to return addresses" if verdict.walks else ""

    def _describe_doubt(self, cause: Cause) -> str:
        kind, at, text = cause
        if kind == "name":
            name = plain_name(self._stubs[at].name)
            hazard = None if keeps_address((name,)) else hazard_of(name)
            return f"calls {name}" + (f": {hazard.why}" if hazard else "")
        if kind == "keeper":
            return f"{self._keepers[at]} keeps its return address"
        return self._decoded[at] if kind == "decoded" else text


def _keepers(image: Image, table: Symbols) -> Iterator[tuple[int, str]]:
    """The functions that keep their return addresses by their names or switch stacks, and that the
    program begins with; their addresses and names."""
    for function in table.functions.wanted(wanted_keepers()):
        if keeps_address((function.name, *function.aliases)):
            yield function.address, function.name
    yield from stack_switches.switching_functions(image, table)
    first = table.functions.holding(image.entry)
    if first is not None and first.address == image.entry:
        yield first.address, first.name


def _named(image: Image, table: Symbols, stubs: Mapping[int, Stub]) -> Iterator[tuple[int, Stub]]:
    """Where calls lead that have a name: stubs, slots, functions chosen at run time."""
    chosen = table.ifunc_names
    slots: dict[int, Stub] = {}
    for slot, name, address in image.once(Dynamic).slots:
        known = name or chosen.get(address, CHOSEN)
        slots[slot] = Stub(known, address if name and address not in chosen else 0)
    yield from slots.items()
    yield from ((at, slots[slot]) for at, slot in plt.jumps(image) if slot in slots)
    yield from ((address, Stub(name, 0)) for address, name in chosen.items())
    yield from ((at, stub) for at, stub in stubs.items() if stub.address not in chosen)

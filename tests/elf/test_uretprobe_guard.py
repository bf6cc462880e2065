"""What a user is known who asks for uretprobes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.elf.loaded_files import Closure, closure
from lbtrace.errors import UsageError
from lbtrace.model import Plan, Target
from lbtrace.plan import Selection, make_plan
from lbtrace.session.prepare import prepare
from lbtrace.session.request import Request

PLAIN = "int plain(int n) { return n + 1; }\n"

USES = {
    "setjmp.h> jmp_buf b; void use(void) { longjmp(b, 1); }": "longjmp",
    "ucontext.h> ucontext_t c; void use(void) { setcontext(&c); }": "stacks are switched",
    "pthread.h> void use(void) { pthread_exit(0); }": "threads may end",
    "execinfo.h> void use(void) { void *a[9]; backtrace(a, 9); }": "return addresses are read",
    'dlfcn.h> void use(void) { dlopen("a.so", RTLD_NOW); }': "plugins",
    "signal.h> void use(void) { sigaltstack(0, 0); }": "alternate stacks",
    "sys/ptrace.h> void use(void) { ptrace(0, 0, 0, 0); }": "system calls may be watched",
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Compiles sources into a program, or with ``-shared`` a library."""

    def compile(source: str, *flags: str) -> str:
        into = tmp_path_factory.mktemp("guard")
        (into / "a.c").write_text(source)
        made = into / ("liba.so" if "-shared" in flags else "a")
        subprocess.run(["gcc", "-w", "-O1", into / "a.c", "-o", made, *flags], check=True)
        return str(made)

    return compile


def planned(path: str, **options: object) -> Plan:
    return make_plan(path, Selection(("plain",), returns="uretprobe", **options))  # type: ignore[arg-type]


def mapped_files(path: str) -> Closure:
    return closure(path, {})


MAIN = PLAIN + "int main(int c, char **v) { return plain(c) - 2; }\n"


@pytest.mark.parametrize("includes", USES, ids=USES.values())
@pytest.mark.parametrize("where", ["program", "library"])
def test_what_files_name_speaks_against_uretprobes(
    compiled: Callable[..., str], includes: str, where: str
) -> None:
    uses = f"#define _GNU_SOURCE\n#include <{includes.replace('> ', '>' + chr(10), 1)}\n"
    if where == "program":
        path = compiled(uses + MAIN)
    else:
        library = Path(compiled(uses, "-shared", "-fPIC"))
        path = compiled(MAIN, "-Wl,--no-as-needed", str(library))
    with pytest.raises(UsageError, match=USES[includes]) as caught:
        planned(path, mapped_files=mapped_files(path))
    assert "unsafe=True" in caught.value.hint
    (note,) = planned(path, mapped_files=mapped_files(path), unsafe=True).notes
    assert USES[includes] in note
    hooked = [p.source for p in planned(path, unsafe=True).probes if p.role == "closes"]
    assert hooked == ["uretprobe"]


def test_plain_programs_may_have_uretprobes(compiled: Callable[..., str]) -> None:
    assert not planned(compiled(MAIN)).notes
    assert not planned(compiled(MAIN, "-static")).notes


def test_a_session_refuses_hooks_on_alternate_stacks_itself(compiled: Callable[..., str]) -> None:
    path = compiled(MAIN + "void use(void) { sigaltstack(0, 0); }")
    assert not planned(path, altstack_checked=True).notes


def test_libraries_that_any_program_may_load(compiled: Callable[..., str]) -> None:
    path = compiled(PLAIN, "-shared", "-fPIC")
    assert not planned(path).notes
    with pytest.raises(UsageError, match="any program may load"):
        planned(path, any_program=True)
    with pytest.raises(UsageError, match="in every process"):
        planned(path, other_processes=True, unsafe=True)


def test_kernels_that_would_kill_are_not_risked(compiled: Callable[..., str]) -> None:
    with pytest.raises(UsageError, match="may crash what is traced: seccomp") as caught:
        planned(compiled(MAIN), hazard="seccomp", unsafe=True)
    assert "unsafe" not in caught.value.hint


def test_unsafe_is_about_uretprobes() -> None:
    with pytest.raises(UsageError, match="unsafe=True is about uretprobes"):
        prepare(Request(target=Target(command=("true",)), patterns=("main",), unsafe=True))


def test_what_is_not_called_keeps_its_return_address(compiled: Callable[..., str]) -> None:
    plan = make_plan(compiled(MAIN, "-static"), Selection(("*",), returns="uretprobe"))
    hooked = {plan.functions[p.function].name for p in plan.probes if p.source == "uretprobe"}
    assert "main" in hooked
    kept = {"_start", "_setjmp", "longjmp", "dlsym", "__restore_rt", "_dl_start"}
    assert not hooked & kept
    for function in plan.functions:
        if function.name in kept:
            assert function.returns == "sites: its return address must stay as it is"

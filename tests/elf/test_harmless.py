"""Which functions read return addresses, and which call nothing that could harm them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lbtrace.elf import plt, symbols
from lbtrace.elf.functions import ListedFunctions
from lbtrace.elf.image import Image
from lbtrace.plan.harmless_functions import HARMLESS, Judge, Verdict
from lbtrace.plan.hazard_table import BY_NAME, hazard_of, keeps_address, plain_name

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#define F __attribute__((noipa))
void *kept;
F int leaf(int n) { return n + 1; }
F int calls(int n) { return leaf(n) * 2; }
F int jumps(int n) { return leaf(n + 3); }
F void copies(char *to, const char *from, size_t n) { memcpy(to, from, n); to[0] = 1; }
F void protects(const char *from, char *to) { char b[64]; strcpy(b, from); strcat(to, b); }
F double counts(double x) { return sin(x) + x; }
F int chooses(int n) { switch (n) { case 0: return leaf(9); case 1: return 4; case 2: return 7;
	case 3: return 11; case 4: return leaf(1); case 5: return 2; } return 0; }
F int ping(int n); F int pong(int n) { return n ? ping(n - 1) + 1 : 0; }
F int ping(int n) { return n ? pong(n - 1) + 2 : 1; }
F int allocates(int n) { kept = malloc(n); free(kept); return n; }
F int pointed(int (*f)(int)) { return f(1) + 1; }
F int reaches(int n) { return allocates(n) + calls(n); }
F int sorts(int *a) { qsort(a, 2, 4, 0); return a[0]; }
F void who(void) { kept = __builtin_return_address(0); }
F void whose(void) { kept = __builtin_return_address(1); }
F int led(int n) { whose(); return n + 1; }
F void *next_of(const char *name) { return dlsym(RTLD_NEXT, name); }
F int asks(void) { return next_of("puts") != 0; }
int main(int n, char **v) { (void)v; return calls(n) + led(n) + asks(); }
"""

UNDESCRIBED = """
#define F __attribute__((noipa)) static
#define E __attribute__((visibility("default")))
F int leaf(int n) { return n > 3 ? n * 5 : n + 1; }
F int pointed(int (*f)(int)) { return f(1) + 1; }
E int harmless(int n) { return leaf(n) + 2; }
E int doubtful(void *p) { return pointed(p) + 1; }
"""

SAFE = {*("leaf", "calls", "jumps", "copies", "counts", "ping", "pong"), "protects"}
READ = {"who", "whose", "led"}
BUILDS = ("-O1", "-O2 -fno-plt", "-O2 -fcf-protection", "-Os -fstack-protector-all", "-O2 -static")


@pytest.fixture(params=BUILDS)
def judged(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Verdict]:
    program, source = tmp_path / "program", tmp_path / "source.c"
    source.write_text(SOURCE)
    options = [*request.param.split(), "-w", source, "-o", program, "-lm", "-ldl"]
    subprocess.run(["gcc", *options], check=True, capture_output=True)
    image = Image.open(str(program))
    table = symbols.read(image)
    found = Judge(image, table, plt.stubs(image), frozenset()).judge(table.functions)
    return {f.name: found[f.address] for f in table.functions}


def test_what_calls_nothing_harmful(judged: dict[str, Verdict]) -> None:
    doubted = {name: judged[name] for name in SAFE if judged[name] != Verdict()}
    assert not doubted
    for name in ("allocates", "pointed", "reaches", "sorts", "asks", "main"):
        assert judged[name].doubt, name


def test_what_reads_return_addresses(judged: dict[str, Verdict]) -> None:
    assert {name for name in SAFE | READ if judged[name].keeps} == READ
    assert judged["_start"].keeps


def test_libc_reads_them_where_it_is_known_to(libc: str) -> None:
    """The code of those that ask who called them is recognised without their names."""
    from lbtrace.machine import Machine
    from lbtrace.machine.code import Code

    image = Image.open(libc)
    reach = Machine(image.machine).find_reach
    keeping = set()
    for f in symbols.read(image).functions:
        if reach(Code(image.code(f.address, f.size), f.address, f.offset, 0), 0).keeps:
            keeping |= {f.name, *f.aliases}
    assert {"dlsym", "dlvsym", "dlopen", "dlmopen", "getcontext", "vfork", "mcount"} <= {
        name.partition("@")[0] for name in keeping
    }
    assert not keeping & {"memcpy", "qsort", "printf", "malloc", "free", "strlen", "fopen"}


def test_functions_of_any_table_are_judged_alike(libc: str) -> None:
    """Native code searches symbol tables itself, and asks for the functions of other tables."""
    image = Image.open(libc)
    table, stubs = symbols.read(image), plt.stubs(image)
    listed = symbols.Symbols(
        ListedFunctions([*table.functions]), table.starts, table.cold, default_version=str
    )
    listed.ifunc_names = table.ifunc_names
    found = Judge(image, table, stubs, frozenset()).judge(table.functions)
    assert found == Judge(image, listed, stubs, frozenset()).judge(table.functions)
    assert {bool(v.doubt) for v in found.values()} == {bool(v.keeps) for v in found.values()}


def test_undescribed_code_ends_where_nothing_leads_beyond(tmp_path: Path) -> None:
    """What follows a function that neither a symbol nor a frame description is of is another."""
    source, library = tmp_path / "source.c", tmp_path / "library.so"
    source.write_text(UNDESCRIBED)
    options = "-O2 -shared -fPIC -s -fno-asynchronous-unwind-tables -fvisibility=hidden -w"
    command = ["gcc", *options.split(), source, "-o", library]
    subprocess.run(command, check=True, capture_output=True)
    image = Image.open(str(library))
    table = symbols.read(image)
    found = Judge(image, table, plt.stubs(image), frozenset()).judge(table.functions)
    doubts = {f.name: bool(found[f.address].doubt) for f in table.functions}
    assert doubts == {"harmless": False, "doubtful": True}


def test_names_without_versions_and_suffixes() -> None:
    assert plain_name("dlsym@GLIBC_2.2.5") == plain_name("dlsym@@GLIBC_2.34") == "dlsym"
    assert plain_name("__cxa_throw.lto_priv.0") == "__cxa_throw"
    assert plain_name("jump_fcontext.constprop.0.isra.0") == "jump_fcontext"
    assert keeps_address(("___dlsym.localalias",))
    assert keeps_address(("__x86_indirect_thunk_rax",))
    assert hazard_of("_ZSt20__throw_out_of_rangePKc")
    assert hazard_of("_ZN2v87Isolate3NewERKNS0_12CreateParamsE")
    assert not hazard_of("memcpy")
    assert not HARMLESS & BY_NAME.keys()

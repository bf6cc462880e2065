"""Names in the source: against c++filt, and against what programs were compiled from."""

from __future__ import annotations

import subprocess

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.demangle import arity, declaration, demangled, short
from lbtrace.elf.image import Image
from lbtrace.plan import Selection, make_plan

SOURCE = """
#include <string>
namespace space {
struct Thing {
    int v;
    __attribute__((noinline)) int method(int z) const { return z + v; }
    __attribute__((noinline)) bool operator<(const Thing &o) const { return v < o.v; }
    __attribute__((noinline)) explicit operator bool() const { return v; }
    __attribute__((noinline)) int operator()(int n) { return n; }
};
template <class T> __attribute__((noinline)) T twice(T n) { return n + n; }
__attribute__((noinline)) int over(int n) { return n; }
__attribute__((noinline)) int over(char n) { return n; }
}
namespace { __attribute__((noinline)) int hidden(int n) { return n; } }
int main(int c, char **) {
    space::Thing t{c}, u{3};
    return t.method(1) + (t < u) + (t ? 1 : 2) + t(3) + space::twice(c) + space::over(c)
        + space::over('c') + hidden(c);
}
"""


def names(path, *patterns):
    return [f.name for f in make_plan(path, Selection(patterns)).functions]


@pytest.fixture
def program(build):
    return build("-g", "-O0", source=SOURCE, compiler="g++")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("space::Thing::method", ["space::Thing::method"]),
        ("space::Thing::method(int) const", ["space::Thing::method"]),
        ("_ZNK5space5Thing6methodEi", ["space::Thing::method"]),
        ("*::method", ["space::Thing::method"]),
        (
            "/Thing::(method|operator bool)/",
            ["space::Thing::method", "space::Thing::operator bool"],
        ),
        ("space::Thing::operator<", ["space::Thing::operator<"]),
        ("space::Thing::operator()", ["space::Thing::operator()"]),
        ("space::twice<int>", ["space::twice<int>"]),
        ("space::over", ["space::over(int)", "space::over(char)"]),
        ("space::over(char)", ["space::over"]),
        ("(anonymous namespace)::hidden", ["(anonymous namespace)::hidden"]),
    ],
)
def test_patterns_match_names_in_the_source(program, pattern, expected):
    assert sorted(names(program, pattern)) == sorted(expected)


def test_types_are_found_under_any_name(program):
    (function,) = make_plan(program, Selection(("space::Thing::method",))).functions
    assert function.typed
    assert [p.name for p in function.parameters] == ["this", "z"]
    assert "_ZNK5space5Thing6methodEi" in function.aliases


def test_a_large_library_as_the_system_demangles_it(tool):
    path = tool("g++", "-print-file-name=libstdc++.so.6").strip()
    mangled = [f.name for f in symbols.read(Image.open(path)).functions if f.name.startswith("_Z")]
    assert len(mangled) > 1000
    done = subprocess.run(
        ["c++filt"], input="\n".join(mangled), check=True, capture_output=True, text=True
    )
    # c++filt writes the abbreviated standard strings and streams out, spaces closing brackets
    # as before C++11, and knows clones for transactional memory.
    shortened = ("transaction clone", "basic_string", "basic_i", "basic_o", "allocator")
    compared = [
        (demangled(name), filtered.replace("> >", ">>").replace("> >", ">>"))
        for name, filtered in zip(mangled, done.stdout.splitlines(), strict=True)
        if not any(word in filtered for word in shortened)
    ]
    assert len(compared) > 500
    assert [ours for ours, _ in compared] == [theirs for _, theirs in compared]
    assert all(short(name) for name in mangled)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("_ZN3foo3bar17h05af221e174051e9E", "foo::bar"),
        ("_RNvCs4fqI2P2rA04_7mycrate3foo", "mycrate::foo"),
        ("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"),
        (
            "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
            "3bar17h930b740aa94f1d3aE",
            "<Test + 'static as foo::Bar<Test>>::bar",
        ),
        (
            "_RINvNtC4core3ptr13drop_in_placeDG0_INtNtNtB4_3ops8function2FnTRL1_lRL0_hEEp6OutputuEL_EB4_",
            "core::ptr::drop_in_place::<dyn for<'a, 'b> core::ops::function::Fn<(&'a i32, &'b u8),"
            " Output = ()>>",
        ),
    ],
)
def test_rust(name, source):
    """Examples of RFC 2603 and of rustc-demangle's own tests."""
    assert short(name) == source


def test_nothing_is_printed(capfd):
    """rust_demangler prints where it stumbles over a name."""
    name = "_RINvNtC4core3ptr13drop_in_placeDG0_INtNtNtB4_3ops8function2FnTRL3_lEEp6OutputuEL_EB4_"
    assert demangled(name) == name
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("_Z1fv", 0),
        ("_Z3t_fi2NTi", 3),
        ("_Z4t_cbPFiPKvS0_EPFvvEM4BaseiMS5_FvvE", 4),
        ("_Z1fPKcz", 1),
        ("_ZN1VclEi", 1),
        ("_ZNK1VgtERKS_", 1),
        ("_ZN1VcvPFivEEv", 0),
        ("main", None),
    ],
)
def test_parameters_of_mangled_names_are_counted(name, count):
    assert arity(name) == count


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("_Z1fv", ("", "", "f", (), False)),
        (
            "_ZNK2ns1AIiE1fEcSt4pairIilE",
            ("", "ns::A<int>", "f", ("char", "std::pair<int, long>"), True),
        ),
        ("_Z3getIiET_RKS0_", ("int", "", "get<int>", ("int const&",), False)),
        ("_ZN1VclEi", ("", "V", "operator()", ("int",), False)),
        ("_ZN1VlsERKS_", ("", "V", "operator<<", ("V const&",), False)),
        ("_ZN12_GLOBAL__N_11fEz", ("", "(anonymous namespace)", "f", ("...",), False)),
    ],
)
def test_names_tell_declarations(name, declared):
    assert declaration(name) == declared


@pytest.mark.parametrize(
    "name", ["main", "_Z1gIPFiiEET_S2_", "_ZN4core3fmt5write17h0123456789abcdefE", "_RNvC1a1b"]
)
def test_other_names_tell_none(name):
    assert declaration(name) is None


def test_transaction_clones_are_called_after_what_they_clone():
    name = "_ZGTtNKSt11logic_error4whatEv"
    assert demangled(name) == "transaction clone for std::logic_error::what() const"
    assert short(name) == "transaction clone for std::logic_error::what"
    for damaged in ("_ZGTt", "_ZGTtGTt1fv", "_ZGTt" + "GTt" * 1000 + "1fv"):
        assert short(damaged) == demangled(damaged) == damaged

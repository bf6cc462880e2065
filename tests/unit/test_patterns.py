"""Selecting functions by pattern, on tables made by hand."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence

import pytest

from lbtrace.elf import demangle
from lbtrace.elf.functions import ListedFunctions
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import NoMatchError, UsageError
from lbtrace.model import Function
from lbtrace.plan import functions, unmatched
from lbtrace.plan.functions import merge, split_excluded, tells_left_out
from lbtrace.plan.patterns import BinarySymbols, addressed, matching, means
from lbtrace.plan.unmatched import COMPARED, nearest
from lbtrace.validation import split_listed


def table(*names: str, ifuncs: tuple[str, ...] = ()) -> Symbols:
    """Functions called ``name`` or ``name=alias=…``, one after the other."""
    functions = []
    for n, written in enumerate(names):
        name, *aliases = written.split("=")
        functions.append(Function(name, 16 * (n + 1), 16, 0, tuple(aliases)))
    return Symbols(
        ListedFunctions(functions),
        [f.address for f in functions],
        ListedFunctions([]),
        [(0, name) for name in ifuncs],
        lambda name: "V2" if name == "new" else "",
    )


def choose(
    binaries: list[BinarySymbols], wanted: Iterable[str], excluded: Sequence[str] = ()
) -> tuple[list[list[Function]], list[str]]:
    """The functions of each binary that are wanted and not excluded, and the notes."""
    found = [each for pattern in wanted for each in functions.select(binaries, pattern)]
    left, notes = merge(binaries, (f for f in found if isinstance(f, Function)), excluded)
    return left, [*(note for note in found if isinstance(note, str)), *notes]


def select(binaries: list[BinarySymbols], wanted: Iterable[str]) -> list[list[Function]]:
    return choose(binaries, wanted)[0]


def chosen(symbols: Symbols, *patterns: str) -> list[str]:
    return [f.name for f in select([BinarySymbols("program", symbols)], patterns)[0]]


def test_the_name_asked_for_becomes_the_name():
    found = select([BinarySymbols("program", table("read=__read=__libc_read"))], ["__read"])[0][0]
    assert found.name == "__read"
    assert found.aliases == ("read", "__libc_read")
    assert chosen(table("read=__read"), "__*") == ["__read"]


def test_a_glob_matches_parameters_only_where_it_has_a_parenthesis():
    symbols = table(
        *("_ZN2db4scanERKSt6vectorI3RowSaIS1_EE", "_ZN2db6RowSet5countEi", "_Z5plain3Row")
    )
    assert chosen(symbols, "*Row*") == chosen(symbols, "/Row/") == ["db::RowSet::count"]
    assert chosen(symbols, "*(*Row*)") == chosen(symbols, r"/\(.*Row/") == ["db::scan", "plain"]
    assert len(chosen(symbols, "_Z*Row*")) == 3
    binaries = [BinarySymbols("program", symbols)]
    assert choose(binaries, ["*"], ["*vector*"])[0] == choose(binaries, ["*"])[0]


def test_all_functions_of_a_name_are_meant():
    assert len(select([BinarySymbols("program", table("init", "other", "init"))], ["init"])[0]) == 2


def test_a_name_means_the_copies_as_well():
    copies = ["f", "f.constprop.0", "f.isra.0.constprop.1", "f.lto_priv.0", "f.llvm.8a1"]
    others = ["f.part.0", "f.x", "ff.constprop.0", "xf.constprop.0", "f.constprop"]
    assert chosen(table(*copies, *others), "f") == copies
    assert chosen(table("f", "f.isra.0"), "f.isra.0") == ["f.isra.0"]
    assert chosen(table("g.constprop.0"), "g") == ["g.constprop.0"]


def test_results_are_in_order_and_single():
    assert chosen(table("a", "b", "c"), "c", "a", "*") == ["a", "b", "c"]


def test_several_are_listed_with_commas():
    assert split_listed(["c, b*", "f<int, long>", "g(int, int),!h", "/a,b/", ""]) == (
        *("c", "b*", "f<int, long>", "g(int, int)", "!h", "/a,b/", ""),
    )


def test_globs_respect_case_and_the_whole_name():
    symbols = table("fib", "FIB", "fibre", "prefib")
    assert chosen(symbols, "fib*") == ["fib", "fibre"]
    assert chosen(symbols, "?IB") == ["FIB"]
    assert chosen(symbols, "/ib$/") == ["fib", "prefib"]
    assert chosen(symbols, "/(?i)^fib$/") == ["fib", "FIB"]
    assert chosen(table("_ZN2ns1W2goEi", "_Z4evenv", "v"), "/^e|v$/") == ["even", "v"]


def test_a_name_with_a_bracket_is_first_a_name():
    assert chosen(table("operator[]", "operato"), "operator[]") == ["operator[]"]


def test_versions():
    symbols = table("new", "new@V1")
    assert chosen(symbols, "new@@V2") == ["new"]
    assert chosen(symbols, "new@V1") == ["new@V1"]
    with pytest.raises(NoMatchError):
        chosen(symbols, "new@@V3")


def test_no_match_shows_at_most_three_near_names():
    with pytest.raises(NoMatchError) as caught:
        chosen(table("compute", "computed", "commute", "dispute", "zebra"), "comput")
    assert caught.value.hint == "nearest names: compute, computed, commute"
    with pytest.raises(NoMatchError) as caught:
        chosen(table("zebra"), "xylophone")
    assert "lbtrace list" in caught.value.hint


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("printf", "it is a library's: add --binary libc.so.6 or --binary libm.so.6"),
        ("pritnf", "lbtrace list shows its functions"),
        ("printf@libc", "no traced file is called libc: add it by --binary FILE"),
        ("/a@b/", "lbtrace list shows its functions"),
        ("new@@V3", "nearest names: new"),
    ],
)
def test_functions_of_files_that_are_not_traced_are_said_to_be(pattern, hint):
    libraries = ("libc.so.6", "libm.so.6")
    binary = BinarySymbols("prog", table("new"), lambda name: libraries if name == "printf" else ())
    with pytest.raises(NoMatchError) as caught:
        select([binary], [pattern])
    assert caught.value.command_line[1] == hint


def test_indirect_functions_have_an_error_of_their_own():
    with pytest.raises(NoMatchError, match="indirect function"):
        chosen(table("a", ifuncs=("memcpy",)), "memcpy")
    assert matching(("memcpy", "strlen"), ["mem*", "x"]) == ["memcpy"]


def test_a_pattern_needs_to_match_in_one_binary():
    binaries = [
        BinarySymbols("/x/prog", table("main", "write")),
        BinarySymbols("/x/libc.so.6", table("write")),
    ]
    found = select(binaries, ["main", "write"])
    assert [[f.name for f in functions] for functions in found] == [["main", "write"], ["write"]]
    with pytest.raises(NoMatchError, match="no function of /x/prog or /x/libc"):
        select(binaries, ["man"])


@pytest.mark.parametrize("name", ["libc", "libc.so", "libc.so.6", "x/libc.so.6", "/x/libc.so.6"])
def test_a_pattern_may_be_for_one_binary(name):
    binaries = [
        BinarySymbols("/x/prog", table("write")),
        BinarySymbols("/x/libc.so.6", table("write")),
    ]
    found = select(binaries, [f"wr*@{name}"])
    assert [len(functions) for functions in found] == [0, 1]
    with pytest.raises(NoMatchError, match=r"^read: matches no function of /x/libc.so.6$"):
        select(binaries, [f"read@{name}"])


def test_what_follows_an_at_may_be_part_of_the_name():
    assert addressed("new@V1", ["/x/prog"]) == ([0], "new@V1")
    assert addressed("@prog", ["/x/prog"]) == ([0], "@prog")


def test_a_broken_expression_is_reported():
    with pytest.raises(UsageError, match=r"/\[/"):
        chosen(table("a"), "/[/")


def test_the_search_for_near_names_is_bounded():
    names = [Function(f"some_function_{n}", n, 1, n) for n in range(2 * COMPARED)]
    assert nearest(names, "some_functoin_77")


CXX = ("_ZN2ns1W2goEi", "_ZN2ns1W4pushIiEET_S2_", "_ZN2ns1W4pushIdEET_S2_", "_Z5twiceIiET_S0_")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        *(("go", [0]), ("W::go", [0]), ("ns::W::go", [0]), ("W::go(int)", [0])),
        *(("push", [1, 2]), ("push(int)", [1]), ("W::push<double>", [2]), ("twice", [3])),
        *(("W::*", [0, 1, 2]), ("W*::push", [1, 2]), ("pu?h*", [1, 2]), ("tw*e", [3])),
    ],
)
def test_a_name_in_the_source_needs_no_qualifiers(pattern, names):
    found = select([BinarySymbols("program", table(*CXX))], [pattern])[0]
    assert [f.aliases[0] for f in found] == [CXX[n] for n in names]


RUST = (
    "_RNvMs1_Cs6GmmlP4bgsG_1rNtB5_3Dog3run",  # <r::Dog>::run
    "_RNvXs_Cs6GmmlP4bgsG_1rNtB4_3DogNtB4_5Speak5speak",  # <r::Dog as r::Speak>::speak
    "_ZN35_$LT$r..Cat$u20$as$u20$r..Speak$GT$5speak17h3c529be3f3c09755E",
    "_ZN1r3Cat3run17hfc21a3e50a2fd6f9E",
    "_RINvCs6GmmlP4bgsG_1r5twicemEB2_",  # r::twice::<u32>
)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        *(("Dog::run", [0]), ("r::Dog::run", [0]), ("run", [0, 3]), ("<r::Dog>::run", [0])),
        *(("Dog::speak", [1]), ("r::Cat::speak", [2]), ("speak", [1, 2]), ("Dog::*", [0, 1])),
        *(("twice", [4]), ("r::twice", [4]), ("twice<u32>", [4]), ("r::*", [0, 1, 2, 3, 4])),
    ],
)
def test_methods_of_rust_go_by_their_type(pattern, names):
    found = select([BinarySymbols("program", table(*RUST))], [pattern])[0]
    assert [f.aliases[0] for f in found] == [RUST[n] for n in names]


def test_what_rust_brings_is_meant_by_a_bare_name_if_nothing_else_is():
    core = "_RNvMsD_NtCsgEmfK2I1SDS_4core3numy3run"  # <u64>::run
    assert chosen(table(*RUST, core), "run") == ["<r::Dog>::run", "r::Cat::run"]
    assert chosen(table(core), "run") == ["<u64>::run"]


def test_few_names_are_demangled(monkeypatch):
    assert all(means("Dog::run", name, "run") for name in RUST[:1])
    monkeypatch.setattr(demangle, "short", None)
    assert not any(means("r::runn", name, "run") or means("r*wug", name, "run") for name in RUST)


@pytest.mark.parametrize("pattern", ["o", "X::go", "go(long)", "push<int>::go", "W", "sh"])
def test_parts_of_names_are_no_names(pattern):
    with pytest.raises(NoMatchError):
        chosen(table(*CXX), pattern)


def test_a_qualified_name_is_taken_first():
    assert chosen(table("_ZN2ns1W2goEi", "_Z2goi"), "go") == ["go"]
    assert chosen(table("_ZN2ns1W2goEi", "go"), "go") == ["go"]


def test_nearest_names_are_those_of_the_source():
    assert nearest(table(*CXX).functions, "W::goo") == ["ns::W::go"]
    assert nearest(table(*CXX).functions, "twise") == ["twice<int>"]


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("adv.cpp", 'the functions of a source file are named by source=["adv.cpp"]'),
        ("src/*.c", 'the functions of a source file are named by source=["src/*.c"]'),
        ("./adv.cpp:5", 'a line is traced by lines=["./adv.cpp:5"]'),
        ("main.go:5-9", 'a line is traced by lines=["main.go:5-9"]'),
        ("lib.rs:total", 'a function goes by its name alone: functions=["total"]'),
        ("0x1149", 'an address is traced by places=["program:0x1149"]'),
        ("0X1149", 'an address is traced by places=["program:0x1149"]'),
        ("adv.cpp::x", "lbtrace list shows its functions"),
        ("main.f", "nearest names: main.func1"),
    ],
)
def test_a_source_file_is_no_function(pattern, hint):
    with pytest.raises(NoMatchError) as caught:
        chosen(table("main.func1"), pattern)
    assert caught.value.hint == hint
    with pytest.raises(NoMatchError) as caught:
        [*functions.select([BinarySymbols("program", table("main"))], pattern, "within")]
    assert "source" not in caught.value.hint


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("int fib(int)", 'give the name alone: functions=["fib"]'),
        ("int fib(int n)", 'give the name alone: functions=["fib"]'),
        ("struct s *fib(int n, char *);", 'give the name alone: functions=["fib"]'),
        ("fib(int)", 'give the name alone: functions=["fib"]'),
        ("fib, nothing", 'only fib matches: functions=["fib"]'),
        ("int fib", 'give the name alone: functions=["fib"]'),
        ("static int fib", 'give the name alone: functions=["fib"]'),
        ("func fib", 'give the name alone: functions=["fib"]'),
        ("int fib(int n) {", 'give the name alone: functions=["fib"]'),
        ("fib|main", "write functions= once for each: fib, main"),
        ("fib main", "write functions= once for each: fib, main"),
        ("nothing,nowhere", "lbtrace list shows its functions"),
        ("int nothing(int)", "lbtrace list shows its functions"),
    ],
)
def test_declarations_and_lists_of_names(pattern: str, hint: str):
    with pytest.raises(NoMatchError) as caught:
        chosen(table("fib", "main"), pattern)
    assert caught.value.hint == hint


def test_what_is_excluded_is_left_out():
    symbols = table("parse_int", "parse_text", "parse_text.isra.0", "_ZN5parse4wordEv", "main")
    named = [BinarySymbols("/lib/libparse.so.1", symbols)]

    def left(*words: str, exclude: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
        (kept,), notes = choose(named, *split_excluded(words, exclude))
        return [f.name for f in kept], notes

    assert left("*", "!parse_text") == (["parse_int", "parse::word", "main"], [])
    assert left("parse*", exclude=("word", "/int$/")) == (["parse_text", "parse_text.isra.0"], [])
    assert left("main", "!parse*@libparse") == (
        ["main"],
        ["parse*@libparse: is excluded, but means none of the chosen functions"],
    )
    with pytest.raises(NoMatchError, match="parse_\\*: leaves out the one function"):
        left("parse_int", exclude=("parse_*",))


def test_all_means_neither_runtimes_nor_start_up_code():
    own = ("main", "standard", "_ZN4shop4cart3addESt6vectorIiSaIiEE", "_ZZ4mainENKUlvE_clEv")
    others = (
        *("_start", "frame_dummy", "_GLOBAL__sub_I_main", "_ZNSt6vectorIiSaIiEE9push_backERKi"),
        *("_ZSt4moveIRiEOT_S1_", "_ZNKSs4sizeEv", "_ZNSt3__14moveEv", "_ZN9__gnu_cxxneEv"),
        *("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "_RNvNtCs1_4core3ptr4read"),
        "_ZN60_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..Drop$GT$4drop17h0123456789abcdefE",
    )
    others += (
        "_RINvMNtCsgEmfK2I1SDS_4core5sliceSh11copy_withinINtNtNtB5_3ops5range14RangeInclusivejEECsf"
        "EOYDRpO4Ta_11miniz_oxide",  # <[u8]>::copy_within::<RangeInclusive<usize>>
        "_RNvMsD_NtCsgEmfK2I1SDS_4core3numy16from_ascii_radix",  # <u64>::from_ascii_radix
        "_RNvXNtNtCs6O6TnIPaRGP_6object4read8read_refRShNtB2_7ReadRef19read_bytes_at_until",
        "_RNvXNvMNtNtCsjrHSEGnQ3l9_3std3sys9backtraceNtB5_13BacktraceLock5printNtB2_16DisplayBacktr"
        "aceNtNtCsgEmfK2I1SDS_4core3fmt7Display3fmt",  # <<std::…>::… as core::fmt::Display>::fmt
    )
    own += ("_ZN48_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$r..Area$GT$4area17h0123456789abcdefE",)
    symbols = table(*own, *others, "_ZN4core3runEv", "_ZN3app4core17h0123456789abcdefE")
    named = [BinarySymbols("/bin/program", symbols)]
    (taken,), notes = choose(named, ["*"])
    assert {f.address for f in taken} == {
        *(f.address for f in symbols.functions[: len(own)]),
        *(f.address for f in symbols.functions[-2:]),
    }
    assert notes[0].startswith(f"leaves out {len(others)} functions of std")
    assert tells_left_out(notes[0])
    (note,) = choose([BinarySymbols("/bin/program", table("main", "_start"))], ["*"])[1]
    assert note.startswith("leaves out 1 function of start-up code")
    assert len(select(named, ["*", "/./"])[0]) == len(symbols.functions)
    library = [BinarySymbols("/lib/libstdc++.so.6.0.30", symbols)]
    assert len(select(library, ["*"])[0]) == len(symbols.functions)


@pytest.mark.parametrize("pattern", ["Shop_open", "shop_o*", "/^shop_open$/"])
def test_a_library_that_may_be_loaded_later_is_named(pattern, tmp_path, monkeypatch):
    """By the names of its functions, which begin as its own does."""
    library = tmp_path / "libshop.so.1"
    source = tmp_path / "shop.c"
    source.write_text("int shop_open(void) { return 1; } int Shop_open(void) { return 2; }")
    shared = ["-shared", "-Wl,-soname,libshop.so.1"]
    subprocess.run(["gcc", *shared, source, "-o", library], check=True)
    entries = [("libsho.so.1", "/nowhere"), ("libshop.so.1", str(library))]
    monkeypatch.setattr(unmatched, "cache_entries", lambda: iter(entries))

    def hint(wanted, *, later):
        program = BinarySymbols("/bin/program", table("main"), loads_later=later)
        return unmatched.explain([program], wanted, "func").hint

    assert hint(pattern, later=True) == 'it is a library\'s: add binary="libshop.so.1"'
    assert "loaded later" in hint("shop_close", later=True)
    assert hint(pattern, later=False) == "lbtrace list shows its functions"

"""Values that lie where a compiler's layout of them says: packed, in unions, on the stack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

Calls = list[dict[str, Any]]
Compile = Callable[[str, list[str], str], Path]
Traced = Callable[[Path, str], Calls]

PACKED = r"""
#define KEPT __attribute__((noinline))
struct three { double d; int i; const char *s; };
struct __attribute__((packed)) x87 { signed char c; void *p; long double l; };
struct __attribute__((packed)) wide { signed char c; void *p; __int128 l; };
struct nested { struct wide w; short s; };
struct __attribute__((packed)) even { __int128 l; __int128 m; };
union either { struct wide w; long double l; };
#define FIRST(of) *(const volatile char *)&of
#define SHOW(n, type) KEPT int show_##n(struct three a, type b, struct three c) \
    { FIRST(a); FIRST(b); FIRST(c); return 0; } /* callers fill only what is read */
SHOW(x87, struct x87)
SHOW(wide, struct wide)
SHOW(nested, struct nested)
SHOW(even, struct even)
SHOW(either, union either)
int main(void)
{
    struct three s = {1.5, 2, "x"};
    struct wide w = {5, (void *)0x1234, 77};
    show_x87(s, (struct x87){5, (void *)0x1234, 2.5}, s);
    show_wide(s, w, s);
    show_nested(s, (struct nested){w, 6}, s);
    show_even(s, (struct even){7, 8}, s);
    show_either(s, (union either){w}, s);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_packed_records_on_the_stack(
    compiled: Compile, traced: Traced, compiler: str, level: str
) -> None:
    """They lie at any multiple of eight bytes, whatever numbers they hold."""
    program = compiled(f"packed{compiler}{level}", [compiler, "-g", "-w", level], PACKED)
    three = {"d": 1.5, "i": 2, "s": "x"}
    wide = {"c": 5, "p": "0x1234", "l": 77}
    expected = {"x87": wide | {"l": 2.5}, "wide": wide, "nested": {"w": wide, "s": 6}}
    if (compiler, level) != ("clang", "-O2"):  # its layout is the same if it is not packed
        expected["even"] = {"l": 7, "m": 8}
    for call in traced(program, "show_*"):
        kind = call["name"].removeprefix("show_")
        if kind != "even" or kind in expected:
            first, second, third = (argument["value"] for argument in call["args"])
            assert first == third == three, call
            assert second == expected.get(kind, second), call
            assert kind != "either" or second["w"] == wide


UNIONS = r"""
#define KEPT __attribute__((noinline))
union ld_wide { long double f; __int128 i; };
union ld_long { long double f; long i; };
union wide_f { __int128 i; __float128 f; };
union f_wide { __float128 f; __int128 i; };
union f_long { __float128 f; long i; };
struct alone { __float128 f; };
#define SHOW(type, record) KEPT record type(record a, int x) \
    { __asm__ volatile("" : : "m"(a), "m"(x)); return a; }
SHOW(show_ld_wide, union ld_wide)
SHOW(show_ld_long, union ld_long)
SHOW(show_wide_f, union wide_f)
SHOW(show_f_wide, union f_wide)
SHOW(show_f_long, union f_long)
SHOW(show_alone, struct alone)
int main(void)
{
    __int128 wide = ((__int128)7 << 64) + 5;
    show_ld_wide((union ld_wide){.i = wide}, 1);
    show_ld_long((union ld_long){.f = 1.5L}, 1);
    show_wide_f((union wide_f){.i = wide}, 1);
    show_f_wide((union f_wide){.i = wide}, 1);
    show_f_long((union f_long){.i = 11}, 1);
    show_alone((struct alone){2.5}, 1);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_unions_of_large_numbers(
    compiled: Compile, traced: Traced, compiler: str, level: str
) -> None:
    program = compiled(f"unions{compiler}{level}", [compiler, "-g", "-w", level], UNIONS)
    calls = traced(program, "show_*")
    assert len(calls) == 6
    for call in calls:
        union, number = (argument["value"] for argument in call["args"])
        assert number == 1, call
        kind = call["name"].removeprefix("show_")
        for value in (union, call["result"]):
            if kind == "ld_long":
                assert value["f"] == 1.5
            elif kind == "alone":
                assert value is None or value["f"] in (2.5, None)
            else:
                assert value["i"] == (11 if kind == "f_long" else (7 << 64) + 5), call


REFERENCES = r"""
struct own { long a, b; ~own() {} };
struct large { long a[4]; };
#define KEPT __attribute__((noinline))
#define BODY { asm volatile("" : : "m"(x), "m"(y), "m"(z)); return {y.a}; }
KEPT large show_exported(own x, int i, long j, long k, long l, own y, __int128 m, own z) BODY
static KEPT large show_local(own x, int i, long j, long k, long l, own y, __int128 m, own z) BODY
static KEPT own show_two(own x, own y, int i) { return i ? x : y; }
int main()
{
    own x{1, 2}, y{3, 4}, z{5, 6};
    show_exported(x, 7, 8, 9, 10, y, 11, z);
    show_local(x, 7, 8, 9, 10, y, 11, z);
    show_two(x, y, 7);
}
"""


@pytest.mark.parametrize("version", [4, 5])
def test_objects_of_plain_code_of_clang(compiled: Compile, traced: Traced, version: int) -> None:
    """It says in which register the pointer to an object lies after it was moved there."""
    words = ["clang++", "-g", f"-gdwarf-{version}", "-O0"]
    x, y, z = ({"a": n, "b": n + 1} for n in (1, 3, 5))
    whole = {"x": x, "i": 7, "j": 8, "k": 9, "l": 10, "y": y, "m": 11, "z": z}
    first, second, third = traced(compiled(f"own{version}", words, REFERENCES), "show_*")
    for call in (first, second):
        assert {a["name"]: a["value"] for a in call["args"]} == whole
        assert call["result"] == {"a": [3, 0, 0, 0]}
    assert {a["name"]: a["value"] for a in third["args"]} == {"x": x, "y": y, "i": 7}
    assert third["result"] == x


LARGE = r"""
struct large { char pad[112]; char a[4]; __int128 wide; char b[3]; char c; };
struct cut { char pad[118]; char a[4]; char b[3]; };
__attribute__((noinline)) int show(struct large x, struct cut y) { return x.c + y.b[0]; }
int main(void)
{
    struct large x = {"p", "abc", 77, "de", 'f'};
    struct cut y = {"q", "xyz", "uv"};
    return show(x, y) == 0;
}
"""


def test_what_lies_beyond_the_fetched_bytes_says_so(compiled: Compile, traced: Traced) -> None:
    ((large, cut),) = (
        call["args"] for call in traced(compiled("large", ["gcc", "-g"], LARGE), "show")
    )
    unread = {"unreadable": "not read"}
    assert large["value"] == {"pad": "p", "a": "abc", "wide": None, "b": None, "c": None}
    assert large["parts"] == {"/wide": unread, "/b": unread, "/c": unread}
    assert cut["value"] == {"pad": "q", "a": "xy", "b": None}
    assert cut["parts"]["/b"] == unread

"""Names of C++ as people write them."""

from __future__ import annotations

import pytest

from lbtrace.elf.cpp_names import shorten

STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


@pytest.mark.parametrize(
    ("full", "written"),
    [
        (STRING, "std::string"),
        (f"f[abi:cxx11]({STRING} const&)", "f(std::string const&)"),
        (
            f"std::map<{STRING}, int, std::less<{STRING} >,"
            f" std::allocator<std::pair<{STRING} const, int> > >::at",
            "std::map<std::string, int>::at",
        ),
        (
            "std::__1::unordered_set<int, my::hash<int>, std::__1::equal_to<int>,"
            " std::__1::allocator<int> >",
            "std::unordered_set<int, my::hash<int>>",
        ),
        ("std::set<int, std::less<void>, std::allocator<int> >", "std::set<int, std::less<void>>"),
        ("std::vector<int, my::alloc<int> >", "std::vector<int, my::alloc<int>>"),
        ("std::queue<int, std::deque<int, std::allocator<int> > >", "std::queue<int>"),
        ("std::pair<int, std::allocator<int> >", "std::pair<int, std::allocator<int>>"),
        ("std::unique_ptr<int [], std::default_delete<int []> >", "std::unique_ptr<int []>"),
        ("std::array<Cache<int, 4ul>, 3ul>", "std::array<Cache<int, 4>, 3>"),
        ("std::__1::__fs::filesystem::path", "std::filesystem::path"),
        ("decltype(a->b) g<A<int> >(int)", "decltype(a->b) g<A<int>>(int)"),
        ("bool operator< <int>(V<int> const&)", "bool operator< <int>(V<int> const&)"),
        ("V<(1 > 2)>::operator->", "V<(1 > 2)>::operator->"),
        ("damaged<std::allocator<int>", "damaged<std::allocator<int>"),
    ],
)
def test_names(full: str, written: str) -> None:
    assert shorten(full) == written

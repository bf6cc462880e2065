"""The parts into which compilers split a coroutine of C++: none shows what it does not get."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Traced = Callable[[Path, str], list[dict[str, Any]]]

PROGRAM = """\
#include <coroutine>

struct Generator {
    struct promise_type {
        int current = 0;
        Generator get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int value) { current = value; return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> handle;
};

[[gnu::noinline]]
Generator numbers(int first, long second) { co_yield first; co_yield (int)second; }

int main() {
    Generator made = numbers(10, 11);
    made.handle.resume();
    int sum = made.handle.promise().current;
    made.handle.resume();
    sum += made.handle.promise().current;
    made.handle.destroy();
    return sum - 21;
}
"""


@pytest.mark.parametrize("options", ["g++ -O0", "g++ -O2", "clang++ -O0", "clang++ -O1"])
def test_values_of_coroutines(traced: Traced, tmp_path: Path, options: str) -> None:
    compiler, *others = options.split()
    source, program = tmp_path / "c.cc", tmp_path / "c"
    source.write_text(PROGRAM)
    subprocess.run([compiler, *others, "-std=c++20", "-g", source, "-o", program], check=True)
    calls = traced(program, "*numbers*")
    assert calls
    right = {"first": 10, "second": 11}
    for call in calls:
        values = {a["name"]: a["value"] for a in call["args"] if a["name"] in right}
        assert all(value in (None, right[name]) for name, value in values.items()), call
        if not call["name"].startswith("numbers(") and call["name"] != "numbers":
            assert call["result"] is None, call

"""Tables of thousands of keys, compared with what the program logs: of texts, also of such that are
cut or hold a zero, and of numbers of every size."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

MANY = r"""
#include <cstdint>
#include <cstdio>
#include <string>
using text = std::string;
__attribute__((noinline)) void many(const text &name, int8_t tiny, uint16_t shorter,
				int number, bool odd) {
	__asm__ volatile("" ::"r"(&name) : "memory");
}
int main(int, char **words) {
	FILE *log = fopen(words[1], "w");
	unsigned state = 7;
	for (int i = 0; i < 9000; i++) {
		state = state * 1664525 + 1013904223;
		unsigned n = state >> 8;
		text name = n % 50 ? std::to_string(n % 4000) : "";
		if (n % 7 == 0)
			name.append(n % 300, 'x');
		if (n % 11 == 0 && name.size() && name.size() < 200)
			name[name.size() / 2] = n % 2 ? '\0' : '\xff';
		if (n % 13 == 0)
			name += "\xc3\xa9\xf0\x9f\x8e\x89";
		many(name, n >> 4, n >> 5, n * 17 - (1 << 30), n & 1);
		for (unsigned char c : name)
			fprintf(log, "%02x", c);
		fprintf(log, " %d %d %d %d\n", (int8_t)(n >> 4), (uint16_t)(n >> 5),
			(int)(n * 17 - (1 << 30)), n & 1);
	}
}
"""


@pytest.fixture
def many(compiled: Callable[[str, list[str], str], Path]) -> Path:
    return compiled("many.cc", ["g++", "-O1", "-g", "-std=c++17"], MANY)


def shown(data: bytes) -> str:
    """The first 127 bytes, without a character that ends behind them."""
    if len(data) > 127:
        data = data[:127]
        for back in (1, 2, 3):
            if data[-back] in (0xC3, 0xF0) and back < {0xC3: 2, 0xF0: 4}[data[-back]]:
                data = data[:-back]
                break
    return data.decode("utf-8", "surrogateescape")


def made_by(log: Path) -> list[tuple[str, int, int, int, bool]]:
    """What each call was made with."""
    made = []
    for line in log.read_text().splitlines():
        name, *numbers, odd = line.split(" ")
        tiny, short, number = map(int, numbers)
        made.append((shown(bytes.fromhex(name)), tiny, short, number, odd == "1"))
    return made


@pytest.mark.parametrize("by", ["name", "number", "name,tiny,shorter,odd"])
def test_thousands_of_keys(many: Path, lbtrace: Run, tmp_path: Path, by: str) -> None:
    """Each is counted once, whatever it is made of, and the largest count comes first."""
    log = tmp_path / "log"
    done = lbtrace(*("count", "--func", "many", "--by", by, "--format", "json"), *("--", many, log))
    assert "9,000 calls counted, nothing lost" in done.stderr
    places = [["name", "tiny", "shorter", "number", "odd"].index(key) for key in by.split(",")]
    truth = Counter(tuple(each[place] for place in places) for each in made_by(log))
    rows = json.loads(done.stdout)["count"]
    assert [(tuple(row["by"].values()), row["count"]) for row in rows] == sorted(
        truth.items(), key=lambda each: (-each[1], each[0])
    )


def test_thousands_of_lines(many: Path, lbtrace: Run, tmp_path: Path) -> None:
    """The same as text: numbers by size, flush right but for the last column."""
    log = tmp_path / "log"
    done = lbtrace("count", "--func", "many", "--by", "tiny,number", "--", many, log)
    truth = Counter((each[1], each[3]) for each in made_by(log))
    expected = sorted(truth.items(), key=lambda each: (-each[1], each[0]))
    heading, *lines = done.stdout.splitlines()
    assert heading == "COUNT  tiny  number"
    assert lines == [f"{count:5}  {tiny:4}  {number}" for (tiny, number), count in expected]

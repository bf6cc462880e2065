"""Random programs of C++ that throw and catch, and log each line that they come to."""

from __future__ import annotations

import random
from collections.abc import Iterator

HEAD = """\
#include <cstdio>
#include <stdexcept>
#include <string>
static unsigned log_[1 << 14];
static unsigned state = SEED;
__attribute__((noinline)) void note(int line) { log_[line]++; }
__attribute__((noinline)) unsigned dice(unsigned sides)
{
	state = state * 1103515245 + 12345;
	return (state >> 16) % sides;
}
struct Small { int value; };
struct Large : std::runtime_error { using std::runtime_error::runtime_error; int more = 3; };
"""

TAIL = """\
int main()
{
	unsigned sum = 0;
	for (int turn = 0; turn < 60; turn++) {
		try {
			sum += run0(turn);
		} catch (...) {
			sum++;
		}
	}
	for (int line = 0; line < 1 << 14; line++)
		if (log_[line])
			printf("%d %u\\n", line, log_[line]);
	return sum == 4711;
}
"""

THROWN = ("int(turn)", "Small{int(turn)}", 'Large("large")', 'std::string("text")', "&log_[0]")
CAUGHT = (
    *("int number", "const Small &small", "const std::exception &error", "std::string text"),
    "...",
)


class _Writer:
    """Writes one program; a file is ``lines``."""

    def __init__(self, seed: str) -> None:
        self.choose = random.Random(seed)
        head = HEAD.replace("SEED", str(self.choose.randrange(1 << 31)))
        self.lines = head.splitlines()

    def put(self, depth: int, text: str) -> None:
        self.lines.append("\t" * depth + text)

    def note(self, depth: int) -> None:
        self.put(depth, "note(__LINE__);")

    def statement(self, depth: int, number: int) -> None:
        choose = self.choose
        kinds = ["call"] * 3 + ["throw"] * 2 + ["guard", "if", "note"]
        kinds += ["try"] * 4 + ["loop", "switch"] if depth < 5 else []
        match choose.choice(kinds):
            case "call" if number + 1 < FUNCTIONS:
                self.put(depth, f"sum += run{choose.randrange(number + 1, FUNCTIONS)}(turn + sum);")
            case "throw":
                self.put(depth, f"if (dice({choose.randrange(2, 9)}) == 0) {{")
                self.note(depth + 1)
                self.put(depth + 1, f"throw {choose.choice(THROWN)};")
                self.put(depth, "}")
            case "guard":
                kind = choose.randrange(GUARDS)
                self.put(depth, f"Guard{kind} guard{len(self.lines)}(dice(3));")
            case "if":
                self.put(depth, f"if (dice({choose.randrange(2, 5)}) == 0) {{")
                self.block(depth + 1, number)
                self.put(depth, "}")
            case "loop":
                name = f"i{len(self.lines)}"
                self.put(depth, f"for (unsigned {name} = dice(4); {name} > 0; {name}--) {{")
                self.block(depth + 1, number)
                self.put(depth, "}")
            case "switch":
                self.put(depth, "switch (dice(6)) {")
                for case in range(5):
                    self.put(depth, f"case {case}: {{")
                    self.block(depth + 1, number)
                    self.put(depth + 1, "break;")
                    self.put(depth, "}")
                self.put(depth, "}")
            case "try":
                self.attempt(depth, number)
            case _:
                self.note(depth)

    def attempt(self, depth: int, number: int) -> None:
        choose = self.choose
        self.put(depth, "try {")
        self.block(depth + 1, number)
        some = sorted(choose.sample(range(len(CAUGHT)), choose.randrange(1, 4)))
        for each in some:
            self.put(depth, f"}} catch ({CAUGHT[each]}) {{")
            self.note(depth + 1)
            if choose.randrange(2):
                self.statement(depth + 1, number)
            if choose.randrange(4) == 0:
                self.note(depth + 1)
                self.put(depth + 1, "throw;")
        self.put(depth, "}")

    def block(self, depth: int, number: int) -> None:
        self.note(depth)
        for _ in range(self.choose.randrange(1, 4)):
            self.statement(depth, number)

    def program(self) -> Iterator[str]:
        for kind in range(GUARDS):
            self.put(0, f"struct Guard{kind} {{")
            self.put(1, f"unsigned value; explicit Guard{kind}(unsigned v) : value(v) {{}}")
            self.put(1, f"{('~', '__attribute__((noinline)) ~')[kind % 2]}Guard{kind}()")
            self.put(1, "{")
            self.put(2, "if (value)")
            self.note(3)
            self.put(1, "}")
            self.put(0, "};")
        for number in range(FUNCTIONS):
            kind = self.choose.choice(("", "static "))
            self.put(0, f"{kind}unsigned run{number}(unsigned turn);")
        for number in range(FUNCTIONS):
            kept = self.choose.choice(("__attribute__((noinline)) ", ""))
            self.put(0, f"{kept}unsigned run{number}(unsigned turn)")
            self.put(0, "{")
            self.put(1, "unsigned sum = turn;")
            for _ in range(self.choose.randrange(2, 6)):
                self.statement(1, number)
            self.put(1, "return sum;")
            self.put(0, "}")
        return iter([*self.lines, *TAIL.splitlines()])


FUNCTIONS, GUARDS = 7, 3


def write(seed: str) -> str:
    """Return the program of a seed."""
    return "\n".join(_Writer(seed).program()) + "\n"

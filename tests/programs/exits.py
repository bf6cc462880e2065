"""Writes random C functions that return in many places: from loops, switches and branches, of every
kind of result, with frames that compilers lay out in different ways."""

from __future__ import annotations

from random import Random

TYPES = (
    *("int", "long", "unsigned char", "short", "const char *", "struct pair", "struct big"),
    *("struct small", "_Bool", "void", "unsigned", "long *", "signed char"),
)

HEADER = """
#include <string.h>
struct pair { long a, b; }; struct big { long v[5]; }; struct small { int x; short y; };
static volatile long sink;
static long table[64];
static const char *names[] = {"one", "two", "three", "four"};
"""

FRAMES = (
    'char buffer[40]; memset(buffer, (int)a0, 40); __asm__ volatile("" :: "r"(buffer) : "memory");',
    "char *more = __builtin_alloca((a0 & 31) + 16); memset(more, 1, 16);"
    ' __asm__ volatile("" :: "r"(more) : "memory");',
    *("", "", ""),
)

USES = {
    "void": "{};",
    "struct pair": "acc += {}.a;",
    "struct big": "acc += {}.v[3];",
    "struct small": "acc += {}.x;",
    "const char *": "acc += {}[0];",
    "long *": "acc += *{};",
}


class Writer:
    """Writes one program."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.made: list[tuple[str, int]] = []
        self.loops = 0

    def program(self) -> str:
        """The source; its functions are called ``traced_0`` and so on."""
        functions = [self.function() for _ in range(self.dice.randrange(14, 26))]
        rounds = [
            f"for (long x = 0; x < {self.dice.randrange(3, 9)}; x++)"
            f" {{ long acc = x; {self.use(number, ['x', 'sink', 'x * 7'])} sink = acc; }}"
            for number in range(len(self.made))
        ]
        return "\n".join([HEADER, *functions, "int main(void) {", *rounds, "return 0; }"])

    def function(self) -> str:
        """One more."""
        type, many = self.dice.choice(TYPES), self.dice.randrange(1, 4)
        names = [f"a{n}" for n in range(many)]
        body = self.block(0, type, names)
        number, start = len(self.made), self.dice.randrange(9)
        self.made.append((type, many))
        return (
            f"__attribute__((noinline, noclone)) {type} traced_{number}"
            f"({', '.join(f'long {name}' for name in names)}) {{ long acc = {start};"
            f" {self.dice.choice(FRAMES)} {body} sink = acc; {self.leave(type, names)} }}"
        )

    def leave(self, type: str, names: list[str]) -> str:
        """A return with some result."""
        return "return;" if type == "void" else f"return {self.value(type, [*names, 'acc'])};"

    def value(self, type: str, names: list[str]) -> str:
        """An expression of a type."""
        dice = self.dice
        x = dice.choice([*names, str(dice.randrange(-5, 99)), f"table[{dice.choice(names)} & 63]"])
        y = dice.choice(names)
        own = {
            "const char *": dice.choice([f"names[({x}) & 3]", f'"text {dice.randrange(9)}"']),
            "struct pair": f"(struct pair){{{x}, {y}}}",
            "struct big": f"(struct big){{{{{x}, {y}, 3, {x}, 5}}}}",
            "struct small": f"(struct small){{(int)({x}), (short)({y})}}",
            "long *": f"&table[({x}) & 63]",
            "_Bool": f"({x}) > ({y})",
        }
        some = [x, f"{x} + {y}", f"{x} * 3", f"{x} ^ {y}", f"{x} > {y} ? {x} : 4", f"{x} == {y}"]
        return own.get(type) or f"({type})({dice.choice(some)})"

    def use(self, number: int, names: list[str]) -> str:
        """A call of an earlier function."""
        type, many = self.made[number]
        given = [self.dice.choice([*names, str(self.dice.randrange(50))]) for _ in range(many)]
        return USES.get(type, "acc += (long){};").format(f"traced_{number}({', '.join(given)})")

    def block(self, depth: int, type: str, names: list[str]) -> str:
        """Some statements."""
        many = self.dice.randrange(1, 4)
        return " ".join(self.statement(depth, type, names) for _ in range(many))

    def statement(  # noqa: PLR0911
        self, depth: int, type: str, names: list[str]
    ) -> str:
        """One of them."""
        dice = self.dice
        kinds = ["use", "change", "store", "leave"]
        if depth < 3:
            kinds += ["branch", "branch", "switch", *([] if self.loops else ["loop"])]
        kind, one = dice.choice(kinds), dice.choice(names)
        if kind == "use" and self.made:
            return self.use(dice.randrange(len(self.made)), names)
        if kind == "store":
            return f"table[{one} & 63] = acc;"
        if kind == "leave" and depth:
            return self.leave(type, names)
        if kind == "branch":
            how = f"({one} & {dice.choice([1, 3, 7])}) {dice.choice(['==', '!=', '>'])} 1"
            other = (
                f" else {{ {self.block(depth + 1, type, names)} }}" if dice.random() < 0.4 else ""
            )
            return f"if ({how}) {{ {self.block(depth + 1, type, names)} }}{other}"
        if kind == "switch":
            cases = (f"case {n}: {self.block(3, type, names)} break;" for n in range(5))
            return f"switch ((unsigned)({one}) % 7) {{ {' '.join(cases)} }}"
        if kind == "loop":
            self.loops += 1
            body = self.block(depth + 1, type, [*names, "n"])
            self.loops -= 1
            return f"for (long n = 0; n < {dice.randrange(2, 6)}; n++) {{ {body} }}"
        return f"acc {dice.choice('+^-')}= {one};"


def write(dice: Random) -> str:
    """A program."""
    return Writer(dice).program()

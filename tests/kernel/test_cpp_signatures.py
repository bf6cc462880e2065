"""Functions of C++ with random signatures log their values; lbtrace is to show the same."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from math import isclose
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/programs"

INTEGERS = {
    "signed char": 7,
    "unsigned char": 8,
    "short": 15,
    "unsigned short": 16,
    "int": 31,
    "unsigned": 32,
    "long": 63,
    "unsigned long": 64,
    "long long": 63,
    "unsigned long long": 64,
}
"""Types and the bits of their largest number."""

SIMPLE = {
    "bool": lambda d: d.choice(["true", "false"]),
    "char": lambda d: f"'{d.choice('abcXYZ019')}'",
    "wchar_t": lambda d: f"L'{d.choice('abcXYZ')}'",
    "char16_t": lambda d: f"u'{d.choice('abcXYZ')}'",
    "char32_t": lambda d: f"U'{d.choice('abcXYZ')}'",
    "float": lambda d: f"{real(d)!r}f",
    "double": lambda d: repr(real(d)),
    "long double": lambda d: f"{real(d)!r}L",
    "__int128": lambda d: f"(((__int128){whole(d, 62)}) << {d.randrange(60)}) + {d.randrange(99)}",
    "unsigned __int128": lambda d: f"((unsigned __int128){whole(d, 62)}) << {d.randrange(60)}",
    "Color": lambda d: f"Color::{d.choice(['RED', 'GREEN', 'BLUE'])}",
    "Tone": lambda d: f"Tone::{d.choice(['LOW', 'HIGH'])}",
    "Shade": lambda d: d.choice(["DARK", "LIGHT"]),
    "const char *": lambda d: f'"{word(d)}"',
    "int *": lambda d: f"&numbers[{d.randrange(4)}]",
    "void *": lambda d: f"(void *){d.randrange(1 << 20)}L",
    "const Large *": lambda d: f"(const Large *){d.randrange(1, 1 << 20)}L",
    "Function": lambda d: d.choice(FUNCTIONS),
    "Member": lambda d: d.choice(["&Pair::x", "&Pair::y"]),
    "std::nullptr_t": lambda d: "nullptr",
    "std::string": lambda d: f'std::string("{word(d)}")',
    "std::string_view": lambda d: f'std::string_view("{word(d)}")',
    "std::vector<int>": lambda d: f"std::vector<int>{{{several(d, 'int')}}}",
    "std::vector<Pair>": lambda d: f"std::vector<Pair>{{{several(d, 'Pair')}}}",
    "std::vector<std::string>": lambda d: (
        f"std::vector<std::string>{{{several(d, 'std::string', 3)}}}"
    ),
    "std::unique_ptr<int>": lambda d: f"std::make_unique<int>({small(d)})",
    "std::shared_ptr<int>": lambda d: f"std::make_shared<int>({small(d)})",
    "std::pair<int, long>": lambda d: f"std::pair<int, long>({small(d)}, {small(d)})",
    "std::pair<char, double>": lambda d: f"std::pair<char, double>('p', {real(d)!r})",
    "std::tuple<int, char, long>": lambda d: (
        f"std::tuple<int, char, long>({small(d)}, 't', {small(d)})"
    ),
    "std::tuple<short>": lambda d: f"std::tuple<short>({small(d)})",
    "Pair": lambda d: f"Pair{{{small(d)}, {small(d)}}}",
    "Mixed": lambda d: f"Mixed{{{real(d)!r}, {whole(d, 62)}}}",
    "Reals": lambda d: f"Reals{{{real(d)!r}, 2.5}}",
    "Triple": lambda d: f"Triple{{{real(d)!r}f, -1.25f, {small(d)}.0f}}",
    "Small": lambda d: f"Small{{'q', {d.randrange(-999, 999)}}}",
    "Large": lambda d: f"Large{{{{{whole(d, 62)}, 5}}, {small(d)}}}",
    "Bits": lambda d: f"Bits{{{d.randrange(8)}, {d.randrange(128)}, {d.randrange(-16, 16)}, true}}",
    "Wide": lambda d: f"Wide{{((__int128){whole(d, 62)}) * 12345}}",
    "Exact": lambda d: f"Exact{{{real(d)!r}L, {small(d)}}}",
    "Lone": lambda d: f"Lone{{{real(d)!r}L}}",
    "Empty": lambda d: "Empty{}",
    "Tagged": lambda d: f"Tagged{{{{}}, {small(d)}}}",
    "Derived": lambda d: f"Derived{{{{{small(d)}, 4}}, {d.randrange(999)}}}",
    "Twice": lambda d: f"Twice{{{{{small(d)}, 4}}, {{{real(d)!r}, 8}}, 'w'}}",
    "NoRoom": lambda d: f"NoRoom{{{{}}, {small(d)}}}",
    "WithEmpty": lambda d: f"WithEmpty{{{{}}, {whole(d, 62)}}}",
    "Nested": lambda d: f"Nested{{{{'n', -3}}, {{{small(d)}, 9}}}}",
    "Rows": lambda d: f"Rows{{{{{{1, {d.randrange(999)}}}, {{3, -4}}}}}}",
    "Chars": lambda d: f'Chars{{"{word(d)[:6]}", {d.randrange(256)}}}',
    "Packed": lambda d: f"Packed{{'p', {whole(d, 62)}, {small(d)}}}",
    "Tight": lambda d: f"Tight{{'t', {small(d)}}}",
    "Aligned": lambda d: f"Aligned{{{whole(d, 62)}}}",
    "Named": lambda d: f'Named{{"{word(d)}", {small(d)}}}',
    "Texts": lambda d: f'Texts{{"{word(d)}", {small(d)}}}',
    "Either": lambda d: f"Either{{{small(d)}}}",
    "Number": lambda d: f"Number{{{real(d)!r}}}",
    "Holder": lambda d: f"Holder{{{{{real(d)!r}}}, {small(d)}}}",
    "Private": lambda d: f"Private({small(d)}, {whole(d, 62)})",
    "Defaulted": lambda d: f"defaulted({small(d)}, {real(d)!r}f)",
    "Copied": lambda d: f"Copied({small(d)})",
    "Later": lambda d: f"Later({small(d)})",
    "Ended": lambda d: f"Ended({whole(d, 62)})",
    "Moved": lambda d: f"Moved({small(d)}, 3)",
    "Virtual": lambda d: f"Virtual({small(d)})",
    "HoldsCopied": lambda d: f"HoldsCopied{{Copied({small(d)}), 'h'}}",
    "FromEnded": lambda d: f"FromEnded({whole(d, 62)}, {small(d)})",
    "OnlyMoved": lambda d: f"OnlyMoved({small(d)})",
    "Box<char>": lambda d: f"Box<char>{{'b', {small(d)}}}",
    "Box<double>": lambda d: f"Box<double>{{{real(d)!r}, {small(d)}}}",
    "Box<Pair>": lambda d: f"Box<Pair>{{{{{small(d)}, 2}}, {small(d)}}}",
}
"""How the source writes a value of each type but integers."""

TYPES = (*INTEGERS, *SIMPLE)
UNCOPIED = ("std::unique_ptr<int>", "Moved", "OnlyMoved")
"""Types whose values can only be moved."""

BY_ADDRESS = (
    *("std::string", "std::vector<int>", "std::vector<Pair>", "std::vector<std::string>"),
    *(
        "std::tuple<int, char, long>",
        "std::tuple<short>",
        "std::shared_ptr<int>",
        "Texts",
        "Copied",
        "Later",
        "Ended",
        "Virtual",
        "HoldsCopied",
        "FromEnded",
    ),
    *UNCOPIED,
)
"""Types that travel as pointers to them, and those. Where the function does not read them,
gcc's callers need not write them either (``-fipa-modref``), and gdb sees what is there, too."""

IN_MEMORY = ("Large", "Twice", "Exact", "Lone", "Packed", "Tight", "Aligned")
"""Types that callers copy to the stack. Clang's need not write what the function does not read."""

FUNCTIONS = ("halve", "negate")
"""Those that pointers lead to. Their addresses are shown where no slot was left to learn where
the process has the program."""

REFERRED = ("int", "char", "double", "Pair", "Large", "Copied", "std::string", "std::vector<int>")
"""Types that parameters refer to."""

SHOWN_THROUGH = ("std::string", "std::vector<int>")
"""Those that are shown where a reference leads to them; of others the address is."""


def real(dice: random.Random) -> float:
    return dice.choice([0.0, -1.5, round(dice.uniform(-1e6, 1e6), 4)])


def whole(dice: random.Random, bits: int) -> str:
    return f"{dice.randrange(-(1 << bits), 1 << bits)}L"


def small(dice: random.Random) -> int:
    return dice.choice([0, 1, -1, dice.randrange(-(1 << 30), 1 << 30)])


def word(dice: random.Random) -> str:
    return "".join(dice.choices("abcdef ghi", k=dice.choice([0, 3, 9, 16, 30])))


def several(dice: random.Random, type: str, most: int = 5) -> str:
    return ", ".join(literal(type, dice) for _ in range(dice.randrange(most)))


def literal(type: str, dice: random.Random) -> str:
    """A value of ``type`` as the source writes it."""
    if type not in INTEGERS:
        return str(SIMPLE[type](dice))
    bits = INTEGERS[type]
    lowest = -(1 << bits) if bits % 8 else 0
    number = dice.choice([0, 1, (1 << bits) - 1, lowest, dice.randrange(lowest, 1 << bits)])
    written = f"{number}ULL" if number >= 0 else f"({number + 1}LL - 1)"
    return f"({type}){written}"


FORMS = (
    *("free", "free", "free", "static", "static", "anonymous", "variadic", "template"),
    *("method", "const method", "ref method", "moved method", "static method", "virtual"),
    *("operator", "lambda", "constructor"),
)
"""Kinds of functions."""

METHODS = frozenset(
    {"method", "const method", "ref method", "moved method", "virtual", "operator", "constructor"}
)
"""Those with a ``this``."""


class Made:
    """A function, the statements that call it, and how its parameters are logged."""

    def __init__(self, number: int, dice: random.Random) -> None:
        self.number, self.dice = number, dice
        self.form = dice.choice(FORMS)
        self.name = f"traced_{number}"
        self.declared: list[str] = []
        self.logged: list[str] = []
        self.given: list[str] = []
        self.unread: list[str] = []
        self.before: list[str] = []
        count = 0 if self.form == "variadic" else dice.choice([0, 1, 2, 3, 5, 7, 9])
        for n in range(max(count, self.form in ("variadic", "template"))):
            self._parameter(n)

    def _parameter(self, n: int) -> None:
        dice, name = self.dice, f"p{n}"
        own = f"local_{self.number}_{n}"
        if dice.random() < 0.2:
            type, sign = dice.choice(REFERRED), dice.choice(["&", "const &", "&&"])
            written = {"&": f"{type} &", "&&": f"{type} &&", "const &": f"const {type} &"}[sign]
            self.declared.append(f"{written}{name}")
            self.before.append(f"{type} {own} = {literal(type, dice)};")
            self.given.append(f"std::move({own})" if sign == "&&" else own)
            through = type in SHOWN_THROUGH
            self.logged.append(
                f'log("{name}", {name});' if through else f'log.referred("{name}", {name});'
            )
            return
        type = dice.choice(TYPES)
        value = literal(type, dice)
        unread = type not in (*BY_ADDRESS, *IN_MEMORY) and dice.random() < 0.1
        self.declared.append(f"{type} {name}")
        if type == "std::nullptr_t" or unread or dice.random() < 0.4 or type in UNCOPIED:
            self.given.append(value)
        else:
            self.given.append(f"opaque<{type}>({value})")
        if unread:
            self.unread.append(f'unread("{name}", {value});')
        else:
            self.logged.append(f'log("{name}", {name});')

    def source(self) -> tuple[str, str]:
        """The function, and what calls it."""
        form, dice, name = self.form, self.dice, self.name
        formals, given = ", ".join(self.declared), ", ".join(self.given)
        logged = f"Own_{self.number}::run" if form == "lambda" else name
        log = [f'Log log("{logged}");']
        if form in METHODS:
            log.append('log.at("this", this);')
        log += self.logged
        type = dice.choice(("void", "int &", *TYPES, *TYPES))
        value = "" if type in ("void", "int &") else literal(type, dice)
        if form == "constructor":
            type = "void"
        if type == "void":
            log.append("log.nothing();")
        elif type == "int &":
            log.append("log.result_at(&numbers[2]); return numbers[2];")
        else:
            log.append(f"{type} r = {value}; log.result(r); return r;")
        body = "{\n\t" + "\n\t".join(log) + "\n}"
        arguments = f"({formals})"
        call = f"{name}({given});"
        if form in ("free", "static", "anonymous", "variadic"):
            function = f"NOINLINE {type} {name}({formals}{', ...' * (form == 'variadic')})\n{body}"
            function = f"static {function}" if form == "static" else function
            function = f"namespace {{ {function} }}" if form == "anonymous" else function
            call = f"{name}({given}, 1, 2.5);" if form == "variadic" else call
        elif form == "template":
            first = self.declared[0]
            kept, own = first.rsplit(" ", 1)
            declared = ", ".join([f"T {own}" if "&" not in first else first, *self.declared[1:]])
            function = f"template <class T> NOINLINE {type} {name}({declared})\n{body}"
            call = f"{name}<{kept if '&' not in first else 'int'}>({given});"
        elif form == "lambda":
            call = f"run_{self.number}();"
            return self._lambda(type, arguments, body, given), call
        else:
            function, call = self._method(type, arguments, body, given)
        return function, call

    def _lambda(self, type: str, arguments: str, body: str, given: str) -> str:
        before, number = " ".join(self.before), self.number
        self.before = []
        header = f"auto each = [n]{arguments} __attribute__((noinline)) -> {type}"
        return (
            f"struct Own_{number} {{ static void run() {{\n\t{before} int n = 7;\n"
            f"\t{header}\n{body};\n\t(void)n; each({given}); }} }};\n"
            f"static void run_{number}() {{ Own_{number}::run(); }}"
        )

    def _method(self, type: str, arguments: str, body: str, given: str) -> tuple[str, str]:
        name, form = self.name, self.form
        scope, object = f"Host_{self.number}", f"host_{self.number}"
        if form == "constructor":
            body = body.replace(f'Log log("{name}");', f'Log log("{name}"); v = 3;')
            ending = '{ Log log("~traced"); log.at("this", this); log.nothing(); }'
            function = (
                f"struct {name} {{ NOINLINE {name}{arguments}; NOINLINE ~{name}(); long v; }};\n"
                f"{name}::{name}{arguments}\n{body}\n{name}::~{name}()\n{ending}"
            )
            return function, f"{{ {name} {object}({given}); }}"
        after = {"const method": " const", "ref method": " &", "moved method": " &&"}.get(form, "")
        before = {"static method": "static ", "virtual": "virtual "}.get(form, "")
        own = "operator()" if form == "operator" else name
        if form == "operator":
            scope = f"traced_{self.number}"
        declared = f"{before}NOINLINE {type} {own}{arguments}{after};"
        defined = f"{type} {scope}::{own}{arguments}{after}\n{body}"
        function = f"struct {scope} {{ {declared} long v; }};\n{defined}"
        if form == "virtual":
            function = f"struct {scope} {{ {declared} virtual void other(); long v; }};\n{defined}"
            function += f"\nvoid {scope}::other() {{}}"
        target = f"std::move({object})" if form == "moved method" else object
        target = f"opaque(&{object})->" if form == "virtual" else f"{target}."
        call = f"{object}({given});" if form == "operator" else f"{target}{name}({given});"
        if form == "static method":
            return function, f"{scope}::{name}({given});"
        return function, f"{scope} {object}{{}}; {call}"


def source(seed: int, many: int) -> str:
    """A program that calls ``many`` functions, each of which logs its values."""
    dice = random.Random(seed)
    lines = ['#include "signatures.hh"']
    lines.append(
        "static Defaulted defaulted(int a, float b) { Defaulted d; d.a = a; d.b = b; return d; }"
    )
    calls = []
    for number in range(many):
        made = Made(number, dice)
        function, call = made.source()
        lines.append(function)
        reported = "".join(
            f"{{ Unread log; {statement.replace('unread(', 'log(')} }}" for statement in made.unread
        )
        calls.append(f"\t{{ {' '.join(made.before)} {reported} {call} }}")
    calls.sort(key=lambda _: dice.random())
    lines.append(
        "struct Unread { template <class T> void operator()(const char *name, const T &x) "
        '{ printf("{\\"unread\\": \\"%s\\", \\"value\\": ", name); show(x); printf("}\\n"); } };'
    )
    return "\n".join([*lines, "int main()\n{", *calls, "}\n"])


def leaves(value: Any) -> Iterator[Any]:
    """The numbers and texts in a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def differing(shown: Any, reported: Any) -> bool:  # noqa: PLR0911
    """Whether what is shown is wrong. What is null is unreadable."""
    if shown is None:
        return False
    if isinstance(reported, dict):
        if not isinstance(shown, dict) or (reported and not shown):
            return not (shown in ([], {}) and not reported)
        known = {k: v for k, v in shown.items() if not k.startswith("_vptr")}
        return list(known) != list(reported) or any(
            differing(known[k], reported[k]) for k in reported
        )
    if isinstance(reported, list) and isinstance(shown, dict):  # a tuple, or a smart pointer
        found = list(leaves(shown))
        return any(not any(not differing(each, own) for each in found) for own in reported)
    if isinstance(reported, list):
        return (
            not isinstance(shown, list)
            or len(shown) > len(reported)
            or any(differing(a, b) for a, b in zip(shown, reported, strict=False))
        )
    if isinstance(reported, float) and isinstance(shown, int | float):
        return not isclose(shown, reported, rel_tol=1e-6)
    if isinstance(reported, str) and isinstance(shown, str):
        return shown.split("(")[0] != reported
    return bool(shown != reported or isinstance(shown, bool) != isinstance(reported, bool))


def unreadable(argument: dict[str, Any]) -> str:
    reason = str(argument.get("unreadable"))
    return re.sub(r" (after|in) .*", "", reason)


def referred(shown: dict[str, Any], name: str, reported: dict[str, Any]) -> Any:
    """What the program says of a value: of a reference the address, unless that to which it leads
    is shown, as many members of it as are."""
    if f"&{name}" not in reported or str(shown["value"]).startswith("0x"):
        return reported[name]
    value = reported[f"&{name}"]
    if isinstance(value, dict) and shown.get("more"):
        return dict(list(value.items())[: len(shown["value"])])
    return value


def pointer_in(value: Any) -> Any:
    """What is shown of a value: of a ``std::unique_ptr`` its pointer."""
    if isinstance(value, dict):
        return {key: pointer_in(each) for key, each in value.items()}
    held = isinstance(value, list) and len(value) == 1 and str(value[0]).startswith("0x")
    return value[0] if held else value


def compare(
    calls: list[dict[str, Any]], truth: list[dict[str, Any]], counts: Counter[str]
) -> list[str]:
    """Counts the values of a run by what became of them, and returns the wrong ones."""
    wrong = []
    unread: dict[str, Any] = {}
    seen = iter(calls)
    for reported in truth:
        if "unread" in reported:
            unread[reported["unread"]] = reported["value"]
            continue
        call = next(seen)
        assert reported["name"] in call["name"], (call, reported)
        arguments = {a["name"]: a for a in call["args"]}
        result = {"value": call["result"], "unreadable": call.get("unreadable")}
        pairs = [(arguments.get(n), v, n) for n, v in reported["args"].items() if n[0] != "&"]
        pairs += [(arguments[n], v, n) for n, v in unread.items() if n in arguments]
        if reported["result"] is not None and call["end"] == "returned":
            pairs.append((result, reported["result"], "result"))
        unread = {}
        for shown, logged, name in pairs:
            counts["tried"] += 1
            if shown is None:
                counts["absent"] += 1
                continue
            value = referred(shown, name, {**reported["args"], name: logged})
            if shown["value"] is None:
                counts[f"unreadable: {unreadable(shown)}"] += 1
            elif value in FUNCTIONS and str(shown["value"]).startswith("0x"):
                counts["address"] += 1
            elif differing(shown["value"], pointer_in(value)):
                counts["wrong"] += 1
                wrong.append(f"{call['name']} {name}: {shown['value']!r}, but is {value!r}")
            else:
                counts["right"] += 1
    assert next(seen, None) is None
    return wrong


def build(seed: int, many: int, command: list[str], into: Path) -> Path:
    """The program of a seed."""
    text, program = into / "signatures.cc", into / "signatures"
    text.write_text(source(seed, many))
    options = ["-std=c++20", "-w", f"-I{PROGRAMS}", text, "-o", program]
    subprocess.run([*command, *options], check=True)
    return program


COMMANDS = (
    "g++ -g -O0",
    "g++ -g -O2",
    "clang++ -g -O0",
    "clang++ -g -O2",
    "clang++ -g -O1 -stdlib=libc++",
)
"""Those that every run of the tests tries; the next are for long ones."""

MORE = (
    *(f"g++ -g {o}" for o in ("-O1", "-O3", "-Os", "-O2 -flto", "-Og", "-O2 -gdwarf-4 -fno-plt")),
    *(f"clang++ -g {o}" for o in ("-O1", "-O3", "-Os", "-O2 -flto -fuse-ld=lld", "-gdwarf-4")),
    *(f"clang++ -g -stdlib=libc++ {o}" for o in ("-O0", "-O2", "-O3 -fno-plt")),
)


def run(
    words: list[str], program: Path, into: Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The calls that lbtrace sees, and what the program logs of them."""
    output = into / "out.jsonl"
    pattern = "/traced_[0-9]+|Own_[0-9]+::run.*lambda/"
    command = [
        *words,
        "attach",
        "--func",
        pattern,
        "--force",
        "--quiet",
        "-o",
        output,
        "--",
        program,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in output.read_text().splitlines()]
    return [c for c in seen if c["type"] == "call"], [
        json.loads(s) for s in done.stdout.splitlines()
    ]


@pytest.mark.host
@pytest.mark.parametrize(
    ("seed", "command"),
    [
        pytest.param(1, "g++ -g -O0", marks=pytest.mark.slow),
        (2, "clang++ -g -O2"),
        *(pytest.param(None, command, marks=pytest.mark.slow) for command in (*COMMANDS, *MORE)),
    ],
)
def test_random_signatures(
    tool: Callable[[str], str], tmp_path: Path, seed: int | None, command: str
) -> None:
    words = shlex.split(command)
    tool(words[0])
    many = 60 if seed is not None else 250
    seed = int(os.environ["LBTRACE_SEED"]) if seed is None else seed
    counts: Counter[str] = Counter()
    program = build(seed, many, words, tmp_path)
    wrong = compare(*run([sys.executable, "-m", "lbtrace"], program, tmp_path), counts)
    assert not wrong, f"seed {seed}, {command}: {wrong}"
    assert counts["right"] > 0.4 * counts["tried"], f"seed {seed}, {command}: {counts}"
    reasons = {name for name in counts if name.startswith("unreadable")}
    assert not reasons & {"unreadable: None", "unreadable: "}, f"seed {seed}, {command}"

"""Arguments and results of Go functions, compared with what the program passes."""

from __future__ import annotations

import calendar
import json
import os
import random
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

Compile = Callable[..., Path]
Lbtrace = Callable[..., "subprocess.CompletedProcess[str]"]
Traced = Callable[[Path, str], list[dict[str, Any]]]

EVERYDAY = ["1.15", "1.27.3"]
OTHERS = ["1.19", "1.21.13", "1.24.11", "1.25.5", "1.26.6"]
VERSIONS = [*EVERYDAY, *(pytest.param(v, marks=pytest.mark.slow) for v in OTHERS)]

SILENT = ("1.15", "1.19", "1.21.13")
"""Versions that declare no parameters without a name."""

INTEGERS = {
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    "int": (-(1 << 63), (1 << 63) - 1),
    "uint": (0, (1 << 64) - 1),
}

UNREADABLE = object()
TEXT = 64
"""Bytes of text that are shown."""


class Made(NamedTuple):
    """A value: its type, the Go expression for it, and what lbtrace should show."""

    type: str
    expression: str
    shown: Any


class Slice(NamedTuple):
    """What is to be shown of a slice."""

    elements: list[Any]


class Keyed(NamedTuple):
    """What is to be shown of a map."""

    held: dict[Any, Any]


class Held(NamedTuple):
    """What is to be shown of an ``interface{}``."""

    type: str
    value: Any


class Generator:
    """Writes a program that calls functions of random signatures, with up to ``most``
    parameters; that many ``unnamed`` ones in a hundred have no name."""

    def __init__(self, seed: int, most: int = 6, unnamed: int = 0) -> None:
        self._random = random.Random(seed)
        self._most, self._unnamed = most, unnamed
        self._types: list[str] = []
        self.source = ""
        self.calls: dict[str, tuple[list[Made], list[Made]]] = {}

    def write(self, functions: int) -> None:
        """Make the program's text, and ``calls``: arguments and results by name."""
        declared: list[str] = []
        body: list[str] = []
        for number in range(functions):
            name = f"f{number}"
            arguments = [self._value(2) for _ in range(self._random.randint(0, self._most))]
            named = list(range(len(arguments)))
            if self._unnamed:
                named = [n for n in named if self._random.randint(1, 100) > self._unnamed]
            chosen = [n for n in named if self._random.random() < 0.5]
            results = [arguments[n] for n in chosen]
            parameters = ", ".join(
                f"p{n} {a.type}" if n in named else f"_ {a.type}" for n, a in enumerate(arguments)
            )
            types = ", ".join(r.type for r in results)
            returned = ", ".join(f"p{n}" for n in chosen)
            declared.append(
                f"//go:noinline\nfunc {name}({parameters}) ({types}) {{ return {returned} }}\n"
            )
            body.append(f"\t{name}({', '.join(a.expression for a in arguments)})\n")
            self.calls[f"main.{name}"] = (arguments, results)
        self.source = "".join(
            [
                'package main\n\nimport "time"\n\nvar _ time.Time\n\n',
                *self._types,
                *declared,
                "\nfunc main() {\n",
                *body,
                "}\n",
            ]
        )

    def _value(self, depth: int) -> Made:
        kind = self._random.choice(
            ["integer"] * 4
            + ["bool", "string", "string", "float", "complex", "named", "time", "duration"]
            + ["struct", "array", "slice", "map", "any"] * (depth > 0)
        )
        made: Made = getattr(self, f"_{kind}")(depth)
        return made

    def _integer(self, _: int) -> Made:
        name = self._random.choice(list(INTEGERS))
        low, high = INTEGERS[name]
        value = self._random.choice([low, high, 0, 1, self._random.randint(low, high)])
        return Made(name, f"{name}({value})", value)

    def _bool(self, _: int) -> Made:
        value = self._random.random() < 0.5
        return Made("bool", str(value).lower(), value)

    def _string(self, _: int) -> Made:
        value = "".join(self._random.choices("abcé 0", k=self._random.choice([0, 3, 12, 99])))
        return Made("string", json.dumps(value, ensure_ascii=False), value)

    def _float(self, _: int) -> Made:
        name = self._random.choice(["float32", "float64"])
        value = self._random.randint(-99, 99) / 4
        return Made(name, f"{name}({value})", (UNREADABLE, value))

    def _complex(self, _: int) -> Made:
        name = self._random.choice(["complex64", "complex128"])
        parts = [self._random.randint(-99, 99) / 4 for _ in range(2)]
        shown = dict(zip(("real", "imag"), [(UNREADABLE, part) for part in parts], strict=True))
        return Made(name, f"{name}(complex({parts[0]}, {parts[1]}))", shown)

    def _time(self, _: int) -> Made:
        latest = calendar.timegm((9999, 12, 31, 23, 59, 59))
        earliest = calendar.timegm((1, 1, 1, 0, 0, 0))
        seconds = self._random.choice([earliest, latest, self._random.randint(earliest, latest)])
        fraction = self._random.choice([0, 500_000_000, self._random.randrange(10**9)])
        shown = f"{datetime(1970, 1, 1) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}".zfill(19)
        if fraction:
            shown += f".{fraction:09}".rstrip("0")
        return Made("time.Time", f"time.Unix({seconds}, {fraction})", f"{shown}Z")

    def _named(self, depth: int) -> Made:
        base = self._random.choice([self._integer, self._bool, self._string, self._float])(depth)
        name = f"N{len(self._types)}"
        self._types.append(f"type {name} {base.type}\n")
        return Made(name, f"{name}({base.expression})", base.shown)

    def _struct(self, depth: int) -> Made:
        name = f"T{len(self._types)}"
        self._types.append("")
        place = len(self._types) - 1
        fields = [self._value(depth - 1) for _ in range(self._random.randint(0, 4))]
        inside = "; ".join(f"F{n} {f.type}" for n, f in enumerate(fields))
        self._types[place] = f"type {name} struct {{ {inside} }}\n"
        expression = f"{name}{{{', '.join(f.expression for f in fields)}}}"
        return Made(name, expression, {f"F{n}": f.shown for n, f in enumerate(fields)})

    def _array(self, depth: int) -> Made:
        element = self._value(depth - 1)
        count = self._random.choice([1, 2])
        name = f"[{count}]{element.type}"
        expression = f"{name}{{{', '.join([element.expression] * count)}}}"
        return Made(name, expression, [element.shown] * count)

    def _slice(self, depth: int) -> Made:
        element = self._value(depth - 1)
        count = self._random.choice([0, 1, 2, 4, 9])
        name = f"[]{element.type}"
        expression = f"{name}{{{', '.join([element.expression] * count)}}}"
        return Made(name, expression, Slice([element.shown] * count))

    def _duration(self, _: int) -> Made:
        value = self._random.choice([0, 1, -1500, self._random.randint(-(1 << 63), (1 << 63) - 1)])
        return Made("time.Duration", f"time.Duration({value})", value)

    def _map(self, depth: int) -> Made:
        key = self._random.choice(["string", "int8", "uint64"])
        made = self._value(depth - 1)
        keys = [json.dumps(f"k{n}") if key == "string" else str(n) for n in range(9)]
        keys = keys[: self._random.choice([0, 1, 3, 9])]
        name = f"map[{key}]{made.type}"
        pairs = ", ".join(f"{each}: {made.expression}" for each in keys)
        held = {json.loads(each): made.shown for each in keys}
        return Made(name, f"{name}{{{pairs}}}", Keyed(held))

    def _any(self, depth: int) -> Made:
        if self._random.random() < 0.3:
            return Made("interface{}", "nil", "nil")
        held = self._random.choice([self._integer, self._bool, self._string, self._named])(depth)
        name = f"main.{held.type}" if held.type.startswith("N") else held.type
        return Made("interface{}", f"interface{{}}({held.expression})", Held(name, held.shown))


def agree(shown: Any, expected: Any) -> bool:  # noqa: PLR0911
    """Whether a value is as expected, or is (in part) said not to be readable."""
    if shown is None:
        return True
    if isinstance(expected, Slice):
        first = shown.get("", [])
        exact = {shown["len"], len(expected.elements)} - {None}
        if isinstance(first, str):  # bytes
            return len(exact) == 1
        return len(exact) == 1 and all(map(agree, first, expected.elements))
    if isinstance(expected, Held):
        value = shown.get("value")
        return shown["type"] in (expected.type, None) and agree(value, expected.value)
    if isinstance(expected, Keyed):
        if isinstance(shown, str):
            return shown.startswith("0x")  # for lack of slots
        held, pairs = expected.held, shown.get("", [])
        keys = [key for key, _ in pairs]
        right = all(agree(value, held[key]) for key, value in pairs if key is not None)
        return shown["len"] == len(held) and len({*keys}) == len(keys) and right
    if isinstance(expected, tuple):
        return bool(shown == expected[1])  # a float in memory
    if isinstance(expected, dict):
        if not any(map(bool, expected.values())) and shown == {}:
            return True  # nothing has a size
        return shown.keys() == expected.keys() and all(
            agree(shown[name], expected[name]) for name in expected
        )
    if isinstance(expected, list):
        return len(shown) <= len(expected) and all(map(agree, shown, expected))
    if isinstance(expected, str) and isinstance(shown, str) and len(expected.encode()) > TEXT:
        return expected.startswith(shown) and len(shown.encode()) > TEXT - len("é".encode())
    return bool(shown == expected and type(shown) is type(expected))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_random_signatures(
    traced: Traced,
    go: ModuleType,
    go_made: Callable[[str], Path | None],
    tmp_path: Path,
    version: str,
    seed: int,
) -> None:
    """Seed 0 stands for that of the commit."""
    generator = Generator(seed or int(os.environ["LBTRACE_SEED"]))
    generator.write(200)
    program = go_made(f"signatures-{version}-{seed}")
    if program is None:
        source = tmp_path / "signatures.go"
        source.write_text(generator.source)
        program = go.build(version, source, tmp_path / "signatures")
    calls = traced(program, "main.f*")
    assert {call["name"] for call in calls} == set(generator.calls)
    readable = whole = 0
    for call in calls:
        arguments, results = generator.calls[call["name"]]
        # Go 1.15 lists those without a size in another order.
        given = sorted(call["args"], key=lambda argument: str(argument["name"]))
        reasons: tuple[str, ...] = ("too many values", "float in", "unused, lost")
        if version in SILENT:  # there may be others for all that is known
            given = [a for a in given if a["name"]]
            reasons += ("?",)
        assert [a["name"] for a in given] == [f"p{n}" for n in range(len(arguments))]
        for shown, made in zip(given, arguments, strict=True):
            assert agree(shown["value"], made.shown), (call, made)
            readable += shown["value"] is not None
            whole += 1
            if shown["value"] is None and made.shown is not None:
                assert shown["unreadable"].startswith(reasons), call
        if len(results) == 1:
            assert agree(call["result"], results[0].shown), (call, results)
        elif results and call["result"] is not None:
            expected = [r.shown for r in results]
            assert agree(call["result"], expected), (call, results)
    assert readable > 0.6 * whole


@pytest.mark.parametrize("seed", [1, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("flags", [(), ("-gcflags=-N -l",)], ids=["O", "N"])
@pytest.mark.parametrize(
    "version", ["1.15", pytest.param("1.19", marks=pytest.mark.slow), "1.27.3"]
)
def test_parameters_without_names(
    traced: Traced,
    go: ModuleType,
    tmp_path: Path,
    version: str,
    flags: tuple[str, ...],
    seed: int,
) -> None:
    """Old compilers do not declare them: those after them are elsewhere."""
    generator = Generator(seed or int(os.environ["LBTRACE_SEED"]), most=14, unnamed=20)
    generator.write(150)
    source = tmp_path / "unnamed.go"
    source.write_text(generator.source)
    calls = traced(go.build(version, source, tmp_path / "unnamed", flags), "main.f*")
    assert {call["name"] for call in calls} == set(generator.calls)
    readable = whole = 0
    for call in calls:
        arguments, results = generator.calls[call["name"]]
        for shown in call["args"]:
            if shown["name"]:
                made = arguments[int(shown["name"][1:])]
                assert agree(shown["value"], made.shown), (call, shown, made)
                readable += shown["value"] is not None
            whole += 1
        if len(results) == 1:
            assert agree(call["result"], results[0].shown), (call, results)
        elif results and call["result"] is not None:
            assert agree(call["result"], [r.shown for r in results]), (call, results)
    assert readable > (0.1 if version == "1.15" else 0.2) * whole


EXPECTED: dict[str, list[tuple[list[Any], Any]]] = {
    "main.small": [([-1, 255, -300, 65535, -70000, 4000000000], 3999995489)],
    "main.truth": [([True, False], True)],
    "main.text": [(["héllo", 7], "héllo7")],
    "main.point": [([{"X": -3, "Y": 4}, -5], {"X": 4, "Y": -8})],
    "main.big": [([{"W": [1, 2, 3, 4]}, 99], [{"W": [99, 2, 3, 4]}, 4])],
    "main.maps": [([{"len": 2, "": [["a", 1], ["b", 2]]}, {"len": 1}], 21)],
    "main.named": [([3], {"sum": 4, "ok": True})],
    "main.several": [
        ([1], [1, "small", "nil"]),
        ([2], [2, "big", {"type": "*errors.errorString", "message": "too big"}]),
    ],
    "main.slice": [
        ([{"len": 3, "cap": 3, "": [1, 2, 3]}, {"len": 1, "cap": 1, "": ["a"]}], 31),
    ],
    "main.texts": [
        (
            [{"len": 4, "cap": 4, "": ["set", ""]}, {"len": 0, "cap": 0, "": []}, 3],
            [{"len": 3, "cap": 3, "": ["", "octi", "fest"]}, 3],
        ),
        (
            [{"len": 1, "cap": 1, "": ["get"]}, {"len": 2, "cap": 2, "": ["a", "b"]}, 4],
            [{"len": 0, "cap": 0, "": []}, 6],
        ),
    ],
    "main.pairs": [
        (
            [
                {"len": 2, "cap": 2, "": [{"Key": "k", "N": 7}]},
                {"len": 1, "cap": 1, "": ["nil"]},
            ],
            21,
        )
    ],
    "main.Point.Sum": [([{"X": 4, "Y": 6}, 5], 15)],
}
"""Arguments and results of calls in types.go."""


@pytest.mark.parametrize("version", VERSIONS)
def test_kinds_of_values(go_program: Compile, traced: Traced, version: str) -> None:
    program = go_program("types", version)
    calls = traced(program, "main.*")
    for name, expected in EXPECTED.items():
        found = [([a["value"] for a in c["args"]], c["result"]) for c in calls if c["name"] == name]
        assert found == expected
    (blank,) = (c for c in calls if c["name"] == "main.blank")
    assert [a["value"] for a in blank["args"] if a["name"] == "b"] == [2]
    faces = [[a["value"] for a in c["args"]] for c in calls if c["name"] == "main.face"]
    assert [v["type"] for v, _ in faces] == ["int", "string"]
    assert [e for _, e in faces] == ["nil", {"type": "*errors.errorString", "message": "bad"}]
    (move,) = (c for c in calls if c["name"] == "main.(*Point).Move")
    assert [a["value"] for a in move["args"][1:]] == [3, 4]
    assert move["result"] == 10
    (floats,) = (c for c in calls if c["name"] == "main.floats")
    assert [a["value"] for a in floats["args"]][1::2] == [-4, 9]
    if version == "1.15":  # all in memory
        assert [a["value"] for a in floats["args"]][::2] == [1.5, 2.5]
        assert floats["result"] == 9
    else:
        register = "v0" if os.uname().machine == "aarch64" else "xmm0"
        assert floats["args"][0]["unreadable"] == f"float in {register}"
        assert floats["unreadable"] == f"float in {register}"


@pytest.mark.parametrize("version", VERSIONS)
def test_expressions_and_filters(
    go_program: Compile, lbtrace: Lbtrace, tmp_path: Path, version: str
) -> None:
    output = tmp_path / "out.jsonl"
    words = ("--strict", "--quiet", "--force", "-o", output)
    fib = go_program("fib", version)
    done = lbtrace("attach", "--func", "main.fib", "--where", "n > 2", *words, "--", fib, 6)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in output.read_text().splitlines()]
    given = sorted(r["args"][0]["value"] for r in records if r["type"] == "call")
    assert given == [3, 3, 3, 4, 4, 5, 6]
    kinds = go_program("types", version)
    asked = ("--arg", "m.S", "--arg", "last", "--arg", "m.A")
    done = lbtrace("attach", "--func", "main.mixed", *asked, *words, "--", kinds)
    assert done.returncode == 0, done.stderr
    (call,) = (r for r in map(json.loads, output.read_text().splitlines()) if r["type"] == "call")
    assert [a["value"] for a in call["args"]] == ["abc", 42, -7]
    for inside in "m[1]", "*(m + 1)":  # of a map, which is no array
        done = lbtrace("attach", "--func", "main.maps", "--arg", inside, "--", kinds)
        assert "this is map[string]int: its elements cannot be named" in done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_expressions_show_values_of_go(
    go_program: Compile, lbtrace: Lbtrace, tmp_path: Path, version: str
) -> None:
    output, kinds = tmp_path / "out.jsonl", go_program("types", version)
    shown: list[list[Any]] = []
    for function, *asked in (("face", "e"), ("maps", "m", "c"), ("slice", "v"), ("several", "n")):
        words = [word for expression in asked for word in ("--arg", expression)]
        options = ("--strict", "--quiet", "--force", "-o", output, "--", kinds)
        done = lbtrace("attach", "--func", f"main.{function}", *words, *options)
        assert done.returncode == 0, done.stderr
        for call in map(json.loads, output.read_text().splitlines()):
            if call["type"] == "call":
                shown.append([*(a["value"] for a in call["args"]), call["result"]])
    assert shown == [
        ["nil", 0],
        [{"type": "*errors.errorString", "message": "bad"}, 1],
        [{"len": 2, "": [["a", 1], ["b", 2]]}, {"len": 1}, 21],
        [{"len": 3, "cap": 3, "": [1, 2, 3]}, 31],
        [1, [1, "small", "nil"]],
        [2, [2, "big", {"type": "*errors.errorString", "message": "too big"}]],
    ]


@pytest.mark.parametrize("version", ["1.27.3", pytest.param("1.19", marks=pytest.mark.slow)])
def test_generic_functions_closures_and_methods(
    go_program: Compile, traced: Traced, version: str
) -> None:
    calls = traced(go_program("generic", version), "main.*")
    shown: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    for call in calls:
        # The shapes of type arguments are numbered in some versions.
        name = re.sub(r"\[.*\]", "[...]", call["name"])
        named = {a["name"]: a["value"] for a in call["args"] if a["name"]}
        shown.setdefault(name, []).append((named, call["result"]))
    assert shown["main.main.func1"] == [({"x": n}, str(n + 3)) for n in (1, 2, 3)]
    assert [result for _, result in shown["main.main.func2"]] == [1, 2]
    maps = shown["main.Map[...]"]
    assert [given["v"][""] for given, _ in maps] == [[1, 2, 3], [1.0, 2.0]]
    assert [(result["len"], result.get("")) for _, result in maps] == [
        (3, ["4", "5", "6"]),
        (2, [1, 2]),
    ]
    pushes = shown["main.(*Stack[...]).Push"]
    assert {(given["x"], result) for given, result in pushes} == {("a", 1), ("b", 2), ("c", 3)}
    incomplete = {c["name"] for c in calls if "…" in [a.get("unreadable") for a in c["args"]]}
    assert version < "1.22" or not incomplete  # all parameters are declared
    assert shown["main.Sq.Area"] == [({"s": {"a": 4}, "scale": 2}, 32)]


INTERFACES = """package main

import (
	"errors"
	"fmt"
	"os"
)

type point struct{ X, Y int }
type named string
type byteLike uint8
type failure struct {
	Code int
	Op   string
	In   error
}
type plain struct{ Why string }
type worded string

func (f *failure) Error() string { return f.Op }
func (p plain) Error() string    { return p.Why }
func (w worded) Error() string   { return string(w) }

//go:noinline
func fail(k int) error {
	switch k {
	case 0:
		return &failure{3, "read", worded("why")}
	case 1:
		return plain{"simple"}
	case 2:
		return worded("text")
	case 3:
		return (*failure)(nil)
	}
	_, err := os.Open("/nope")
	return err
}

type inner struct {
	Name  string
	Tags  []string
	Any   interface{}
	Err   error
	Count map[string]int
}

//go:noinline
func anys(xs []interface{}) int { return len(xs) }

//go:noinline
func errs(xs []error) int { return len(xs) }

//go:noinline
func behind(p *inner) int { return len(p.Tags) }

//go:noinline
func slice(p *[]string, m *map[string]int) int { return len(*p) + len(*m) }

//go:noinline
func voids(v []struct{}, w [3]struct{}, x []func()) int { return len(v) + len(w) + len(x) }

func main() {
	voids(make([]struct{}, 2), [3]struct{}{}, make([]func(), 4))
	anys([]interface{}{"hi", 5, true})
	anys([]interface{}{nil, -7, 2.5, "more"})
	anys([]interface{}{named("named"), byteLike(200), point{3, 4}})
	anys(nil)
	errs([]error{errors.New("first"), nil, os.ErrNotExist})
	count := map[string]int{"k": 1}
	behind(&inner{"n", []string{"a", "b"}, 5, errors.New("bad"), count})
	tags := []string{"x"}
	slice(&tags, &count)
	fmt.Println("hello", 42, &tags == nil)
	for k := 0; k < 5; k++ {
		fmt.Printf("%T\\n", fail(k))
	}
}
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_what_interfaces_and_pointers_lead_to(
    go: ModuleType,
    go_made: Callable[[str], Path | None],
    lbtrace: Lbtrace,
    tmp_path: Path,
    version: str,
) -> None:
    program = go_made(f"interfaces-{version}")
    if program is None:
        source = tmp_path / "interfaces.go"
        source.write_text(INTERFACES)
        program = go.build(version, source, tmp_path / "interfaces")
    words = ("--func", "main.*", "--func", "fmt.Fprintln", "--depth", 1, "--format", "jsonl")
    done = lbtrace("attach", *words, "--quiet", "--", program)
    assert done.returncode == 0, done.stderr
    records = [json.loads(s) for s in done.stdout.splitlines() if s.startswith("{")]
    calls = [(r["name"], [a["value"] for a in r["args"]]) for r in records if r["type"] == "call"]

    def elements(name: str) -> list[Any]:
        return [values[0][""] for own, values in calls if own == name]

    def held(type: str, value: Any) -> dict[str, Any]:
        return {"type": type, "value": value}

    first, second, third, none = elements("main.anys")
    assert first == [held("string", "hi"), held("int", 5), held("bool", True)]
    assert second == ["nil", held("int", -7), held("float64", 2.5)]
    assert third[:2] == [held("main.named", "named"), held("main.byteLike", 200)]
    assert (third[2]["type"], third[2]["data"][:2]) == ("main.point", "0x")
    assert none == []
    ((one, two, three),) = elements("main.errs")
    assert (one["message"], two, three["message"]) == ("first", "nil", "file does not exist")
    (reported,) = (values[1][""] for own, values in calls if own == "fmt.Fprintln")
    assert reported == [held("string", "hello"), held("int", 42)]
    (inner,) = (values[0] for own, values in calls if own == "main.behind")
    assert (inner["Name"], inner["Tags"]["len"], inner["Count"]) == ("n", 2, {"len": 1})
    assert inner["Any"]["type"] == "int"
    assert inner["Err"] == {"type": "*errors.errorString", "message": "bad"}
    (pair,) = (values for own, values in calls if own == "main.slice")
    assert pair == [{"len": 1, "cap": 1, "": ["x"]}, {"len": 1, "": [["k", 1]]}]
    (record,) = (r for r in records if r.get("name") == "main.voids")
    slices = [argument["value"] for argument in record["args"]]
    assert slices[:2] == [{"len": 2, "cap": 2, "": []}, [{}, {}, {}]]
    assert record["args"][0]["parts"] == {"/": {"length": 2}}
    assert len(slices[2][""]) == 4
    types = [line for line in done.stdout.splitlines() if re.fullmatch(r"\*?\w+\.\w+", line)]
    number = {"type": "syscall.Errno", "value": 2, "name": "ENOENT"}
    assert [r["result"] for r in records if r.get("name") == "main.fail"] == [
        held(types[0], {"Code": 3, "Op": "read", "In": held("main.worded", "why")}),
        held(types[1], {"Why": "simple"}),
        held(types[2], "text"),
        held(types[3], "nil"),
        held(types[4], {"Op": "open", "Path": "/nope", "Err": number}),
    ]

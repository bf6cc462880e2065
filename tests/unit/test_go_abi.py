"""Go's calling conventions, by the examples of its own specification."""

from __future__ import annotations

from lbtrace.abi import go as go_abi
from lbtrace.fetch import go_call_values
from lbtrace.model import Fetch, Formal, Integer, Pointer, Prototype, Record, Scalar, String

AMD64 = go_abi.REGISTERS_X86_64
ARM64 = go_abi.REGISTERS_AARCH64
STACK = go_abi.STACK_X86_64


def number(name: str, size: int, kind: str = "integer") -> Formal:
    scalar = Scalar(0, size, kind)  # type: ignore[arg-type]
    return Formal(name, Integer(f"int{8 * size}", size, True), size, (scalar,), alignment=size)


def words(name: str, count: int) -> Formal:
    scalars = tuple(Scalar(8 * n, 8, "integer") for n in range(count))
    return Formal(name, Record(name, 8 * count), 8 * count, scalars)


def array(name: str, size: int, alignment: int) -> Formal:
    return Formal(name, Record(name, size), size, None, alignment=alignment)


def lying(places: list[go_abi.Assignment]) -> list[tuple[str, ...] | int]:
    return [p.registers or p.offset for p in places]


def test_the_example_of_the_specification() -> None:
    """func f(a1 uint8, a2 [2]uintptr, a3 uint8) (r1 struct{x uintptr; y [2]uintptr}, r2 string),
    "Register assignment", whose registers R0, R1 … are ax, bx …"""
    parameters = [number("a1", 1), array("a2", 16, 8), number("a3", 1)]
    results = [array("r1", 24, 8), words("r2", 2)]
    given, returned = go_abi.assign(parameters, results, AMD64)
    # The stack: a2 at 0, r1.x at 16, r1.y at 24, after the return address.
    assert lying(given) == [("ax",), 8, ("bx",)]
    assert lying(returned) == [24, ("ax", "bx")]


def test_what_does_not_fit_goes_to_the_stack_whole() -> None:
    parameters = [words("a", 8), words("s", 2), number("b", 4), number("c", 8), number("d", 2)]
    given, returned = go_abi.assign(parameters, [number("r", 8)], AMD64)
    # Eight registers are taken, two are wanted; the ninth goes to what needs but one.
    assert lying(given)[1:] == [8, ("r11",), 24, 32]
    assert lying(returned) == [("ax",)]


def test_floats_have_registers_of_their_own() -> None:
    parameters = [number("x", 8, "float"), number("n", 8), number("y", 4, "float")]
    given, _ = go_abi.assign(parameters, [], AMD64)
    assert lying(given) == [("xmm0!",), ("ax",), ("xmm1!",)]
    many = [number(f"x{n}", 8, "float") for n in range(16)]
    assert lying(go_abi.assign(many, [], AMD64)[0])[14:] == [("xmm14!",), 8]
    assert lying(go_abi.assign(many, [], ARM64)[0])[14:] == [("v14!",), ("v15!",)]


def test_values_of_no_size_take_nothing() -> None:
    empty = Formal("e", Record("E", 0), 0, (), alignment=1)
    given, _ = go_abi.assign([empty, number("n", 8)], [], AMD64)
    assert given[1].registers == ("ax",)
    given, _ = go_abi.assign([number("a", 1), empty, number("n", 8)], [], STACK)
    assert [p.offset for p in given] == [8, 9, 16]


def test_on_the_stack_all_is_aligned_and_results_follow() -> None:
    """func f(a int8, b int16, c int32, d int64, e int8) (int8, int64), before 1.17."""
    sizes = (1, 2, 4, 8, 1)
    parameters = [number(f"p{n}", size) for n, size in enumerate(sizes)]
    given, returned = go_abi.assign(parameters, [number("r", 1), number("s", 8)], STACK)
    assert lying(given) == [8, 10, 12, 16, 24]
    assert lying(returned) == [32, 40]


def test_each_field_has_its_own_register() -> None:
    fields = (Scalar(0, 1, "integer"), Scalar(1, 1, "integer"), Scalar(8, 8, "integer"))
    formal = Formal("s", Record("S", 16), 16, fields)
    assert lying(go_abi.assign([formal], [], ARM64)[0]) == [("x0", "x1", "x2")]


def test_debug_information_corrects_what_it_left_out() -> None:
    """func f(_ int, b int), of which old compilers declare b alone."""
    b = number("b", 8)
    assert go_call_values.plan_values(Prototype((b,)), AMD64, 6).fetches[0].register == "ax"
    reported = Prototype((b,), located=((3,),))
    assert go_call_values.plan_values(reported, AMD64, 6).fetches[0].register == "bx"
    shifted = Prototype((b, number("c", 8)), located=(8, None))
    assert [f.offset for f in go_call_values.plan_values(shifted, STACK, 6).fetches] == [16, 24]


def test_a_string_is_fetched_by_its_length() -> None:
    text = Formal("s", String("string", 16, 0, 8), 16, words("", 2).scalars)
    planned = go_call_values.plan_values(Prototype((number("n", 8), text)), AMD64, 6)
    value = planned.parameters[1]
    start = planned.fetches[value.slot]
    assert (start.register, start.read) == ("bx", "bytes")
    assert planned.fetches[start.length_from].register == "cx"


def test_several_results_are_a_record() -> None:
    pointer = Formal("", Pointer("*T"), 8, words("", 1).scalars)
    prototype = Prototype((), None, (number("", 8), pointer))
    planned = go_call_values.plan_values(prototype, AMD64, 6)
    assert planned.result is not None
    assert [m.slot for m in planned.result.members] == [0, 1]
    assert [f.register for f in planned.result_fetches] == ["ax", "bx"]
    places = AMD64.places(prototype)
    assert places.returned is not None
    assert [m.name for m in getattr(places.returned.type, "members", ())] == ["r0", "r1"]
    assert len(places.result.words) == 2


def test_small_members_are_found_in_registers_of_their_own() -> None:
    """func f(p struct{X, Y int32; S string}) (struct{X, Y int32}, error)"""
    fields = (Scalar(0, 4, "integer"), Scalar(4, 4, "integer"))
    point = Formal("p", Record("Point", 8), 8, fields, alignment=4)
    prototype = Prototype((point,), None, (point, words("", 2)))
    found = AMD64.places(prototype)
    (place,) = found.parameters
    assert [place.inside(at).word() for at in (0, 4)] == [
        (Fetch(register="ax"), 0),
        (Fetch(register="bx"), 0),
    ]
    registers = [found.result.word(at) for at in (0, 4, 8, 16)]
    assert registers == [(Fetch(register=name), 0) for name in ("ax", "bx", "cx", "di")]

"""Expressions about values as wholes: states with names, members of tuples, properties, types that
are only declared, and what to write where a value cannot be compared."""

from __future__ import annotations

import pytest

from lbtrace.abi.locations import Detail
from lbtrace.abi.sysv_x86_64 import places
from lbtrace.errors import UsageError
from lbtrace.expressions import compile, syntax
from lbtrace.expressions.operands import Names
from lbtrace.expressions.tokens import tokens
from lbtrace.expressions.tree import Request
from lbtrace.machine.x86_64.registers import REGISTERS
from lbtrace.model import (
    LONG,
    Array,
    Boolean,
    Character,
    Enumeration,
    Formal,
    Integer,
    Member,
    Pointer,
    Prototype,
    Record,
    Scalar,
    Type,
)
from lbtrace.values.float import Float
from lbtrace.values.opaque import DECLARED, Opaque
from lbtrace.values.optional import Optional
from lbtrace.values.string import String
from lbtrace.values.variants import Case, Variants
from lbtrace.values.vector import Vector

INT, WIDE = Integer("int", 4, True), Integer("__int128", 16, True)
BOOL, TAG = Boolean("bool", 1), Integer("u32", 4, False)
TEXT = String("std::string", 32, 0, 8)
WITHIN = String("std::string", 24, 16, 8, short=True)
MODE = Enumeration("Mode", 4, signed=False)
MAYBE = Optional("optional<int>", 8, INT, Member("has_value", BOOL, 4))
HELD = Record("Some", 8, (Member("__0", INT, 4),))
CASES = (Case("None", (0,), Record("None", 8)), Case("Some", (1,), HELD))
OPTION = Variants("Option<i32>", 8, Member("", TAG, 0), CASES)
INNER = Record("(i64,)", 8, (Member("__0", LONG, 0),))
PAIR = Record("(i32, (i64,))", 16, (Member("__0", INT, 0), Member("__1", INNER, 8)))
VECTOR = Vector("vector<int>", 24, INT, 4, 0, end=8)
UNKNOWN = Opaque("Thing", DECLARED)
CHARS = Pointer("char *", 8, Character("char", 1, True))
HOLDER = Record("Holder", 72, (
    Member("o", MAYBE, 0), Member("r", OPTION, 8), Member("t", PAIR, 16), Member("v", VECTOR, 32),
    Member("d", UNKNOWN, 56), Member("x", Float("double", 8), 56), Member("b", BOOL, 64),
    Member("w", WITHIN, 32), Member("m", MODE, 64),
    Member("a", Array("int[2]", 8, INT, 2), 64),
))  # fmt: skip


def formal(name: str, type: Type) -> Formal:
    return Formal(name, type, 8, (Scalar(0, 8, "integer"),))


PROTOTYPE = Prototype(
    (
        formal("h", Pointer("Holder *", 8, HOLDER)),
        formal("d", Pointer("Thing *", 8, UNKNOWN)),
        formal("ref", Pointer("Thing &", 8, UNKNOWN, single=True)),
        formal("s", Pointer("std::string *", 8, TEXT)),
        formal("c", CHARS),
        Formal("w", WIDE, 16, (Scalar(0, 8, "integer"), Scalar(8, 8, "integer"))),
    ),
    None,
)


def bound(*arguments: str, where: str = ""):
    wanted = tuple(map(syntax.argument, arguments))
    request = Request(wanted, syntax.condition(where) if where else None, where)
    shown, bounds = range(len(PROTOTYPE.parameters)), compile.Bounds(16, Detail(0, 64))
    return compile.bind(request, PROTOTYPE, places(PROTOTYPE), shown, Names(REGISTERS), bounds)


@pytest.mark.parametrize(
    ("where", "offset", "operator", "operand"),
    [
        ("h->o == nullopt", 4, "==", 0),
        ("std::nullopt != h->o", 4, "!=", 0),
        ("not h->o == nullopt", 4, "!=", 0),
        ("h->o.has_value()", 4, "!=", 0),
        ("h->r == None", 8, "==", 0),
        ("h->t.0 == 3", 16, "==", 3),
        ("h->t.1.0 == 3", 24, "==", 3),
        ("h->t . 1 . 0 == 3", 24, "==", 3),
        ("h.t.__1.__0 == 3", 24, "==", 3),
    ],
)
def test_parts_that_are_compared(where, offset, operator, operand):
    made = bound(where=where)
    (condition,) = made.conditions
    assert (condition.operator, condition.operand) == (operator, operand)
    assert made.fetches[condition.slot].offset == offset


def test_decimals_without_a_digit_before_them():
    one, other = (bound(where=f"h->x > {number}").conditions for number in (".5", "0.5"))
    assert one == other == bound(where="(double)h->x > .5").conditions
    assert [token.text for token in tokens("a[1].5 - .5")][4:] == [".", "__5", "-", ".5", ""]


@pytest.mark.parametrize(
    ("where", "at", "what", "hint"),
    [
        ("h->o == 3", 3, "this is optional<int>", "compared: h->o == nullopt, h->o.has_value"),
        ("h->o < nullopt", 7, "nullopt is not known", "by == and != with nullopt"),
        ("h->r == 3", 3, "this is Option<i32>", "what can be compared: h->r == None"),
        ("h->r == Any", 8, "Any is not known", "by == and != with None, Some"),
        ("h->v[-1] == 3", 4, "an index counts from the first", "[0] is the first"),
        ("len(h->x) == 3", 0, "its length is not known", "len() takes strings"),
        ("h->t() == 3", 3, "methods cannot be called", "name a member of it: o, r, t"),
        ("h->t(1) == 3", 3, "methods cannot be called", "name a member: node->key"),
        (
            "h->w.size() == 3",
            5,
            "has no members",
            'compare it with text: h->w == "abc"',
        ),
        ("h->m == ON", 8, "ON is not known", "no constants of Mode: write the number"),
        ("h->b == yes", 8, "yes is not known", "write true or false"),
        ("h->a[0] == ONE", 11, "ONE is not known", "other constants are written as numbers"),
        ("h->x == NAN", 8, "NAN is not known", "write a number: 1.5"),
        ("(int)h->x == 1", 0, "floats cannot be converted", "leave the cast out: x > 1.5"),
        ("(double)h->a[0] == 1", 0, "converted to floats", "with a whole number: n > 2"),
        ("h->t.2 == 3", 5, "(i32, (i64,)) has no member 2", "there are 0, 1"),
        ("h->t.1.7 == 3", 7, "(i64,) has no member 7", "there is 0"),
        ("h->q == 3", 3, "Holder has no member q", "there are o, r, t"),
        ('str(h->t) == "a"', 7, "an address is expected, this is (i32, (i64,))", "or a member"),
        ('str(h->v) == "a"', 7, "an address is expected, this is vector", 'arg=["h->v"] shows it'),
        ('str(h->b) == "a"', 7, "an address is expected, this is bool", "number of eight bytes"),
        ("w == 1", 0, "__int128 is too wide", "take its lower half: (long)w"),
        ("c == 'a'", 5, "this is a character, and char * is", "write c[0]"),
        ("c.len == 1", 2, "char *, which has no members", 'compare it with text: c == "abc"'),
        ('str(s, 3) == "abc"', 4, "a length of its own", "leave the length out: str(s)"),
        ('str(c, -1) == "abc"', 7, "a length from 1", "write str(c, 64)"),
        ('buf(c, 9999) == "abc"', 7, "a length from 1", "write buf(c, 64)"),
        ("h->b == Of<int, A<b> >::ONE", 10, "arguments of a template", "write Of::ONE"),
        ("retval == 1", 0, "it returns nothing", "name an argument, or duration"),
        ("retval > 1.5", 0, "it returns nothing", "name an argument, or duration"),
    ],
)
def test_what_to_write_instead(where, at, what, hint):
    with pytest.raises(UsageError) as caught:
        bound(where=where)
    assert what in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.detail.splitlines()[1].index("^") == at + 2


@pytest.mark.parametrize("where", ["n<3 and p>::RED", "n<h and p>::RED"])
def test_comparisons_are_no_templates(where):
    syntax.condition(where)


@pytest.mark.parametrize(
    "where",
    [
        *('str(d) == "a"', 'str(ref) == "a"', 'd == "a"', 'ref == "a"', '*d == "a"', "ref == 1"),
        *("ref.x == 1", "d->x == 1", "d[1] == 1", "d + 1 == d", "d > 1.5", "h->d == 1"),
        *('h->d == "a"', 'str(h->d) == "a"', "h->d.x == 1", "*h->d == 1", 'str(d, 2) == "a"'),
    ],
)
def test_what_is_only_declared_is_refused(where):
    with pytest.raises(UsageError, match="Thing is only declared in the debug information") as why:
        bound(where=where)
    assert why.value.hint.startswith(
        "build what defines it with -g, by clang with -fstandalone-debug"
    )


def test_addresses_of_what_is_only_declared_are_known():
    assert len(bound(where="d == NULL and d == s").conditions) == 2
    made = bound("d", "ref", "buf(d, 4)")
    assert all(value.slot >= 0 for value in made.parameters)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("c as long", "a cast stands before its value: (long)n"),
        ("c plus 1", "values are computed as in C, by + - * / % & | ^ ~ << >>: n * 2 + 1"),
    ],
)
def test_what_is_no_value_to_show(expression, hint):
    with pytest.raises(UsageError) as caught:
        bound(expression)
    assert caught.value.hint == hint


def test_the_sum_of_a_pointer_takes_what_it_leads_to():
    request = Request((syntax.argument("h + 1"),))
    assert compile.depth(request) == 1

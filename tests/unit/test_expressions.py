"""Expressions: what they parse to, where their parts lie, what the kernel is asked."""

from __future__ import annotations

import pytest

from lbtrace.abi.locations import Detail
from lbtrace.abi.sysv_x86_64 import places
from lbtrace.errors import UsageError
from lbtrace.expressions import compile, conversions, syntax
from lbtrace.expressions.operands import Names
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
    Opaque,
    Pointer,
    Prototype,
    Record,
    Scalar,
    Type,
)
from lbtrace.plan.value_selection import parse

INT = Integer("int", 4, True)
CHAR = Character("char", 1, True)
COLOR = Enumeration("enum color", 4, False, ((0, "RED"), (5, "BLUE")))
INNER = Record("struct inner", 8, (Member("low", INT, 0), Member("high", INT, 4)))
NODE = Record(
    "struct node",
    48,
    (
        Member("key", LONG, 0),
        Member(
            "next",
            Pointer("struct node *", 8, Record("struct node", 48, (Member("key", LONG, 0),))),
            8,
        ),
        Member("name", Array("char[16]", 16, CHAR, 16), 16),
        Member("inner", INNER, 32),
        Member("flag", Integer("unsigned", 4, False), 40, 3, 2),
    ),
)


def formal(name: str, type: Type, size: int = 8) -> Formal:
    return Formal(name, type, size, (Scalar(0, size, "integer"),))


PROTOTYPE = Prototype(
    (
        formal("node", Pointer("struct node *", 8, NODE)),
        formal("n", INT, 4),
        formal("text", Pointer("const char *", 8, CHAR)),
        formal("color", COLOR, 4),
        formal("yes", Boolean("bool", 1), 1),
        Formal("ratio", Opaque("double"), 8, (Scalar(0, 8, "float"),)),
        formal("size", Integer("size_t", 8, False)),
    ),
    formal("", INT, 4),
)


def bound(*arguments: str, where: str = ""):
    request = Request(
        tuple(map(syntax.argument, arguments)), syntax.condition(where) if where else None, where
    )
    return compile.bind(
        request,
        PROTOTYPE,
        places(PROTOTYPE),
        range(len(PROTOTYPE.parameters)),
        Names(REGISTERS),
        compile.Bounds(16, Detail(0, 64)),
    )


@pytest.mark.parametrize(
    ("expression", "at", "part"),
    [
        ("", 0, "a value is missing at the end"),
        ("arg0 +", 6, "a value is missing at the end"),
        ("node-", 5, "a value is missing at the end"),
        ("arg0 @ 3", 5, "'@' means nothing"),
        ('str("', 4, "a string without end"),
        ("strlen(arg0)", 0, "strlen() is not known"),
        ("buf(arg0)", 8, "a length"),
        ("arg9", 0, "no argument 9"),
        ("m", 0, "m is not known"),
        ("node->kay", 6, "no member kay"),
        ("n.x", 2, "no members"),
        ("*n", 0, "this is int: no pointer"),
        ("n[10]", 1, "this is int: only pointers and arrays have elements"),
        ("node + node", 5, "two addresses"),
        ("n + retval", 2, "not available at the same time"),
        ("n * node", 4, "takes no address"),
        ('n + "x"', 4, "text is not a number"),
        ("ratio", None, ""),
        ('reg("zz")', 4, "no register zz"),
        ("(unsigned float)n", 1, "is no type"),
        ("(foo)n", 1, "foo is no type"),
        ("(n) size", 1, "n is no type"),
        ("buf(node, 70000)", 10, "a length from 1 to 4000"),
        ("n + 018", 4, "018 is not a number"),
        ("n)", 1, "is not expected"),
        ("(" * 99 + "n", None, "too deeply nested"),
        ("str(node, n", 3, "is not closed"),
    ],
)
def test_errors_point_at_the_character(expression, at, part):
    if not part:
        assert bound(expression).parameters[0].slot == -1
        return
    with pytest.raises(UsageError) as caught:
        bound(expression)
    assert part in caught.value.message
    if at is not None:
        source, mark = caught.value.detail.splitlines()
        assert source == "  " + expression
        assert mark.index("^") == at + 2


@pytest.mark.parametrize(
    "where",
    [
        "n == 1 or retval == 2",
        'text > 5 and text < "x"',
        "comm == 5",
        'n == "x"',
        "n == retval",
        "text == text",
        "pid == tid",
        "ratio > 1",
        'text == "' + "x" * 70 + '"',
        " and ".join(f"(n == {i} or n == {i + 1})" for i in range(20)),
    ],
)
def test_what_the_kernel_cannot_compare_is_refused(where):
    with pytest.raises(UsageError) as caught:
        bound(where=where)
    assert "^" in caught.value.detail


@pytest.mark.parametrize(
    ("where", "operand", "signed"),
    [
        ("n == 0xffffffff", -1, True),
        ("size == -1", (1 << 64) - 1, False),
        ("size > 18446744073709551614", (1 << 64) - 2, False),
        ("text == -1", (1 << 64) - 1, False),
        ("color == -1", (1 << 32) - 1, False),
        (r"*text == '\xff'", -1, True),
        ("node->inner.low >= -2147483648", -(1 << 31), True),
        ("duration > 18446744073709551614ns", (1 << 64) - 2, False),
    ],
)
def test_constants_are_converted_as_in_c(where, operand, signed):
    made = bound(where=where)
    (condition,) = (*made.conditions, *made.result_conditions)
    assert (condition.operand, condition.signed) == (operand, signed)


@pytest.mark.parametrize(
    "where",
    [
        *("n > 18446744073709551618", "n == 4294967296", "n < -2147483648", "n > 2147483647"),
        *("size < 0", "size > -1", "size == 18446744073709551616", "duration > -1ms", "pid < 0"),
        *("yes == 2", "node->flag == 4", "color < 0", "*text == 300", "not (size >= 0)"),
        *("duration == 18446744073709551616ns", "n == 18446744073709551615", "text < 0"),
    ],
)
def test_a_number_that_no_value_can_be_is_refused(where):
    with pytest.raises(UsageError, match="for every call, or for none") as raised:
        bound(where=where)
    assert "its values are from" in raised.value.hint


LONG_ONES = (
    *(" + ".join(["n"] * 500), " + ".join(["1"] * 500), " * ".join(["1"] * 500), "9" * 5000),
    *("node" + "->next" * 500, "node" + "[1]" * 500, "(" * 500 + "n" + ")" * 500, "-" * 500 + "n"),
    *("(int)" * 500 + "n", "*" * 500 + "node", "not " * 500 + "n", "0x" + "f" * 5000),
    *(
        "9" * 5000 + "ms",
        "1." + "9" * 5000 + "ms",
        " or ".join(["n"] * 500),
        "text == " + "n" * 9999,
    ),
    *("((n + 1" * 90 + "))" * 90, "n == " + "+".join(["(1+1)"] * 300)),
)
ODD_ONES = (
    *("\0", "n == \0", "ä", "n == ä", 'text == "\ud800"', "٣ > n", r"text == '\xff'"),
    *(r'text == "a\0b"', 'comm == "' + "n" * 16 + '"', "node->next[99999999999].key"),
    *("buf(text, 99999999999)", "arg99999999999", "n + 99999999999999999999"),
    *("(bool)n", '"a" + 1 == 2', '(int)"a" == 1', "(int)pid == 1", "pid + 1 == 2", "1 == 1"),
    "text - node == 1",
)


@pytest.mark.parametrize("expression", [*LONG_ONES, *ODD_ONES])
def test_what_is_too_long_or_odd_is_refused_in_words(expression):
    for given in ({"where": expression}, {"where": f"n > 1 and {expression} != 1"}):
        with pytest.raises(UsageError):
            bound(**given)
    with pytest.raises(UsageError):
        bound(expression) if " or " not in expression else bound("or")


def test_a_time_in_hexadecimal_is_refused():
    with pytest.raises(UsageError, match="decimals only"):
        syntax.condition("duration > 0x1ms")


def test_octal_numbers() -> None:
    assert bound(where="n == 0600") == bound(where="n == 384")
    with pytest.raises(UsageError, match="08 is not a number"):
        syntax.condition("n == 08")


def test_the_least_int_is_a_long() -> None:
    assert conversions.of_constant(-2147483648, hexadecimal=False) == conversions.LONG_LONG
    assert conversions.of_constant(-2147483647, hexadecimal=False) == conversions.INT


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("n > 10us", "this is a time, and what it is compared with is none"),
        ("5ms < n", "this is a time"),
        ("pid == 3s", "this is a time"),
        ("duration > 10usec", "10usec is not a number"),
        ("duration > 5lightyears", "5lightyears is not a number"),
        ("n == 0b1", "0b1 is not a number"),
        ("n == 1.2.3", "1.2.3 is not a number"),
    ],
)
def test_units_that_mean_nothing(where, message):
    with pytest.raises(UsageError) as caught:
        bound(where=where)
    assert message in caught.value.message
    assert "\n" not in caught.value.hint


@pytest.mark.parametrize(
    ("wanted", "where", "needed"),
    [
        ("retval", "", True),
        ("x=retval + 1", "", True),
        ("n", "", False),
        ("n", "not (n > 1 or duration > 1ms)", True),
        ("n", 'reg("ax") == 1 and n > 1', False),
    ],
)
def test_what_is_known_only_at_the_return(wanted, where, needed):
    test = syntax.condition(where) if where else None
    assert Request((syntax.argument(wanted),), test, where).needs_return is needed


SHELL = "; in a shell, the whole expression stands in single quotes"
COMPARED = "compare with =="


@pytest.mark.parametrize(
    ("where", "at", "what", "hint"),
    [
        ("n > 1, color == RED", 5, "',' is not expected", "join comparisons by and"),
        ("(n > 1 and color == 5", 0, "is not closed", "write ) where it ends"),
        ('str(text == "x"', 9, "')' is expected here, not '=='", "close what was opened"),
        ("(n > 1 and and size == 2)", 11, "not 'and'", "values are names"),
        ("n ! = 5", 2, "'!' is not expected", "write != in one word"),
        ("n > 5 us", 6, "'us' is not expected", "write a time in one word: 5us"),
        ("(n = 5)", 3, "')' is expected here, not '='", COMPARED),
        ("(n > 1 and n < 3) == 1", 18, "'==' is not expected", "join comparisons by and"),
        ("(foo *)n == 1", 1, "foo is no type", "types are those of C"),
        ('text startswth "n"', 5, "'startswth' is not", "write startswith: name"),
        ('text contains "n"', 5, "'contains' is not", COMPARED),
        ("n > 1 AND size > 2", 6, "'AND' is not expected", "write and: "),
        ("text == 'nm'", 8, "'nm' is not one character", f'text is quoted: "nm"{SHELL}'),
        ("text == ''", 8, "'' is not one character", f'text is quoted: ""{SHELL}'),
        ("text == 'a\"b'", 8, "is not one character", f'text is quoted: "a\\"b"{SHELL}'),
        ("text == nm", 8, "nm is not known", f'text is quoted: "nm"{SHELL}'),
        ("node->name == nm", 14, "nm is not known", f'text is quoted: "nm"{SHELL}'),
        ("pid == nm", 7, "nm is not known", "write a number: pid == 4711"),
        ("duration > nm", 11, "nm is not known", "write a time: duration > 1.5ms"),
        ("comm == nm", 8, "nm is not known", f'text is quoted: "nm"{SHELL}'),
        ("arg9 == 1", 0, "no argument 9", "there are arg0 to arg6"),
        ("n > 5\udcc2", 5, "'\\xc2' means nothing here", "join values"),
        ("color == BLEU", 9, "BLEU is no constant of enum color", "constants are BLUE, RED"),
        ("color == Mode::RED", 9, "is no constant of enum color", "write RED alone"),
        ('color == "RED"', 9, "enum color is an enumeration", "write RED without quotes"),
        ('color == "BLEU"', 9, "enum color is an enumeration", "without quotes, are BLUE, RED"),
        ('color startswith "RED"', 17, "is an enumeration", "compare it with == or !="),
        ('size == "1"', 8, "size_t is a number", "write 1 without quotes"),
        ('yes == "true"', 7, "bool is a number", "write true without quotes"),
        ('*text == "a"', 9, "char is a number", "one character is written 'a'"),
        ('n == "x"', 5, "int is a number", "compare it with a number"),
        ('size == "x"', 8, "size_t is a number", "str() around it, if it is an address"),
        ('node == "x"', 0, "this is struct node *, not text", "a member of it: node->key"),
        ('*node == "x"', 0, "this is struct node, not text", "name a member of it"),
        ('ratio == "x"', 0, "this is double, not text", "leave it out of the condition"),
    ],
)
def test_what_to_write_instead(where, at, what, hint):
    with pytest.raises(UsageError) as caught:
        bound(where=where)
    assert what in caught.value.message
    assert hint in caught.value.hint
    source, mark = caught.value.detail.splitlines()
    assert (source, mark) == (f"  {where}", f"  {' ' * at}^")


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("n == 5", "arg= shows values, where= compares them"),
        ("n && size", "arg= shows values, where= compares them"),
        ('text startswith "x"', "arg= shows values, where= compares them"),
        ("n, size", "write arg= once for each value"),
        ("n + 1 = a", "a name stands before its value: sum=n + 1"),
        ("node-", "quote it, if c->name was written: the shell takes > for a redirection"),
    ],
)
def test_what_is_no_value_to_show(expression, hint):
    with pytest.raises(UsageError) as caught:
        bound(expression)
    assert caught.value.hint == hint


def test_constants_are_those_of_the_enumeration_that_is_compared():
    """Not those of another one; a member's are known as well. Compared with a number, a name stands
    for what all enumerations that have it agree on."""
    mode = Enumeration("Mode", 4, False, ((7, "RED"), (8, "on")))
    holder = Record("struct holder", 4, (Member("mode", mode, 0),))
    prototype = Prototype((formal("color", COLOR, 4), formal("mode", mode, 4)), None)
    inside = Prototype((formal("p", Pointer("struct holder *", 8, holder)),), None)
    numbered = Prototype((*prototype.parameters, formal("n", INT, 4)), None)

    def operand(where: str, prototype: Prototype = prototype) -> int:
        request = Request((), syntax.condition(where), where)
        bounds = compile.Bounds(16, Detail(0, 64))
        located = places(prototype), range(len(prototype.parameters))
        made = compile.bind(request, prototype, *located, Names(REGISTERS), bounds)
        return made.conditions[0].operand

    assert operand("color == RED") == 0
    assert operand("mode == RED") == operand("RED == mode") == operand("mode == Mode::RED") == 7
    assert operand("mode == name::space::Mode::on") == 8
    assert operand("n == BLUE", numbered) == operand("n == color::BLUE", numbered) == 5
    assert operand("n == Mode::RED", numbered) == 7
    for where in ("mode == BLUE", "mode == color::BLUE"):
        with pytest.raises(UsageError, match="is no constant of Mode"):
            operand(where)
    with pytest.raises(UsageError, match="RED is 0 or 7, as enumerations") as caught:
        operand("n == RED", numbered)
    assert caught.value.hint == "write color::RED or Mode::RED, or the number"
    assert operand("p->mode == RED", inside) == operand("Mode::RED == p->mode", inside) == 7


@pytest.mark.parametrize("twice", [("a=n", "a=n"), ("a=n", "b=n", "a=m"), ("n", "n"), ("n", "n=m")])
def test_two_values_of_one_name(twice):
    with pytest.raises(UsageError, match=r"another value is called [an], too"):
        parse(twice, "")
    assert len(parse(("a=n", "b=n", "n"), "").wanted) == 3

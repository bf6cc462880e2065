"""Words of a command line that belong to no option: a program without ``--`` or ``--binary``, an
expression without quotes, a second value without its option. What was meant is a guess, and said
as the command line that would work."""

from __future__ import annotations

import os
import shlex
from argparse import Action, ArgumentTypeError
from collections.abc import Callable, Iterable, Sequence
from glob import glob
from itertools import takewhile
from shutil import which

from lbtrace.errors import UsageError
from lbtrace.naming import NAMING, option_of

TRACING = ("attach", "count", "latency", "report", "stacks")
"""The commands that trace."""

OF_CAPTURES = ("report", "stacks", "export")
"""The commands that show what a capture holds."""

SHORT = {"-f": "--func", "-p": "--pid"}

EXPRESSIONS = ("where", "arg")
"""Options whose value is an expression, as argparse calls them."""

FILES = ("binary", "output")
"""Options whose value is one file, as argparse calls them."""

PATTERNS = ("func", "exclude", "source", "usdt", "within")
"""Options whose value is a pattern, as argparse calls them."""

Takes = Callable[[str], Action | None]
"""The option that a word names, perhaps by its beginning; None where it is not clear."""


def advise(words: Sequence[str], meant: str, takes: Takes) -> str:
    """Return what to do about the first stray word of a command line; empty where there is none,
    or what was meant is not clear.

    ``words`` begin with the command of lbtrace; ``meant`` says how a program is named to it.
    """
    options, last, left = _split(words, takes)
    word = left[0] if left else "-"
    if word.startswith("-"):
        return ""
    if words[0] in TRACING and word.endswith(".lbt"):
        shown = " or ".join(f"lbtrace {each} {shlex.quote(word)}" for each in OF_CAPTURES)
        return f"a capture has been traced; write: {shown}"
    if last is not None and (advice := _on_value(words[0], options, left, last, (meant, takes))):
        return advice
    given = _named(options)
    names_function = (
        words[0] in TRACING and {*map(option_of, NAMING)}.isdisjoint(given) and "/" not in word
    )
    if not is_program(word):  # options after it are lbtrace's
        given += _named(takewhile("--".__ne__, left))
    repeated = last.type if last is not None and isinstance(last.default, list) else None
    several = callable(repeated) and _accepts(repeated, word)
    if not _has_target(words[0], given, left) and (
        is_program(word) or not (names_function or several)
    ):
        return f"write: {_with_program(words[0], options, left, meant)}" if meant else ""
    mended = [words[0], *options]
    if names_function:
        mended += ["--func", *left]
    elif several and last is not None:
        mended += [last.option_strings[-1], *left]
    else:
        return _unused(word, options, last)
    return f"write: {_finish(mended, meant, takes)}"


def _on_value(
    name: str,
    options: Sequence[str],
    left: Sequence[str],
    last: Action,
    known: tuple[str, Takes],
) -> str:
    """What to do about the value of the ``last`` option, which the first of the words ``left`` may
    belong to; empty where it does not."""
    pattern, names = _unexpanded(options, left)
    if pattern and last.dest in PATTERNS:
        line = [name, *_with_value(options, pattern), *left[len(names) - 1 :]]
        return f"quote the pattern, if {shlex.quote(pattern)} is it: {_finish(line, *known)}"
    if pattern and last.dest in FILES:
        return _choose(names, [name, *options], left[len(names) - 1 :], last)
    if last.dest in EXPRESSIONS and (line := _quoted(options, left, last)):
        return f"quote the expression: {_finish([name, *line], *known)}"
    if last.dest == "where" and _is_quoted(left[0]):
        return f"join the conditions by and, or leave {shlex.quote(left[0])} out"
    return ""


def is_program(word: str) -> bool:
    """Return whether a word looks like a program that is to be run."""
    if os.path.isfile(word):
        return os.access(word, os.X_OK)
    return "/" in word or which(word) is not None


def _split(words: Sequence[str], takes: Takes) -> tuple[list[str], Action | None, list[str]]:
    """The options before the first stray word, with their values; the option whose value stands
    just before it; and what follows from that word on. Nothing follows where an option is
    wrong."""
    left, options = list(words[1:]), list[str]()
    last: Action | None = None
    while left and left[0].startswith("-") and left[0] != "--":
        option = left.pop(0)
        options.append(option)
        last = takes(option.partition("=")[0])
        if last is None:
            return options, None, []
        if last.nargs is not None:
            type = last.type if last.nargs == "?" and left else None
            if callable(type) and "=" not in option and _accepts(type, left[0]):
                options.append(left.pop(0))
            last = None
        elif "=" not in option:
            if not left or left[0].startswith("-"):
                return options, None, []
            options.append(left.pop(0))
    return options, last, left


def _named(options: Iterable[str]) -> list[str]:
    """The options among these words, and other words, each without its value."""
    wholes = (each.partition("=")[0] for each in options)
    return [SHORT.get(each[:2], each) if each[1:2] != "-" else each for each in wholes]


def _has_target(name: str, given: Sequence[str], left: Sequence[str]) -> bool:
    """Whether a command line says already in what is traced or listed."""
    if name not in TRACING:
        return "--binary" in given
    word, command = left[0], left[left.index("--") + 1 :] if "--" in left else []
    if command and (is_program(command[0]) or not is_program(word)):
        return True
    return "--pid" in given or ("--binary" in given and not is_program(word))


def _quoted(options: Sequence[str], left: Sequence[str], last: Action) -> list[str]:
    """The command line where the value of its last option, an expression, is one word with those
    after it that belong to it; empty where none does."""
    # Imported here because only a wrong command line needs it.
    from lbtrace.expressions import syntax

    parse = syntax.condition if last.dest == "where" else syntax.argument
    option, value = _value_of(options)
    if _is_quoted(left[0]):
        return []
    end = next((n for n, word in enumerate(left) if word.startswith("--")), len(left))
    wholes = {count: " ".join([value, *left[:count]]) for count in range(end, 0, -1)}
    count = next((n for n, whole in wholes.items() if _accepts(parse, whole)), 0)
    if not count and "--" in left and not is_program(left[0]):
        count = end  # it is meant as one, and an error says then what is wrong with it
    if not count:
        return []
    whole, after = wholes[count], list(left[count:])
    while last.dest == "where" and after and _is_quoted(after[0]) and _accepts(parse, after[0]):
        whole = " and ".join(f"({e})" if " or " in e else e for e in (whole, after.pop(0)))
    return [*options[:-1], option + whole, *after]


def _unexpanded(options: Sequence[str], left: Sequence[str]) -> tuple[str, list[str]]:
    """The pattern that a shell has replaced by the value of the last option and the words after it:
    files of this directory, all that it matches. Empty where none is. Another one may match the
    same files."""
    _, value = _value_of(options)
    names = [value]
    for word in left:
        if word in names or "/" in word or not os.path.lexists(word):
            break
        names.append(word)
    beginning = _common_beginning(names)
    rests = [name.removeprefix(beginning)[::-1] for name in names]
    pattern = f"{beginning}*{_common_beginning(rests)[::-1]}"
    if len(names) < 2 or "/" in value or sorted(names) != sorted(glob(pattern)):
        return "", []
    return pattern, names


def _choose(names: list[str], before: Sequence[str], after: Sequence[str], last: Action) -> str:
    """What to do about a pattern that the shell has replaced by the ``names`` of several files,
    where one is wanted. ``before`` ends with the first of them."""
    programs = [name for name in names if is_program(name) and os.path.isfile(name)]
    if last.dest == "binary" and len(programs) == 1:
        line = [before[0], *_with_value(before[1:], programs[0]), *after]
        return f"name one file: lbtrace {shlex.join(line)}"
    return f"name one file: the shell has put {len(names)} into the place of a pattern"


def _with_value(options: Sequence[str], value: str) -> list[str]:
    """``options`` with another value of the last one."""
    return [*options[:-1], _value_of(options)[0] + value]


def _is_quoted(word: str) -> bool:
    """Whether a word is an expression of several words, which was quoted, or some other text, and
    is no program."""
    return any(map(str.isspace, word)) and not is_program(word)


def _common_beginning(names: Sequence[str]) -> str:
    alike = takewhile(lambda each: len(set(each)) == 1, zip(*names, strict=False))
    return "".join(each[0] for each in alike)


def _unused(word: str, options: Sequence[str], last: Action | None) -> str:
    """What to do about a ``word`` that can only belong to the value of the ``last`` option."""
    if last is not None and last.choices is None:
        whole = f"{_value_of(options)[1]} {word}"
        if not callable(last.type) or _accepts(last.type, whole):
            return f"leave {word} out, or quote the value: {shlex.quote(whole)}"
    return f"leave {word} out"


def _value_of(options: Sequence[str]) -> tuple[str, str]:
    """What precedes the value in the last word of ``options``, and the value."""
    option, equals, value = options[-1].partition("=")
    is_whole = equals and option.startswith("--")
    return (f"{option}=", value) if is_whole else ("", options[-1])


def _accepts(parse: Callable[[str], object], text: str) -> bool:
    """Whether ``text`` can be the value of an option that ``parse`` reads."""
    try:
        parse(text)
    except (ArgumentTypeError, UsageError):
        return False
    return True


def _finish(line: Sequence[str], meant: str, takes: Takes) -> str:
    """A command line of which one word was mended, with what is to be mended after it."""
    _, _, left = _split(line, takes)
    further = advise(line, meant, takes) if left and left[0] != "--" else ""
    if further.startswith("leave"):
        further = ""
    return further.partition(": ")[2] or f"lbtrace {shlex.join(line)}"


def _with_program(name: str, options: Sequence[str], left: Sequence[str], meant: str) -> str:
    """The command line where the program is named as it should be."""
    program = [word for word in left if word != "--"]
    line = meant.format(options=shlex.join(options), program=shlex.join(program))
    return f"lbtrace {name} {line.strip()}"

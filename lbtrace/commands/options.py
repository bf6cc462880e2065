"""Parses options, and the numbers, times and sizes in them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from argparse import (
    Action,
    ArgumentParser,
    ArgumentTypeError,
    HelpFormatter,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Collection, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from lbtrace.commands import streams
from lbtrace.validation import ARGUMENTS, CALLERS, LARGEST_RING, POINTERS, SHORTEST, TEXT

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

# argparse asks gettext for translations of its words. Python comes with none, but looking for them
# takes longer than parsing.
argparse._ = str  # type: ignore[attr-defined]

_NANOSECONDS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}

_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


DIGITS = 9
"""Digits of a number: no option needs more."""


WIDTH = 80

STRAYS = 8
"""Words that belong to no option, of which an error names the first."""

NO_PID = "is not the number of a process"

TWICE = "is given twice, with different values"


class Parser(ArgumentParser):
    """A parser whose errors, which repeat what was typed, are fit for a terminal.

    ``words`` are the arguments to parse, ``meant`` is the form of a correct command line that names
    a program: errors show it to users who forgot a word.
    """

    words: Sequence[str] = ()
    meant = ""

    def __init__(self, *args: Any, **options: Any) -> None:
        # argparse makes a formatter for each option. With a given width it imports no shutil.
        options.setdefault("formatter_class", partial(HelpFormatter, width=WIDTH))
        super().__init__(*args, **options)
        self.given: dict[str, object] = {}
        self.register("action", None, _Once)

    def format_help(self) -> str:
        """Return the help, as wide as the terminal."""
        self.formatter_class = partial(RawDescriptionHelpFormatter, width=_terminal_width())
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and what to do, and exit with 2."""
        name, value = self._refused_value(message)
        if name and (wrong := self._wrong(name, value)):
            message = f"argument {name}: {wrong}"
        streams.report([f"lbtrace: {self._plain(message)}", f"  {self._advice(message)}"])
        sys.exit(2)

    @property
    def positionals(self) -> list[Action]:
        """The arguments that are no options."""
        return [action for action in self._actions if not action.option_strings]

    def words_for(self, given: Namespace, but: Collection[str]) -> list[str]:
        """Return the words that give the options of ``given`` again, all ``but`` some."""
        words: list[str] = []
        for action in self._actions:
            value = getattr(given, action.dest, action.default)
            if action.dest in but or value == self._default(action):
                continue
            option = max(action.option_strings, key=len)
            if action.nargs == 0 or value == action.const:
                words.append(option)
                continue
            given_as = written_time if action.type in (nanoseconds, least) else str
            for each in map(given_as, value if isinstance(value, list) else [value]):
                words += [f"{option}={each}"] if each.startswith("-") else [option, each]
        return words

    def _default(self, action: Action) -> object:
        """The value of an option that is not given."""
        default: object = action.default  # argparse converts those that are texts
        return (
            action.type(default) if isinstance(default, str) and callable(action.type) else default
        )

    def _plain(self, message: str) -> str:
        """What is wrong, in lbtrace's words."""
        message = re.sub(r"^argument ([\w/-]+): ", lambda m: f"{m[1].split('/')[-1]}: ", message)
        message = re.sub(r"invalid choice: ('.*?') \(choose.*", r"there is no \1", message)
        if message.endswith(": expected one argument"):
            return message.replace("expected one argument", "its value is missing")
        message = re.sub(r": ignored explicit argument .*", ": takes no value", message)
        start, _, rest = message.partition(": ")
        if start == "the following arguments are required":
            return f"{rest} is missing"
        if start == "unrecognized arguments":
            unknown = rest.split()
            if unknown[0].startswith("-"):
                return f"no option is called {unknown[0]}"
            more = f" and {len(unknown) - STRAYS} more words" if len(unknown) > STRAYS + 1 else ""
            return f"unexpected: {' '.join(unknown[:STRAYS]) if more else rest}{more}"
        return message

    def _advice(self, message: str) -> str:
        if message.endswith(TWICE):
            return "join the conditions with and" if "--where" in message else "give it once"
        if message.endswith(NO_PID):
            return "pgrep -o NAME prints that of a program"
        name, value = self._refused_value(message)
        if name:
            return f"write: {name}={value}, if that is its value"
        strays = re.match("unrecognized arguments: [^-]", message) and self.advise_on_strays()
        return strays or self._advice_on_options(message)

    def advise_on_strays(self) -> str:
        """Return what to do about words that belong to no option; empty where it is not clear."""
        from lbtrace.commands import stray_words  # imported here: few command lines are wrong

        return stray_words.advise(self.words, self.meant, self._takes)

    def _advice_on_options(self, message: str) -> str:
        if unknown := re.match(r"unrecognized arguments: (--?\w\S*)", message):
            # Imported here because only a mistyped option needs it.
            from difflib import get_close_matches

            known = self._option_string_actions
            wanted = unknown[1].partition("=")[0].lower()
            if near := get_close_matches(wanted, known, 1, cutoff=0.75):
                return f"the nearest one is {near[0]}"
        if choices := re.search(r"\(choose from (.*)\)$", message):
            return f"choose one of: {choices[1].replace(chr(39), '')}"
        if "are required" in message:
            for word in self.words[1:]:
                if word.startswith("-") and os.path.exists(word):
                    return f"write: ./{word}, if that is the file"
            wanted = " ".join(str(each.metavar or each.dest) for each in self.positionals)
            return f"write: {self.prog} [OPTION ...] {wanted}"
        return f"{self.prog} --help shows what it takes"

    def _refused_value(self, message: str) -> tuple[str, str]:
        """The option, and its value that begins with a minus; empty where that is not what is
        wrong."""
        named = re.fullmatch(r"argument ([\w/-]+): expected one argument", message)
        names = named[1].split("/") if named else []
        for name, value in pairwise(self.words):
            if name in names and value.startswith("-") and value != "--":
                return name, value
        return "", ""

    def _wrong(self, name: str, value: str) -> str:
        """What is wrong with a value; empty where it is right."""
        type = self._option_string_actions[name].type
        try:
            if callable(type):
                type(value)
        except ArgumentTypeError as error:
            return str(error)
        return ""

    def _takes(self, option: str) -> Action | None:
        """The one option that is meant, perhaps by its beginning; None where it is not clear."""
        known = self._option_string_actions
        begun = [known[name] for name in known if name.startswith(option)]
        return known.get(option) or (begun[0] if len(begun) == 1 else None)


def _terminal_width() -> int:
    """Columns for the help, as argparse counts them, without importing shutil."""
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns)
    except (OSError, ValueError):
        columns = WIDTH
    return (columns if columns > 0 else WIDTH) - 2


def repeatable(
    options: ArgumentParser | _ArgumentGroup,
    name: str,
    metavar: str,
    help: str,
    short: str = "",
    alone: str | None = None,
) -> None:
    """Add an option that may be given several times; its value is a list of texts. Given ``alone``,
    without a text, it means this one."""
    options.add_argument(
        *([short] if short else []),
        name,
        metavar=metavar,
        type=nonempty,
        action="append",
        nargs=None if alone is None else "?",
        const=alone,
        default=[],
        help=f"{help} (repeatable)",
    )


def look(options: ArgumentParser | _ArgumentGroup) -> None:
    """Add the options that say how calls are shown: those of `lbtrace.sinks.layout.Layout`."""
    options.add_argument(
        "--time",
        choices=("clock", "relative", "delta"),
        help="trees: the time of each line: of day, since the trace began (s), since the last line",
    )
    options.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour trees (default: auto, on a terminal)",
    )
    options.add_argument(
        "--wrap", action="store_true", help="trees on a terminal: do not cut lines at its width"
    )
    options.add_argument(
        "--cpu", action="store_true", help="show on which processor each call begins and ends"
    )


class _Once(Action):
    """Stores the value of an option and refuses a second, different one, as it is not obvious which
    counts."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store ``values``."""
        assert isinstance(parser, Parser)
        if parser.given.setdefault(self.dest, values) != values:
            parser.error(f"{option_string or self.dest} {TWICE}")
        setattr(namespace, self.dest, values)


def natural(text: str) -> int:
    """Return a whole number from 1 on."""
    return whole(text, least=1)


def frames(text: str) -> int:
    """Return a number of callers."""
    if (number := natural(text)) > CALLERS:
        raise ArgumentTypeError(f"{text} is too large: up to {CALLERS} callers are shown")
    return number


def process(text: str) -> int:
    """Return the number of a process."""
    if not text.isascii() or not text.isdigit() or not int(text[:DIGITS]):
        raise ArgumentTypeError(f"{text!r} {NO_PID}")
    return natural(text)


def processes(text: str) -> list[int]:
    """Return the numbers of processes that are separated by commas, as perf takes them."""
    return [process(each.strip()) for each in text.split(",")]


def whole(text: str, *, least: int = 0) -> int:
    """Return a whole number from ``least`` on."""
    if not text.isascii() or not text.isdigit() or (number := _number(text)) < least:
        raise ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
    return number


def _number(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ArgumentTypeError(f"{digits[:12]}… is too large: up to {DIGITS} digits are taken")
    return int(digits)


def pointers(text: str) -> int:
    """Return how many pointers are followed."""
    if (number := whole(text)) > POINTERS:
        raise ArgumentTypeError(f"{text} is too large: up to {POINTERS} pointers are followed")
    return number


def text_size(text: str) -> int:
    """Return how many bytes of a string are shown."""
    if (number := natural(text)) > TEXT:
        raise ArgumentTypeError(f"{text} is too large: up to {TEXT:,} bytes of a string are read")
    return number


def count(text: str) -> int | None:
    """``none`` (0), ``auto`` (None) or a whole number."""
    if text in ("none", "auto"):
        return 0 if text == "none" else None
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"{text!r} is neither a number, nor none, nor auto")
    if (number := _number(text)) > ARGUMENTS:
        raise ArgumentTypeError(f"{text} is too large: up to {ARGUMENTS} arguments are shown")
    return number


def nonempty(text: str) -> str:
    """Return a text that is not empty; a script may have forgotten to fill it in."""
    if not text:
        raise ArgumentTypeError("it is empty")
    return text


def seconds(text: str) -> float:
    """Return a time such as ``10s``, ``500ms``, ``2m`` or plain seconds, in seconds."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(ms|s|m|h|)", text)
    if not match:
        raise ArgumentTypeError(f"{text!r} is not a time: write 10s, 500ms or 2m")
    if len(match[1]) > 2 * DIGITS:
        raise ArgumentTypeError(f"{match[1][:12]}… is too long a time")
    if not (time := float(match[1]) * _SECONDS[match[2]]):
        raise ArgumentTypeError(f"{text!r} is no time at all: write 10s, 500ms or 2m")
    if time < SHORTEST:
        raise ArgumentTypeError(f"{text!r} is too short a time: write 10s, 500ms or 2m")
    return time


def nanoseconds(text: str) -> int:
    """Return a time such as ``5ms``, ``20us`` or ``1.5s``, which has a unit, in ns."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ns|us|µs|ms|s|m)", text)
    if not match:
        raise ArgumentTypeError(f"{text!r} is not a time with its unit: write 5ms, 20us or 1.5s")
    return round(float(match[1]) * _NANOSECONDS[match[2]])


def written_time(time: int) -> str:
    """Return so many ns as a text that `nanoseconds` takes: 5ms."""
    unit = next(unit for unit in ("s", "ms", "us", "ns") if time % _NANOSECONDS[unit] == 0)
    return f"{time // int(_NANOSECONDS[unit])}{unit}"


def least(text: str) -> int:
    """Return the same of a time from which on something is shown: of none it is the shortest."""
    return nanoseconds(text) or 1


class Slow(NamedTuple):
    """Calls of functions that match a pattern, or of all, that took longer than so many ns."""

    pattern: str
    time: int

    def __str__(self) -> str:
        time = written_time(self.time)
        return f"{self.pattern}={time}" if self.pattern else time


def slow(text: str) -> Slow:
    """Return a time with its unit, and the pattern of functions before it, if there is one:
    ``handle_*=5ms``."""
    pattern, equals, time = text.rpartition("=")
    if equals and not pattern:
        raise ArgumentTypeError(f"{text!r} names no function before =: write PATTERN=5ms, or 5ms")
    return Slow(pattern, nanoseconds(time))


def size(text: str) -> int:
    """Return a size such as ``512K``, ``8M`` or plain bytes, in bytes."""
    match = re.fullmatch(r"([0-9]+)([KMG]?)", text)
    if not match:
        raise ArgumentTypeError(f"{text!r} is not a size: write 512K or 8M")
    # A number of bytes may have ten digits: 2147483648 is 2G.
    bytes = int(match[1][:20]) * _BYTES[match[2]]
    if bytes > LARGEST_RING:
        raise ArgumentTypeError("a ring has at most 2G")
    return bytes

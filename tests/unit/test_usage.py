"""What the command line says to those who forget a word."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from glob import glob
from pathlib import Path

import pytest

import lbtrace
from lbtrace.commands import main
from lbtrace.commands.options import seconds
from lbtrace.commands.output import describe
from lbtrace.errors import UsageError
from lbtrace.expressions import syntax
from lbtrace.model import Losses, Summary
from lbtrace.model.wire_limits import LARGE_CHUNK
from lbtrace.sinks import format_for
from lbtrace.validation import TEXT


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("attach ./fib 3", "lbtrace attach -- ./fib 3"),
        ("attach --func fib --strict ./fib -- 3", "lbtrace attach --func fib --strict -- ./fib 3"),
        ("attach fib -- ./fib 3", "lbtrace attach --func fib -- ./fib 3"),
        ("attach --line fib.c:6 ./fib 3", "lbtrace attach --line fib.c:6 -- ./fib 3"),
        ("list ./fib", "lbtrace list --binary ./fib"),
        ("list --func f* ./fib", "lbtrace list --binary ./fib --func 'f*'"),
        ("doctor --json ./fib", "lbtrace doctor --binary ./fib --json"),
    ],
)
def test_the_words_that_would_work_are_said(capsys, words, meant):
    assert main(words.split()) == 2
    assert f"  write: {meant}\n" in capsys.readouterr().err


TYPO = "attach --func f1 "
SH = " -- /bin/sh -c :"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (f"{TYPO}--where a == 1{SH}", f"quote the expression: lbtrace {TYPO}--where 'a == 1'{SH}"),
        (
            f"{TYPO}--where a==1 and b>-1 --strict{SH}",
            f"quote the expression: lbtrace {TYPO}--where 'a==1 and b>-1' --strict{SH}",
        ),
        (
            f"{TYPO}--arg n = a --arg b + 1{SH}",
            f"quote the expression: lbtrace {TYPO}--arg 'n = a' --arg 'b + 1'{SH}",
        ),
        (
            f"{TYPO}--where a == 1 ./ty 3",
            f"quote the expression: lbtrace {TYPO}--where 'a == 1' -- ./ty 3",
        ),
        (f"{TYPO}--where a==1 ./ty 3", f"write: lbtrace {TYPO}--where a==1 -- ./ty 3"),
        (f"{TYPO}f2 f3{SH}", f"write: lbtrace {TYPO}--func f2 --func f3{SH}"),
        (f"{TYPO}--pid 7 f2", "leave f2 out"),
        ("attach --pid 7 nofunc", "write: lbtrace attach --pid 7 --func nofunc"),
        (f"attach nofunc other{SH}", f"write: lbtrace attach --func nofunc --func other{SH}"),
        (f"attach --source a.c b.c{SH}", f"write: lbtrace attach --source a.c --source b.c{SH}"),
        (
            "attach --off-cpu 5ms --func f /bin/sh",
            "write: lbtrace attach --off-cpu 5ms --func f -- /bin/sh",
        ),
        (f"{TYPO}-o x.lbt y{SH}", "leave y out, or quote the value: 'x.lbt y'"),
        (
            "attach run.lbt",
            "a capture has been traced; write: lbtrace report run.lbt or lbtrace stacks run.lbt or"
            " lbtrace export run.lbt",
        ),
        ("attach --binary ./ty main", "write: lbtrace attach --binary ./ty --func main"),
        ("list --binary ./ty --func f g", "write: lbtrace list --binary ./ty --func f --func g"),
    ],
)
def test_stray_words_are_no_program_where_one_is_named(capsys, words, advice):
    assert main(words.split()) == 2
    assert capsys.readouterr().err.splitlines()[1] == f"  {advice}"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("attach --func * -- ./f 3", "lbtrace attach --func '*' -- ./f 3"),
        ("attach --func * ./f 3", "lbtrace attach --func '*' -- ./f 3"),
        ("attach --func * f 3", "lbtrace attach --func '*' -- f 3"),
        (
            "attach --func main --func * --strict -- ./f",
            "lbtrace attach --func main --func '*' --strict -- ./f",
        ),
        ("attach --source a*.c -- ./f", "lbtrace attach --source 'a*.c' -- ./f"),
        ("list --binary ./f --func *", "lbtrace list --binary ./f --func '*'"),
        ("list --func * ./f", "lbtrace list --binary ./f --func '*'"),
    ],
)
def test_a_pattern_that_the_shell_has_replaced(capsys, tmp_path, monkeypatch, words, meant):
    monkeypatch.chdir(tmp_path)
    for name in ("ab.c", "ac.c", "b.h", "f", "x y"):
        (tmp_path / name).write_text("")
    (tmp_path / "f").chmod(0o755)
    assert main(expanded(words)) == 2
    pattern = meant.split("'")[1]
    advice = f"  quote the pattern, if '{pattern}' is it: {meant}\n"
    assert advice in capsys.readouterr().err


def expanded(words: str) -> list[str]:
    """What a shell makes of ``words``."""
    return [each for word in words.split() for each in sorted(glob(word)) or [word]]


def test_a_pattern_where_one_file_is_wanted(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("2", "f.py", "p", "p.c"):
        (tmp_path / name).write_text("")
    (tmp_path / "p").chmod(0o755)
    for line, advice in (
        ("attach --binary * --func f", "name one file: lbtrace attach --binary p --func f"),
        ("list --binary *", "name one file: lbtrace list --binary p"),
        ("list --binary [2f]*", "leave f.py out"),  # it may have been something else
        ("attach --func f --binary p*", "name one file: lbtrace attach --func f --binary p"),
        ("attach --func f -o * -- ./p", "name one file: the shell has put 4 into the place of a"),
    ):
        assert main(expanded(line)) == 2
        assert f"  {advice}" in capsys.readouterr().err, line


@pytest.mark.parametrize("given", ["}", "1e9", "a"])
@pytest.mark.parametrize("rest", [["--binary", "./p", "--dry-run"], ["--", "./p"]])
def test_two_conditions_are_no_program(capsys, given, rest):
    words = ["attach", "--func", "f", "--where", given, "a > 1.5", *rest]
    assert main(words) == 2
    advice = capsys.readouterr().err.splitlines()[1]
    assert advice == "  join the conditions by and, or leave 'a > 1.5' out"


def test_conditions_of_which_one_is_quoted_are_joined(capsys):
    words = ["--where", "a", "==", "1", "b > 2 or c", "--", "/bin/true"]
    assert main(["attach", "--func", "f", *words]) == 2
    advice = capsys.readouterr().err.splitlines()[1]
    assert advice.endswith("--where 'a == 1 and (b > 2 or c)' -- /bin/true")


def test_a_stray_word_before_the_binary_is_no_program(capsys):
    assert main(["attach", "--func", "f", "--where", "a", "b", "--binary", "./p"]) == 2
    assert "-- b" not in capsys.readouterr().err


def test_names_of_some_files_are_no_replaced_pattern(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("ab", "ac", "ad"):
        (tmp_path / name).write_text("")
    assert main(["attach", "--func", "ab", "ad", "--", "/bin/true"]) == 2
    assert "  write: lbtrace attach --func ab --func ad -- /bin/true\n" in capsys.readouterr().err


def test_of_many_stray_words_the_first_are_named(capsys):
    assert main(["attach", "--func", "f", *map(str, range(100)), "--", "/bin/true"]) == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "lbtrace: unexpected: 0 1 2 3 4 5 6 7 and 92 more words"


def test_no_more_of_a_string_is_promised_than_is_read(capsys):
    assert TEXT == LARGE_CHUNK - 1
    assert main(["attach", "--func", "f", "--strings", "4096", "--", "./fib"]) == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "lbtrace: --strings: 4096 is too large: up to 4,095 bytes of a string are read"
    with pytest.raises(UsageError, match="strings=4096 is too large"):
        lbtrace.trace(command=["/bin/true"], functions="main", strings=4096)


@pytest.mark.parametrize(
    "words",
    ["--ring-size 4G", "--max-depth " + "9" * 5000, "--args " + "9" * 5000, "--ring-size 9999999G"],
)
def test_numbers_that_are_too_large(capsys, words):
    assert main(["attach", "--func", "f", *words.split(), "--", "./fib"]) == 2
    error = capsys.readouterr().err
    assert "at most 2G" in error or "too large" in error
    assert "write:" not in error


@pytest.mark.parametrize(
    "words",
    [
        ["--args", "65"],
        ["--depth", "6"],
        ["--duration", "٣s"],
        ["--duration", "0s"],
        ["--duration", "0.0000000001ms"],
        ["--duration", "-5s"],
        ["--strings", "-1"],
        *(["--" + option, ""] for option in ("where", "user", "output", "binary", "func")),
    ],
)
def test_values_that_mean_nothing(capsys, words):
    assert main(["attach", "--func", "f", *words, "--", "./fib"]) == 2
    assert capsys.readouterr().err.startswith(f"lbtrace: {words[0]}: ")


@pytest.mark.parametrize(
    ("words", "wrong", "advice"),
    [
        ("attahc --func f -- ./x", "no command is called attahc", "nearest names: attach"),
        ("help value", "there is no help on value", "nearest names: values"),
        ("ls -l", "no command is called ls", "write: lbtrace attach -- ls -l"),
        ("attach --func f --pid init", "'init' is not the number of a process", "pgrep -o NAME"),
        ("attach --func -- ./fib 3", "--func: its value is missing", "lbtrace attach --help"),
        ("attach --duration -1s -- ./fib", "'-1s' is not a time: write 10s", "attach --help"),
        ("attach --output --force -- ./fib", "its value is missing", "write: --output=--force, if"),
        (
            "attach --binary ./fib",
            "nothing says what to trace: a command, --pid, or --func, --source",
            "write: lbtrace attach [--func PATTERN]",
        ),
        ("attach -z fib -- ./fib 3", "no option is called -z", "lbtrace attach --help"),
        ("attach --f x -- ./fib", "ambiguous option: --f", "lbtrace attach --help"),
        ("attach --func f --durations 3 -- ./x", "is called --durations", "nearest one is --dur"),
        ("attach --func f --returns site -- ./x", "there is no 'site'", "choose one of: auto, ur"),
        ("attach --func f --pid 1,x", "'x' is not the number of a process", "pgrep -o NAME"),
        ("attach --func f --where a --where b -- ./x", "--where is given twice", "with and"),
        ("attach --func f --cgroup a --cgroup b", "--cgroup is given twice", "give it once"),
        (
            "attach --binary /bin/true --usdt /plug(/",
            "--usdt /plug(/: missing )",
            "a Python regular",
        ),
        ("list --func f", "--binary is missing", "write: lbtrace list --binary PATH"),
        ("list --binary a --provider p", "--provider is about markers", "add --usdt"),
        ("list --binary a --usdt --func f", "--func is about functions, --usdt", "list them apart"),
        ("attach --func f --provider x.d -- ./x", "--provider is about markers", "with --usdt"),
        ("list --binary a --lines b.c --sites", "--lines and --sites list", "list them apart"),
        ("attach --binary ./a --func f --follow", "--follow is about a process", "add --pid"),
        ("attach --func f --kill --pid 1", "--kill is about a command, and --pid", "leave --kill"),
        ("attach --func f --user me --binary x", "--user is about a command", "give one after --"),
        ("export -", "- cannot be read", "from a file, not from standard input"),
        ("attach --func f --quiet=1 -- ./x", "--quiet: takes no value", "attach --help"),
        ("export -- -nosuch.lbt", "-nosuch.lbt cannot be read", "the path of a capture"),
        ("export", "CAPTURE is missing", "write: lbtrace export"),
        ("stacks --each --interval 1s -- ./x", "up nothing, as --interval asks", "leave one"),
        (
            "latency --func f --slow g=5ms --by n -- ./x",
            "--by n exclude each",
            "latency run.lbt --by n",
        ),
        ("export a.lbt b.lbt", "unexpected: b.lbt", "lbtrace export --help"),
    ],
)
def test_one_line_says_what_is_wrong_and_one_what_to_do(capsys, words, wrong, advice):
    assert main(words.split()) == (1 if "cannot be read" in wrong else 2)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("lbtrace: ")
    assert wrong in first
    assert second.startswith("  ")
    assert advice in second


@pytest.mark.parametrize(
    ("words", "said"),
    [("--func f", True), ("--where=n>1", True), ("--line 3", False), ("3 --func f", False)],
)
def test_options_of_lbtrace_behind_the_program(capsys, words, said):
    assert main(["./no-such", *words.split()]) == 127
    assert ("options of lbtrace stand before" in capsys.readouterr().err) is said


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("/bin/echo 3", "this is taken for one name; give each word by itself: /bin/echo 3"),
        ("echo  'a b' 3", "this is taken for one name; give each word by itself: echo 'a b' 3"),
        ("cd / && ls", "this is taken for one name; a shell runs such a line: sh -c 'cd / && ls'"),
        ("X=1 ./fib 3", "variables are set by env: env X=1 ./fib 3"),
        ("./nosuch 3", "give the path of a program that you can execute"),
    ],
)
def test_a_command_line_that_is_quoted_as_a_whole(capsys, command, advice):
    assert main(["attach", "--func", "main", "--", command]) == 127
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"lbtrace: cannot run {command}: No such file or directory"
    assert second == f"  {advice}"


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["X=1", "./fib", "a b"], "variables are set by env: env X=1 ./fib 'a b'"),
        (["X=a b", "Y=/", "./fib"], "variables are set by env: env 'X=a b' Y=/ ./fib"),
        (["X=1", "Y=2"], "give the path of a program that you can execute"),
    ],
)
def test_variables_before_a_command(capsys, command, advice):
    assert main(["attach", "--func", "main", "--", *command]) == 127
    assert capsys.readouterr().err.splitlines()[1] == f"  {advice}"


def test_several_files_in_one_option(capsys, tmp_path):
    first = tmp_path / "a"
    first.write_text("")
    assert main(["attach", "--func", "f", "--binary", f"{first},{first}"]) == 1
    assert f"give each file by itself: --binary {first}\n" in capsys.readouterr().err


def test_a_program_whose_name_has_a_space_is_run(capsys, tmp_path):
    path = tmp_path / "a program"
    path.write_text("no program")
    path.chmod(0o755)
    assert main(["attach", "--func", "main", "--", str(path)]) == 1
    assert "one name" not in capsys.readouterr().err


CAPTURES = Path(__file__).resolve().parents[1] / "captures"

JOIN = "join comparisons by and, or: n > 1 and arg1 == 2"


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("n == 2 n == 3", JOIN),
        ("n == 2 (n == 3)", JOIN),
        ("(n == 2) n == 3", JOIN),
        ("(n == 2 n == 3)", JOIN),
        ("not n == 2 n == 3", JOIN),
        ("n == 2 adn n == 3", "write and: n > 1 and arg1 == 2"),
        ("(n == 2", "write ) where it ends"),
    ],
)
def test_two_comparisons_without_a_word_between(condition, hint):
    with pytest.raises(UsageError) as raised:
        syntax.condition(condition)
    assert raised.value.hint == hint


@pytest.mark.parametrize("salvage", [[], ["--salvage"]])
@pytest.mark.parametrize("program", ["gzip", "xz", "bzip2"])
def test_a_capture_that_is_compressed(capsys, tmp_path, program, salvage):
    data = gzip.decompress((CAPTURES / "fib.lbt.gz").read_bytes())
    packed = {"gzip": gzip, "xz": lzma, "bzip2": bz2}[program].compress(data)
    path = tmp_path / "x y.lbt.z"
    path.write_bytes(packed)
    assert main(["export", str(path), *salvage]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"lbtrace: {path} is compressed by {program}"
    assert second == f"  decompress it first: {program} -dc < '{path}' > NAME.lbt"


@pytest.mark.parametrize("kind", ["empty", "pipe"])
def test_a_file_that_cannot_define_markers(capsys, tmp_path, kind):
    path = tmp_path / "x.d"
    path.touch() if kind == "empty" else os.mkfifo(path)
    words = ["list", "--binary", "/bin/true", "--usdt", "--provider", str(path)]
    assert main(words) == 1
    assert "  name a file of provider definitions with --provider\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(300), "a program or library"),
        (b"\x1f\x8b\x08\x08" + bytes(range(256)), "binary"),
        (b"provider a { probe b(int c); };\0", "binary"),
    ],
)
@pytest.mark.parametrize("command", ["list", "attach"])
def test_a_binary_file_defines_no_markers(capsys, tmp_path, data, kind, command):
    path = tmp_path / "x.d"
    path.write_bytes(data)
    words = [command, "--binary", "/bin/true", "--usdt", "--provider", str(path)]
    assert main(words if command == "list" else [*words[:4], "a:b", *words[4:]]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"lbtrace: {path}: is {kind}, not text"
    assert second.startswith("  name a file of provider definitions with --provider: provider NAME")


def test_a_capture_whose_name_begins_with_a_minus(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-x.lbt").touch()
    assert main(["export", "-x.lbt"]) == 2
    assert capsys.readouterr().err.endswith("\n  write: ./-x.lbt, if that is the file\n")


def test_what_is_followed_is_a_process():
    with pytest.raises(UsageError, match="follow is about a process"):
        lbtrace.trace(binary="/bin/true", functions="main", follow=True)


def test_providers_are_about_markers():
    with pytest.raises(UsageError, match="providers= is about markers"):
        lbtrace.trace(command=["/bin/true"], functions="main", providers="x.d")


def test_the_same_value_twice_is_no_contradiction(capsys):
    assert main(["list", "--binary", "./nosuch", "--binary", "./nosuch"]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["x", "-1", "0", "9" * 5000])
def test_depths_of_an_export(capsys, number):
    assert main(["export", "x.lbt", f"--max-depth={number}"]) == 2
    error = capsys.readouterr().err
    assert "whole number" in error or "too large" in error


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lbtrace {lbtrace.__version__}\n"


def test_a_caller_of_sudo_that_is_not_known(capsys, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "nobdy")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert main(["attach", "--func", "f", "--", "./fib"]) == 2
    error = capsys.readouterr().err
    assert "SUDO_USER" in error
    assert "--user root" in error


@pytest.mark.parametrize(
    ("text", "time"), [(".3", 0.3), ("0.3", 0.3), (".5ms", 0.0005), ("2m", 120)]
)
def test_times(text, time):
    assert seconds(text) == time


def test_help_of_a_command(capsys):
    assert main(["attach", "--help"]) == 0
    shown = capsys.readouterr().out
    assert main(["help", "attach"]) == 0
    assert capsys.readouterr().out == shown
    for option in ("--func", "--source", "--usdt", "--line", "--at"):
        assert option in shown.partition("\n\n")[0]


@pytest.mark.parametrize("name", [None, "jsonl", "lbt", "yaml"])
def test_a_directory_is_no_output(tmp_path, name):
    with pytest.raises(UsageError, match="is a directory") as raised:
        format_for(name, str(tmp_path))
    assert raised.value.hint.endswith("/trace.jsonl" if name == "jsonl" else "/trace.lbt")


@pytest.mark.parametrize("words", ["-o x.lbt --format jsonl", "-o x.json --format lbt"])
def test_a_name_that_contradicts_the_format(words):
    with pytest.raises(UsageError, match=r"contradicts the name x"):
        format_for(words.split()[3], words.split()[1])


def test_a_name_may_have_any_text_format():
    assert format_for("jsonl", "x.json").name == "jsonl"
    assert format_for("racket", "x.txt").name == "racket"
    assert format_for("lbt", "/dev/stdout").name == "lbt"
    assert format_for(None, "x.lbt").is_capture


@pytest.mark.parametrize("captures", [True, False])
def test_what_is_offered_for_a_format(tmp_path, captures):
    """No capture where one is exported; a file in a directory that is named."""
    for name, path in (("yaml", None), (None, "out.yaml"), (None, str(tmp_path))):
        with pytest.raises(UsageError) as raised:
            format_for(name, path, captures=captures)
        assert raised.value.hint.endswith("lbt") == captures


def test_one_is_no_plural():
    one = Summary(calls=1, losses=Losses(nested_miss=1), processes=1, threads=1)
    assert describe(one)[0] == "1 call in 1 thread of 1 process, 1 event lost"

"""``lbtrace list`` on built programs."""

from __future__ import annotations

import argparse
import json

from lbtrace.commands import list as command


def run(capsys, *words):
    parser = argparse.ArgumentParser()
    command.arguments(parser)
    assert command.run(parser.parse_args(words)) == 0
    return capsys.readouterr().out


def test_signatures(build, capsys):
    out = run(capsys, "--binary", build("-g", "-O0"))
    assert "int fib(int n)" in out
    assert "void pointers(callback f, int (*rows)[3], char *const *argv" in out
    assert "= renamed" in out
    assert "_start" in out


def test_without_debug_information_names_alone(build, capsys):
    out = run(capsys, "--binary", build("-O1"), "--func", "fib")
    assert out.split()[2] == "fib"
    assert len(out.splitlines()) == 1


def test_sites_say_where_and_why(build, capsys):
    out = run(capsys, "--binary", build("-O0", "-fcf-protection"), "--func", "fib", "--sites")
    assert "+4 push rbp, emulated" in out


def test_json_is_one_array(build, capsys):
    rows = json.loads(run(capsys, "--binary", build("-g", "-O0"), "--json", "--sites"))
    fib = next(r for r in rows if r["name"] == "fib")
    assert fib["parameters"][0]["type"] == {
        "type": "integer",
        "name": "int",
        "size": 4,
        "signed": True,
    }
    assert fib["site"]["emulated"]
    assert fib["aliases"] == ["renamed"]
    plain = json.loads(run(capsys, "--binary", build("-O1"), "--json", "--func", "wide"))
    assert "parameters" not in plain[0]
    assert "site" not in plain[0]

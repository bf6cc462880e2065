"""``lbtrace list`` on built programs."""

from __future__ import annotations

import argparse
import json
import subprocess

import pytest

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


@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O2", "-gdwarf-4")])
def test_functions_are_defined_where_gdb_says(build, capsys, flags):
    program = build("-g", *flags)
    rows = [
        row for row in json.loads(run(capsys, "--binary", program, "--json")) if row.get("typed")
    ]
    script = "f = gdb.block_for_pc({}).function; print(f.symtab.fullname(), f.line)"
    words = [word for row in rows for word in ("-ex", f"python {script.format(row['address'])}")]
    done = subprocess.run(
        ["gdb", "-batch", "-nx", *words, program], capture_output=True, text=True, check=True
    )
    assert [f"{row['file']} {row['line']}" for row in rows] == done.stdout.splitlines()
    assert len(rows) > 5
    file, line = rows[0]["file"].split("/")[-1], rows[0]["line"]
    assert f"  at {file}:{line}" in run(capsys, "--binary", program, "--func", rows[0]["name"])


VIEWS = """
int more(int), said(const char *, int);
__attribute__((noinline)) void each(int fd)
{
	int left = 1000;

	while (left--) {
		int found = more(fd);
		if (found < 0) {
			said("none", fd);
			return;
		}
		said("found", found);
	}
}
"""


def test_what_changes_where_a_line_begins_is_not_shown(tmp_path, capsys):
    """Between two instructions gcc says that ``left`` is 1000, and then 999."""
    (tmp_path / "views.c").write_text(VIEWS)
    build = ["gcc", "-O2", "-g", "-c", "-o", "views.o", "views.c"]
    subprocess.run(build, cwd=tmp_path, check=True)
    link = ["gcc", "-shared", "-o", "views.so", "views.o"]
    subprocess.run(link, cwd=tmp_path, check=True)
    out = run(capsys, "--binary", str(tmp_path / "views.so"), "--lines", "views.c", "--json")
    rows = json.loads(out)
    entry = min(row["address"] for row in rows)
    assert [row["line"] for row in rows if row["address"] == entry] == [4, 5, 7]
    for row in rows[:3]:
        (left,) = (each for each in row["variables"] if each["name"] == "left")
        assert left["reason"] == "changes at this instruction"
        assert {"name": "fd", "type": "int"} in row["variables"]

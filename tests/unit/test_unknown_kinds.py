"""Captures of later versions: values of kinds that are not known here are unreadable."""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from lbtrace.commands import main
from lbtrace.model import Value
from lbtrace.sinks import FORMATS
from lbtrace.values import KINDS, find_kind
from tests.chunks import chunks, joined

CAPTURES = Path(__file__).resolve().parents[1] / "captures"


def renamed(data, tag, new):
    """A plan in which the kind with this tag has another one."""
    if isinstance(data, dict):
        made = {key: renamed(value, tag, new) for key, value in data.items()}
        return {**made, "type": new} if made.get("type") == tag else made
    return [renamed(each, tag, new) for each in data] if isinstance(data, list) else data


@pytest.fixture
def later(tmp_path):
    """A capture as a version would have written it that calls a kind something else."""

    def write(name, tag):
        data = gzip.decompress((CAPTURES / f"{name}.lbt.gz").read_bytes())
        (kind, payload), *rest = chunks(data)
        plan = renamed(msgspec.msgpack.decode(payload), tag, "novelty")
        path = tmp_path / "later.lbt"
        path.write_bytes(joined(data, [(kind, msgspec.msgpack.encode(plan)), *rest]))
        return str(path)

    return write


@pytest.mark.parametrize(
    ("capture", "tag", "name"),
    [
        *(
            ("kinds-c", "integer", "a="),
            ("kinds-c", "record", "p="),
            ("kinds-c", "character", "c="),
        ),
        *(("string", "string", "s="), ("vector", "vector", "v="), ("rust", "variants", "")),
        ("go127", "slice", ""),
    ],
)
def test_values_of_unknown_kinds_say_so(later, capfd, capture, tag, name):
    assert main(["export", later(capture, tag), "--format", "tree"]) == 0
    reason = "of the kind novelty, which this version does not know"
    assert f"{name}<{reason}>" in capfd.readouterr().out


@pytest.mark.parametrize("tag", [row.name for row in KINDS if row.type])
def test_every_format_writes_them(later, capfd, tag):
    for format, row in FORMATS.items():
        if row.is_capture:
            continue
        for capture in ("kinds-c", "rust-kinds", "go127"):
            assert main(["export", later(capture, tag), "--format", format]) == 0
            out = capfd.readouterr().out
            assert out
            if format == "jsonl":
                assert all(json.loads(line) for line in out.splitlines())


def test_the_table_is_complete():
    for row in KINDS:
        if row.type:
            assert find_kind(row.name).__struct_config__.tag == row.name
        if row.form or row.is_fetched:
            module = import_module(f"lbtrace.recognize.{row.name}")
            assert hasattr(module, "recognize") == bool(row.form)
            assert hasattr(module, "KindFetcher") == row.is_fetched
    assert find_kind("novelty") is None
    assert msgspec.structs.fields(Value)[1].name == "type"

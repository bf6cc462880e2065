"""The public names: each can be had, seen and completed, and none is loaded unasked."""

from __future__ import annotations

import ast
import pydoc
import rlcompleter
import subprocess
import sys
from pathlib import Path

import pytest

import lbtrace

ROOT = Path(__file__).resolve().parents[2]

FIRST = (
    *("Address", "Argument", "Call", "Capture", "Char", "Constant", "Elements", "Fields"),
    *("LbtraceError", "Losses", "Options", "Plan", "Referent", "Symbol", "Text", "Trace"),
    *("Unreadable", "Variant", "read_capture", "trace"),
)
"""What there was in the first version, and stays."""


def test_names() -> None:
    assert set(FIRST) <= set(lbtrace.__all__)
    assert sorted(lbtrace.__all__) == lbtrace.__all__
    for name in lbtrace.__all__:
        assert getattr(lbtrace, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'tracer'"):
        lbtrace.tracer  # noqa: B018


def test_every_error_is_public() -> None:
    from lbtrace import errors

    raised = {name for name in vars(errors) if name.endswith("Error")}
    assert raised == {name for name in lbtrace.__all__ if name.endswith("Error")}
    assert all(issubclass(getattr(lbtrace, name), lbtrace.LbtraceError) for name in raised)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((ROOT / "lbtrace/__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {a.name for node in block.body if isinstance(node, ast.ImportFrom) for a in node.names}
    loaded = {"load_ipython_extension"}  # by IPython alone
    assert seen - {"Any"} - loaded == {*lbtrace.__all__} - {"__version__"}


def test_dir_and_completion() -> None:
    assert {*lbtrace.__all__} <= {*dir(lbtrace)}
    assert all(name in lbtrace.__all__ or name.startswith("__") for name in dir(lbtrace))
    completer = rlcompleter.Completer({"lbtrace": lbtrace})
    assert completer.complete("lbtrace.read_c", 0) == "lbtrace.read_capture("


def test_help() -> None:
    shown = pydoc.plain(pydoc.render_doc(lbtrace))
    for name in set(lbtrace.__all__) - {"Datum", "__version__"}:
        assert name in shown, name
    assert "what is wrong" in shown


def test_a_star_import() -> None:
    names: dict[str, object] = {}
    exec("from lbtrace import *", names)
    assert {*lbtrace.__all__} <= {*names}


def test_importing_loads_nothing_else() -> None:
    """Of the command line's start this is the part in which Ctrl-C has no answer yet."""
    program = "import sys; old = {*sys.modules}; import lbtrace; print(*{*sys.modules} - old)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["lbtrace"]

"""What can be named to be traced: lbtrace.naming."""

from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module
from inspect import signature

import pytest

import lbtrace
from lbtrace.naming import NAMING, option_of


@pytest.mark.parametrize("name", NAMING)
def test_a_row_is_an_option_and_has_a_finder(name: str) -> None:
    naming = NAMING[name]
    assert naming.keyword in signature(lbtrace.trace).parameters
    assert callable(import_module(f"lbtrace.plan.{naming.finder}").find)
    assert naming.example or name == "func"


@pytest.mark.parametrize("command", ["attach", "count", "latency", "stacks", "report"])
def test_all_commands_that_trace_have_the_options(command: str) -> None:
    parser = ArgumentParser(prog=f"lbtrace {command}")
    import_module(f"lbtrace.commands.{command}").arguments(parser)
    given = {option for action in parser._actions for option in action.option_strings}
    assert given >= {*map(option_of, NAMING)}

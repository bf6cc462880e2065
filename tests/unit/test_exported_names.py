"""The public names, and that each can be had."""

import lbtrace


def test_names() -> None:
    assert sorted(lbtrace.__all__) == [
        "Address",
        "Argument",
        "Call",
        "Capture",
        "Char",
        "Constant",
        "Elements",
        "Fields",
        "LbtraceError",
        "Losses",
        "Options",
        "Plan",
        "Referent",
        "Symbol",
        "Text",
        "Trace",
        "Unreadable",
        "Variant",
        "read_capture",
        "trace",
    ]
    for name in lbtrace.__all__:
        assert getattr(lbtrace, name).__doc__

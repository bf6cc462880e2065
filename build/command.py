#!python
"""The command ``lbtrace``, as wheels install it: pip writes the interpreter into the first line.

The script that pip makes of an entry point imports the module re first: for these 10 ms Ctrl-C ends
the command with a traceback.
"""

import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from lbtrace.__main__ import run

run()

"""x86-64 processors."""

from lbtrace.machine.x86_64 import lazy_decoder

lazy_decoder.install()

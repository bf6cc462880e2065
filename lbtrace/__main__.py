"""``python -m lbtrace``."""

import sys

from lbtrace.commands import main

sys.exit(main())

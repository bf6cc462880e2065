"""For the tests of the runner itself: its modules are scripts beside each other."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

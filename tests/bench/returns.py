"""Compares the return sites of all functions of a binary with what objdump shows.

    python tests/bench/returns.py [FILE ...]

Prints for each file the number of functions, of returns, and of disagreements
(none is expected), and how long lbtrace and objdump took. Without arguments:
libc, python3 and libstdc++.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from bisect import bisect_left

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.sites import ProbeSites
from lbtrace.plan.code_context import CodeContext

FILES = ("libc.so.6", "/usr/bin/python3", "libstdc++.so.6")
LINE = re.compile(r"^\s*([0-9a-f]+):\t(?:[0-9a-f]{2} )+\s*\t(?:(?:bnd|repz|rep|notrack) )*ret\b")


def returns_by_objdump(path: str) -> list[int]:
    """The addresses of all near returns, in order."""
    command = ["objdump", "-d", "-w", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        return sorted(int(match[1], 16) for match in map(LINE.match, process.stdout) if match)


def compare(path: str) -> int:
    """Print the comparison of one file, and return the number of disagreements."""
    image = Image.open(path)
    table = symbols.read(image)
    start = time.perf_counter()
    expected = returns_by_objdump(image.path)
    by_objdump = time.perf_counter() - start
    around = CodeContext(image, table, Machine(image.machine))
    sites = ProbeSites(Machine(image.machine), around)
    start = time.perf_counter()
    found = hidden = tails = 0
    wrong: list[str] = []
    for function in table.functions:
        end = function.address + function.size
        exits = sites.exits(around.body(function))
        returns = [e.site.address for e in exits.exits if e.kind == "return"]
        mine = {address for address in returns if function.address <= address < end}
        low, high = bisect_left(expected, function.address), bisect_left(expected, end)
        theirs = set(expected[low:high])
        found += len(mine)
        hidden += bool(exits.hidden)
        tails += sum(e.kind == "tail" for e in exits.exits)
        if mine - theirs or (mine != theirs and not exits.hidden):
            wrong.append(f"  {function.name}: {[hex(a) for a in sorted(mine ^ theirs)]}")
    mine_took = time.perf_counter() - start
    print(
        f"{image.path}: {len(table.functions):,} functions, {found:,} returns"
        f" {tails:,} tail calls, {hidden:,} functions with exits that no probe watches,"
        f" {len(wrong)} disagreements;"
        f" {mine_took:.2f} s, objdump {by_objdump:.2f} s"
    )
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(min(1, sum(compare(path) for path in sys.argv[1:] or FILES)))

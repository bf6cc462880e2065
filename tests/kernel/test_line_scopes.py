"""Variables that hide others of their name; the program itself says what they hold."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import lbtrace

NESTED = r"""
#include <stdio.h>
int main(void)
{
	struct { int a, b; } node = {5, 7};

	for (int i = 0; i < 2; i++) {
		int found = node.a + i;

		if (found) {
			char node = found + 60;

			printf("%d\n", node);
		}
	}
	return node.a - 5;
}
"""

INNER_BLOCK = re.compile(r"(?m)^.*\(DIE \((0x\w+)\) DW_TAG_lexical_block\)$")


def put_beside(assembly: str) -> str:
    """Close the second block around the third one before that one begins, in debug information
    only, as gcc does at -O2 with blocks whose code it has taken apart."""
    _, outer, inner = INNER_BLOCK.finditer(assembly)
    (end,) = re.findall(rf"(?m)^.*# end of children of DIE {outer[1]}\n", assembly)
    taken = assembly.replace(end, "")
    return taken[: inner.start()] + end + taken[inner.start() :]


def test_a_block_is_inside_of_the_one_beside_it(tmp_path: Path) -> None:
    (tmp_path / "nested.c").write_text(NESTED)
    words = "gcc -O0 -g -dA -S nested.c -o nested.s"
    subprocess.run(words.split(), cwd=tmp_path, check=True)
    source = tmp_path / "nested.s"
    source.write_text(put_beside(source.read_text()))
    subprocess.run(["gcc", "nested.s", "-o", "nested"], cwd=tmp_path, check=True)
    program = str(tmp_path / "nested")
    printed = subprocess.run([program], stdout=-1, text=True, check=True).stdout.split()
    with lbtrace.trace(command=[program], lines="nested.c:13", locals=True) as points:
        shown = [[(a.name, a.value) for a in point.args] for point in points.calls()]
    assert [str(ord(each[0][1])) for each in shown] == printed
    for each in shown:
        assert [name for name, _ in each] == ["node", "found", "i", "node"]

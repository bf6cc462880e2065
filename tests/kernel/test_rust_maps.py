"""Maps and sets of Rust's library are shown as the program itself prints them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

KINDS = {
    "texts": ("HashMap<String, u32>", '(format!("k{x}"), x)'),
    "numbers": ("HashMap<u64, u16>", "(x as u64 * 7, x as u16)"),
    "small": ("HashMap<u8, i64>", "(x as u8, -(x as i64) << 33)"),
    "wide": ("HashMap<u16, [u64; 3]>", "(x as u16, [x as u64; 3])"),
    "lists": ("HashMap<&'static str, Vec<u8>>", "(NAMES[x as usize % 20], vec![x as u8 | 128])"),
    "set": ("HashSet<i32>", "-(x as i32)"),
    "text_set": ("HashSet<String>", 'format!("s{x}")'),
    "tree": ("BTreeMap<u32, String>", '(x, format!("t{x}"))'),
    "wide_tree": ("BTreeMap<u8, [i64; 5]>", "(x as u8, [x as i64 - 9; 5])"),
    "tree_set": ("BTreeSet<u16>", "x as u16"),
}
FLAT = {"numbers", "small", "set", "tree_set"}
"""Of these all elements are shown while they are few. Of others fewer than four are fetched, of
whatever buckets."""

NAMES = ", ".join(f'"{chr(97 + n) * 3}"' for n in range(20))
FUNCTIONS = "\n".join(
    f"#[inline(never)] fn {name}(held: &{type}) -> usize {{"
    f' println!("{name} {{}} {{:?}}", held.len(), held); held.len() }}'
    for name, (type, _) in KINDS.items()
)
CALLS = "\n".join(
    f"all += {name}(&(0..n).map(|x| {made}).collect());" for name, (_, made) in KINDS.items()
)
PROGRAM = f"""\
use std::collections::{{BTreeMap, BTreeSet, HashMap, HashSet}};
const NAMES: [&str; 20] = [{NAMES}];
{FUNCTIONS}
fn main() {{
    let mut all = 0;
    for n in [0u32, 1, 2, 3, 4, 6, 7, 8, 11, 12, 20, 200] {{ {CALLS} }}
    let mut held: HashMap<u64, u16> = (0..7).map(|x| (x, 1)).collect();
    held.remove(&3); held.remove(&5); all += numbers(&held); held.clear(); all += numbers(&held);
    let mut tree: BTreeMap<u32, String> = (0..40).map(|x| (x, "r".to_string())).collect();
    for x in 2..40 {{ tree.remove(&x); }} all += crate::tree(&tree);
    tree.clear(); all += crate::tree(&tree);
    println!("{{all}}");
}}
"""


@pytest.mark.parametrize("level", "03")
def test_elements_are_those_that_the_program_has(
    tmp_path: Path, level: str, tool: Callable[[str], str]
) -> None:
    (tmp_path / "maps.rs").write_text(PROGRAM)
    command = [tool("rustc"), "-g", "-Awarnings", "-C", f"opt-level={level}", "maps.rs"]
    subprocess.run(command, cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "lbtrace", "attach", "--returns", "none"]
    command += ["--func", f"/^maps::({'|'.join(KINDS)})$/", "--", str(tmp_path / "maps")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = re.findall(rf"^({'|'.join(KINDS)}) (\d+) (.*)$", done.stdout, re.MULTILINE)
    shown = re.findall(r" maps::(\w+)\(held=(.*?)\)(?: .*)?$", done.stdout, re.MULTILINE)
    assert [name for name, _ in shown] == [name for name, *_ in printed], done.stderr
    assert len(shown) == 12 * len(KINDS) + 4
    whole = 0
    for (name, length, truth), (_, value) in zip(printed, shown, strict=True):
        whole += check(name, int(length), read(truth), value)
    assert whole > 2 * len(KINDS), done.stdout


def read(text: str) -> Any:
    """What Rust or lbtrace writes: as Python's own."""
    return ast.literal_eval(text) if text != "{}" else {}


def check(name: str, length: int, truth: Any, value: str) -> bool:
    """Whether all elements are shown; those that are must be there, and the rest counted."""
    found = re.fullmatch(r"\{len=([\d,]+)(?:, ([\[{].*[\]}]))?\}", value)
    assert found is not None, value
    assert int(found[1].replace(",", "")) == length
    if not found[2]:
        assert not length or name not in FLAT or length > 6, (name, value)
        return not length
    more = re.search(r", … ([\d,]+) more([\]}])$", found[2])
    elements = found[2][: more.start()] + more[2] if more else found[2]
    # Bytes that are no text are escaped as in C.
    kept = re.sub(r'"\\x(..)"', lambda byte: f"[{int(byte[1], 16)}]", elements)
    held = read(kept)
    assert len(held) + (int(more[1].replace(",", "")) if more else 0) == length, (name, value)
    if isinstance(held, dict):
        assert {key: truth[key] for key in held} == held, (name, value)
    else:
        assert len({*held}) == len(held)
        assert {*held} <= {*truth}, (name, value)
    assert not (more and name in FLAT and length <= 6), (name, value)
    return more is None

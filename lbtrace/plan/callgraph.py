"""Which functions call each other directly, and which of them in a circle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.model import Function

CALL = re.compile(rb"[\xe8\xe9](?=(.{4}))|\xeb(?=(.))", re.DOTALL)
"""Whatever may be a ``call`` or ``jmp`` of x86-64 to a relative address."""

JUMP = re.compile(
    rb"(?:\xe9|\x0f[\x80-\x8f])(?=(.{4}))|\xeb(?=(.))"
    rb"|\xff[\x20-\x27\x60-\x67\xa0-\xa7\xe0-\xe7]",
    re.DOTALL,
)
"""Whatever may be a jump of x86-64: relative ones, or to where a register or memory says."""

WORD = Struct("<I")
"""An instruction of arm64: Arm Architecture Reference Manual, C4.1.66."""

Graph = dict[int, set[int]]
"""The addresses of functions, and of those that they call."""


def build(image: Image, stubs: Mapping[int, Stub], functions: Sequence[Function]) -> Graph:
    """Who of ``functions`` calls, or jumps to, whom of them.

    Instructions are hardly decoded: what looks like a call of the first byte of
    one of ``functions`` is taken for one. Calls through ``stubs`` count.
    """
    reached = _reached_arm64 if image.machine == "aarch64" else _reached_amd64
    targets = {f.address: f.address for f in functions}
    targets |= {at: stub.address for at, stub in stubs.items() if stub.address in targets}
    graph: Graph = {}
    for function in functions:
        called = graph.setdefault(function.address, set())
        code = image.code(function.address, function.size)
        found = map(targets.get, reached(code, function.address))
        called.update(target for target in found if target is not None)
    return graph


def _reached_amd64(code: bytes, start: int) -> Iterator[int]:
    """The addresses to which code at ``start`` may jump, or which it may call."""
    for match in CALL.finditer(code):
        distance = match[1] or match[2]
        behind = start + match.end() + len(distance)
        yield behind + int.from_bytes(distance, "little", signed=True)


def _reached_arm64(code: bytes, start: int) -> Iterator[int]:
    """The same; ``b`` and ``bl`` have six bits of code and a number of words."""
    for at, (word,) in enumerate(WORD.iter_unpack(code[: len(code) // 4 * 4])):
        if word & 0x7C000000 == 0x14000000:
            distance = word & 0x3FFFFFF
            yield start + 4 * (at + distance - (distance >> 25 << 26))


def jumps_away(image: Image, function: Function) -> bool:
    """Whether ``function`` may be left by a jump, as far as undecoded instructions tell."""
    code = image.code(function.address, function.size)
    leads = _jumps_arm64(code) if image.machine == "aarch64" else _jumps_amd64(code)
    return any(target is None or not 0 < target < len(code) for target in leads)


def _jumps_amd64(code: bytes) -> Iterator[int | None]:
    """Where in ``code``, or outside of it, jumps lead; None for those through pointers."""
    for match in JUMP.finditer(code):
        distance = match[1] or match[2]
        if distance is None:
            yield None
        else:
            behind = match.end() + len(distance)
            yield behind + int.from_bytes(distance, "little", signed=True)


def _jumps_arm64(code: bytes) -> Iterator[int | None]:
    for at, (word,) in enumerate(WORD.iter_unpack(code[: len(code) // 4 * 4])):
        if word & 0xFFFFFC1F == 0xD61F0000:  # br
            yield None
        elif word & 0xFC000000 == 0x14000000:  # b
            distance = word & 0x3FFFFFF
            yield 4 * (at + distance - (distance >> 25 << 26))


def cycles(graph: Graph) -> list[list[int]]:
    """The strongly connected parts of a graph that hold a cycle (Kosaraju's algorithm)."""
    reverse: Graph = {node: set() for node in graph}
    for node, called in graph.items():
        for other in called:
            reverse[other].add(node)
    seen: set[int] = set()
    order = [node for root in graph for node in _finished(graph, root, seen)]
    seen.clear()
    parts = (_finished(reverse, root, seen) for root in reversed(order))
    return [part for part in parts if len(part) > 1 or (part and part[0] in graph[part[0]])]


def _finished(graph: Graph, root: int, seen: set[int]) -> list[int]:
    """What is reached from ``root`` and not ``seen`` yet, in the order of leaving it."""
    if root in seen:
        return []
    seen.add(root)
    left: list[int] = []
    path: list[tuple[int, Iterable[int]]] = [(root, iter(graph[root]))]
    while path:
        node, ahead = path[-1]
        step = next((other for other in ahead if other not in seen), None)
        if step is None:
            left.append(node)
            path.pop()
        else:
            seen.add(step)
            path.append((step, iter(graph[step])))
    return left

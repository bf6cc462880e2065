"""Which functions call each other directly, and which of them in a circle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.model import Function

CALL = re.compile(rb"[\xe8\xe9](?=(.{4}))|\xeb(?=(.))", re.DOTALL)
"""Whatever may be a ``call`` or ``jmp`` of x86-64 to a relative address."""

Graph = dict[int, set[int]]
"""The addresses of functions, and of those that they call."""


def build(image: Image, stubs: Mapping[int, Stub], functions: Sequence[Function]) -> Graph:
    """Who of ``functions`` calls, or jumps to, whom of them.

    Instructions are not decoded: what looks like a call of the first byte of
    one of ``functions`` is taken for one. Calls through ``stubs`` count.
    """
    if image.machine != "x86_64":
        return {f.address: set() for f in functions}
    targets = {f.address: f.address for f in functions}
    targets |= {at: stub.address for at, stub in stubs.items() if stub.address in targets}
    graph: Graph = {}
    for function in functions:
        called = graph.setdefault(function.address, set())
        for match in CALL.finditer(image.code(function.address, function.size)):
            distance = match[1] or match[2]
            behind = function.address + match.end() + len(distance)
            target = targets.get(behind + int.from_bytes(distance, "little", signed=True))
            if target is not None:
                called.add(target)
    return graph


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

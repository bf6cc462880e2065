"""Which functions call each other directly, and which of them in a circle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from lbtrace.elf.image import Image
from lbtrace.elf.plt import Stub
from lbtrace.machine import Machine
from lbtrace.model import Function

T = TypeVar("T")

Node: TypeAlias = tuple[int, int]
"""A function, by the position of its binary and its address there."""

Graph: TypeAlias = dict[Node, set[Node]]
"""Functions, and those that they call."""


class TracedBinary(NamedTuple):
    """A binary, its PLT stubs and the functions selected in it."""

    image: Image
    stubs: Mapping[int, Stub]
    functions: Sequence[Function]


def build(parts: Sequence[TracedBinary]) -> Graph:
    """Return the direct call graph of all binaries: caller to callees.

    Instructions are hardly decoded: what looks like a call of the first byte of
    one of the functions is taken for one. Calls through stubs count, those of
    another part's functions by their name.
    """
    offered = {
        name: (number, f.address)
        for number, part in enumerate(parts)
        for f in part.functions
        for name in (f.name, *f.aliases)
    }
    graph: Graph = {}
    for number, (image, stubs, functions) in enumerate(parts):
        reached = Machine(image.machine).jump_patterns.reached
        targets = {f.address: (number, f.address) for f in functions}
        for at, stub in stubs.items():
            if stub.address in targets:
                targets[at] = (number, stub.address)
            elif not stub.address and stub.name in offered:
                targets[at] = offered[stub.name]
        for function in functions:
            called = graph.setdefault((number, function.address), set())
            code = image.code(function.address, function.size)
            found = map(targets.get, reached(code, function.address))
            called.update(target for target in found if target is not None)
    return graph


def recursive(parts: Sequence[TracedBinary]) -> dict[Node, str]:
    """Return the functions that call each other in a circle, and how, in words."""
    names = {
        (number, f.address): f.name for number, part in enumerate(parts) for f in part.functions
    }
    return {
        node: _recursion(cycle, node, names) for cycle in cycles(build(parts)) for node in cycle
    }


def _recursion(cycle: Sequence[Node], node: Node, names: Mapping[Node, str]) -> str:
    others = [names[n] for n in cycle[:2] if n != node]
    more = f" and {len(cycle) - 2:,} more" if len(cycle) > 2 else ""
    return f"calls itself through {others[0]}{more}" if others else "calls itself"


def jumps_away(image: Image, function: Function) -> bool:
    """Return whether ``function`` may be left by a jump, judged by its undecoded bytes."""
    code = image.code(function.address, function.size)
    leads = Machine(image.machine).jump_patterns.jumps(code)
    return any(target is None or not 0 < target < len(code) for target in leads)


def cycles(graph: Mapping[T, set[T]]) -> list[list[T]]:
    """Return the strongly connected parts of a graph that hold a cycle (Kosaraju's algorithm)."""
    reverse: dict[T, set[T]] = {node: set() for node in graph}
    for node, called in graph.items():
        for other in called:
            reverse[other].add(node)
    seen: set[T] = set()
    order = [node for root in graph for node in _finished(graph, root, seen)]
    seen.clear()
    parts = (_finished(reverse, root, seen) for root in reversed(order))
    return [part for part in parts if len(part) > 1 or (part and part[0] in graph[part[0]])]


def _finished(graph: Mapping[T, set[T]], root: T, seen: set[T]) -> list[T]:
    """What is reached from ``root`` and not ``seen`` yet, in the order of leaving it."""
    if root in seen:
        return []
    seen.add(root)
    left: list[T] = []
    path: list[tuple[T, Iterable[T]]] = [(root, iter(graph[root]))]
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

"""Which functions call each other directly, and which of them in a circle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias, TypeVar

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

T = TypeVar("T")

Node: TypeAlias = tuple[int, int]
"""A function, by the position of its binary and its address there."""

Graph: TypeAlias = dict[Node, set[Node]]
"""Functions, and those that they call."""


class Part(NamedTuple):
    """What of a binary takes part."""

    image: Image
    stubs: Mapping[int, Stub]
    functions: Sequence[Function]


def build(parts: Sequence[Part]) -> Graph:
    """Who of the functions of all parts calls, or jumps to, whom of them.

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
        reached = _reached_arm64 if image.machine == "aarch64" else _reached_amd64
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


def recursive(parts: Sequence[Part]) -> dict[Node, str]:
    """The functions that call each other in a circle, and how, in words."""
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


def cycles(graph: Mapping[T, set[T]]) -> list[list[T]]:
    """The strongly connected parts of a graph that hold a cycle (Kosaraju's algorithm)."""
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

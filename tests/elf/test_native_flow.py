"""The native reading of control flow against the one in Python, function by function."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from iced_x86 import Decoder

from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.machine import Machine
from lbtrace.machine.code import Code
from lbtrace.machine.function_code import Around, Body
from lbtrace.machine.x86_64 import exits, native_flow
from lbtrace.machine.x86_64.control_flow import Flow
from lbtrace.machine.x86_64.never_returns import never_returns
from lbtrace.plan.placement import Placer


class Reference:
    """Follows code in Python."""

    @contextmanager
    def follow(
        self, parts: Sequence[Code], around: Around, pads: Sequence[int] = ()
    ) -> Iterator[Flow]:
        yield Flow(parts, around, pads)

    def never_returns(self, body: Body, around: Around) -> bool:
        return never_returns(body, around)


FILES = ("libc.so.6", "libcrypto.so.3", "libstdc++.so.6", "redis-server", "etcd-server", "node")


def compare(path: str, count: int, seed: str) -> tuple[int, int]:
    """Compare the exits of functions; return how many, and how many native code followed."""
    image = Image.open(path)
    table = symbols.read(image)
    functions = [*table.functions]
    chosen = random.Random(seed).sample(functions, min(count, len(functions)))
    machine = Machine(image.machine)
    placer, other = (Placer(image, table, machine) for _ in range(2))
    for finder in (other.sites._finder, other.around._finder):
        assert isinstance(finder, exits.Finder)
        finder._flows = Reference()  # type: ignore[assignment]
    native = 0
    for function in chosen:
        body = placer.around.body(function)
        with native_flow.Flows().follow(body.parts, placer.around, body.pads) as flow:
            native += isinstance(flow, native_flow.NativeFlow)
            certain = flow.certain()
        assert certain == Flow(body.parts, placer.around, body.pads).certain(), function.name
        ends = native_flow.Flows().never_returns(body, placer.around)
        assert ends == never_returns(body, placer.around), f"{path} {function.name}"
        expected = other.sites.exits(other.around.body(function))
        assert placer.sites.exits(body) == expected, f"{path} {function.name}"
    return len(chosen), native


@pytest.mark.parametrize("name", FILES)
def test_functions_are_left_where_python_finds_it(
    name: str, installed: Callable[[str], str]
) -> None:
    compared, native = compare(installed(name), 300, f"{name}{random.random()}")
    assert native > 0.9 * compared


BASE = 0x1000
APART = 0x1100
ODD = (
    *("e800000000", "e810000000", "e8f0ffffff", "ff1510000000", "ebfe", "eb02", "7502", "74f0"),
    *("e900010000", "e9f8000000", "0f85f8000000", "e302", "cc", "f4", "0f0b", "0f05", "c3"),
    *("90", "6690", "0f1f00", "55", "5d", "4889e5", "c9", "4883ec18", "4883c418", "488d65f0"),
    *("c5f877", "dd442408", "06", "ffe0", "ff25a0000000", "488d0500000000", "e800ff0000", "c20800"),
)


class Anything:
    """Code of which functions return by chance, with a part apart."""

    settled = True

    def __init__(self, apart: Code) -> None:
        self.apart = apart

    def more(self, address: int) -> Code | None:
        inside = 0 <= address - APART < len(self.apart.code)
        return self.apart if inside and address % 3 else None

    def landings(self, part: Code) -> list[int]:
        size = len(part.code)
        return [part.address + size // 2] if size % 3 else []

    def read(self, address: int, size: int) -> bytes:
        return b""

    def word(self, address: int) -> int | None:
        return None

    def ends(self, address: int, pointer: bool = False) -> bool:
        return (address >> 3 ^ address) % 3 == pointer


@pytest.mark.parametrize("seed", [1, int(os.environ["LBTRACE_SEED"])])
def test_any_order_of_instructions_is_followed_alike(seed: int) -> None:
    choose = random.Random(seed)
    image = Image.open("libc.so.6")
    pieces = [bytes.fromhex(piece) for piece in ODD] * 3
    for function in choose.sample([*symbols.read(image).functions], 40):
        raw = image.code(function.address, min(function.size, 200))
        pieces += [raw[i.ip : i.next_ip] for i in Decoder(64, raw, ip=0) if not i.is_invalid]
    flows, native = native_flow.Flows(), 0
    for _ in range(3000):
        code, apart = (b"".join(choose.choices(pieces, k=choose.randrange(2, 40))) for _ in "ab")
        part = Code(code[:256], BASE, 0, BASE + len(code[:256]))
        around = Anything(Code(apart, APART, 0, APART + len(apart)))
        pads = (BASE + choose.randrange(len(code)),) * choose.randrange(2)
        expected = described(Flow([part], around, pads))
        with flows.follow([part], around, pads) as flow:
            native += isinstance(flow, native_flow.NativeFlow)
            assert described(flow) == expected, (code.hex(), apart.hex(), pads)
        body = Body((part, around.apart), pads)
        ends = flows.never_returns(body, around)
        assert ends == never_returns(body, around), (code.hex(), apart.hex(), pads)
    assert native > 1000


def described(flow: Flow | native_flow.NativeFlow) -> object:
    """All that is known of code."""
    known = sorted(flow.instructions)
    each = [
        (ip, flow.before.get(ip), [*flow.sources.get(ip, ())], flow.stack_at(ip))
        + (flow.is_certain(flow.instructions[ip]), flow.is_in_loop(ip, 1000))
        for ip in known
    ]
    outs = [(ip, out.kind, out.sinks, out.computed) for ip, out in flow.outs.items()]
    return each, outs, flow.hidden, flow.restarts, flow.parts


if __name__ == "__main__":
    import sys

    for path in sys.argv[2:]:
        print(path, *compare(path, int(sys.argv[1]), "all"), flush=True)

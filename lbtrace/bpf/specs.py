"""Turns the probes of a plan into the specs that the BPF programs read.

``struct lbt_spec`` and the meaning of a cookie: ``bpf_src/lbtrace.h``.
"""

from __future__ import annotations

from typing import Any

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.errors import UsageError
from lbtrace.model import Condition, Fetch, Plan, Probe

REGISTERS = {
    "x86_64": (
        *("di", "si", "dx", "cx", "r8", "r9", "ax", "bx", "bp", "sp"),
        *("r10", "r11", "r12", "r13", "r14", "r15", "ip"),
    ),
    "aarch64": (*(f"x{n}" for n in range(31)), "sp", "pc"),
}
"""The numbers of the registers: ``bpf_src/registers.h``."""

ARGUMENTS = {
    "x86_64": REGISTERS["x86_64"][:6],
    "aarch64": REGISTERS["aarch64"][:6],
}
RESULTS = {"x86_64": ("ax", "dx"), "aarch64": ("x0", "x1")}
"""What an event holds where its spec is plain: ``send_plain`` in trace.bpf.c."""

OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
"""``enum lbt_operator``."""

SMALL_BLOB = 128
"""Up to this many bytes of strings a record needs only its small room."""


class Specs:
    """The distinct specs of a plan, and the cookies of its probes."""

    def __init__(self, plan: Plan) -> None:
        self._machine = plan.binary.machine
        self._numbers: dict[object, int] = {}
        self._specs: list[Any] = []
        self.generic = False
        self.blobs = False
        self.cookies = [self._cookie(number, probe) for number, probe in enumerate(plan.probes)]

    def __len__(self) -> int:
        return len(self._specs)

    def __iter__(self) -> Any:
        """Each as a pointer to a ``struct lbt_spec``."""
        return iter(self._specs)

    def _cookie(self, number: int, probe: Probe) -> int:
        delta = probe.site.sp_delta
        entry = self._add(probe.fetches, probe.conditions, delta, ARGUMENTS[self._machine])
        moved = delta if probe.kind == "return" else 0
        after = self._add(probe.result_fetches, (), moved, RESULTS[self._machine])
        return number | entry << 32 | after << 48

    def _add(
        self,
        fetches: tuple[Fetch, ...],
        conditions: tuple[Condition, ...],
        delta: int,
        registers: tuple[str, ...],
    ) -> int:
        plain = not conditions and fetches == tuple(map(_register, registers[: len(fetches)]))
        key = delta if plain else (delta, fetches, conditions)
        place = (registers, key)
        if place not in self._numbers:
            self._numbers[place] = len(self._specs)
            self._specs.append(self._make(() if plain else fetches, conditions, delta, plain))
            if len(self._specs) > 0xFFFF:
                raise UsageError(
                    "the traced functions need more than 65,535 different kinds of probe",
                    "trace fewer functions, or use --args none",
                )
        return self._numbers[place]

    def _make(
        self,
        fetches: tuple[Fetch, ...],
        conditions: tuple[Condition, ...],
        delta: int,
        plain: bool,
    ) -> Any:
        spec = ffi.new("struct lbt_spec *")
        spec.plain = plain
        spec.sp_delta = delta
        spec.fetches = len(fetches)
        spec.conditions = len(conditions)
        spec.large = sum(f.limit for f in fetches) > SMALL_BLOB
        for slot, fetch in zip(spec.fetch, fetches, strict=False):
            _fill(slot, fetch, REGISTERS[self._machine])
        for slot, condition in zip(spec.condition, conditions, strict=False):
            slot.slot = condition.slot
            slot.op = OPERATORS.index(condition.operator)
            slot.is_signed = condition.signed
            slot.group = condition.group
            slot.operand = condition.operand & (1 << 64) - 1
        self.generic |= not plain
        self.blobs |= any(f.read in ("string", "bytes") for f in fetches)
        return spec


def _register(name: str) -> Fetch:
    return Fetch(register=name)


def _fill(slot: Any, fetch: Fetch, registers: tuple[str, ...]) -> None:
    slot.base = {
        "register": lib.LBT_REGISTER,
        "stack": lib.LBT_STACK,
        "constant": lib.LBT_CONSTANT,
    }[fetch.base]
    slot.read = {
        "value": lib.LBT_VALUE,
        "integer": lib.LBT_INTEGER,
        "string": lib.LBT_STRING,
        "bytes": lib.LBT_BYTES,
    }[fetch.read]
    slot.reg = registers.index(fetch.register) if fetch.base == "register" else 0
    slot.size = fetch.size
    slot.is_signed = fetch.signed
    slot.derefs = len(fetch.derefs)
    for number, offset in enumerate(fetch.derefs):
        slot.deref[number] = offset
    slot.length_from = fetch.length_from if fetch.length_from >= 0 else 0xFF
    slot.limit = fetch.limit
    slot.offset = fetch.offset

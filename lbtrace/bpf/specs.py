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
        *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8"),
        *("ax", "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp"),
    ),
    "aarch64": (*(f"x{n}" for n in range(31)), "sp", "pc"),
}
"""The words of ``struct pt_regs``: arch/x86/include/asm/ptrace.h, and
arch/arm64/include/uapi/asm/ptrace.h."""

ARGUMENTS = {
    "x86_64": ("di", "si", "dx", "cx", "r8", "r9"),
    "aarch64": tuple(f"x{n}" for n in range(6)),
}
RESULTS = {"x86_64": ("ax", "dx"), "aarch64": ("x0", "x1")}
"""What an event holds where its spec is plain: ``send_plain`` in trace.bpf.c."""

RELATIONS = {
    "==": lib.LBT_EQUAL,
    "!=": lib.LBT_LESS | lib.LBT_GREATER,
    "<": lib.LBT_LESS,
    "<=": lib.LBT_LESS | lib.LBT_EQUAL,
    ">": lib.LBT_GREATER,
    ">=": lib.LBT_GREATER | lib.LBT_EQUAL,
}
"""The relations of value and operand in which a comparison holds."""


class Specs:
    """The distinct specs of a plan, and the cookies of its probes.

    What they need of the programs: ``generic``, some are not plain; ``memory``,
    some read the process's memory; ``texts``, the bits of ``enum lbt_texts``.
    """

    def __init__(self, plan: Plan) -> None:
        self._machine = plan.binary.machine
        self._numbers: dict[object, int] = {}
        self._specs: list[Any] = []
        self.generic = False
        self.texts = 0
        self.memory = False
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
        key = (delta, len(fetches)) if plain else (delta, fetches, conditions)
        place = (registers, key)
        if place not in self._numbers:
            self._numbers[place] = len(self._specs)
            self._specs.append(self._make(fetches, conditions, delta, plain))
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
        texts = [fetch for fetch in fetches if fetch.read in ("string", "bytes")]
        if texts:
            spec.texts = _texts(texts)
            self.texts |= 1 << spec.texts
        for number, (slot, fetch) in enumerate(zip(spec.fetch, fetches, strict=False)):
            _fill(slot, fetch, REGISTERS[self._machine])
            if fetch.read in ("string", "bytes"):
                slot.chunk = spec.text_slots.bit_count()
                spec.text_slots |= 1 << number
        for slot, condition in zip(spec.condition, conditions, strict=False):
            slot.slot = condition.slot
            slot.relations = RELATIONS[condition.operator]
            slot.is_signed = condition.signed
            slot.group = condition.group
            slot.operand = condition.operand & (1 << 64) - 1
        self.generic |= not plain
        self.memory |= any(fetch.derefs or fetch.read != "value" for fetch in fetches)
        return spec


def _texts(fetches: list[Fetch]) -> int:
    """The smallest ``enum lbt_texts`` that holds these strings and bytes."""
    if any(fetch.limit >= lib.LBT_SMALL_CHUNK for fetch in fetches):
        return int(lib.LBT_LARGE_1 if len(fetches) == 1 else lib.LBT_LARGE_6)
    return int({1: lib.LBT_SMALL_1, 2: lib.LBT_SMALL_2}.get(len(fetches), lib.LBT_SMALL_6))


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

"""Turns the probes of a plan into the specs that the BPF programs read.

``struct lbt_spec`` and the meaning of a cookie: ``bpf_src/lbtrace.h``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lbtrace.bpf._libbpf import ffi, lib
from lbtrace.errors import UsageError
from lbtrace.model import OF_FUNCTIONS, Condition, Fetch, GoLayout, Plan, Probe, Site

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
    "startswith": lib.LBT_EQUAL,
    "lacks": lib.LBT_LESS | lib.LBT_GREATER,
}
"""The relations of value and operand in which a comparison holds."""

SLOTS = {
    "pid": lib.LBT_SLOT_PID,
    "tid": lib.LBT_SLOT_TID,
    "duration": lib.LBT_SLOT_DURATION,
    "comm": lib.LBT_SLOT_COMM,
}
"""What conditions compare beside fetched values."""

TEXT_SUBJECTS = ("text", "comm")


class _Pairing(NamedTuple):
    """How a probe takes part in what its call's entry leaves for its return."""

    hooked: bool
    filtered: bool
    keeps: str


class Specs:
    """The distinct specs of a plan, and the cookies of its probes.

    What they need of the programs: ``generic``, some are not plain; ``memory``,
    some read the process's memory; ``jumps``, some stand on a jump whose target is
    computed; ``texts``, the bits of ``enum lbt_texts``; ``go``, some tell
    goroutines apart.
    """

    def __init__(self, plan: Plan) -> None:
        self._machine = plan.binaries[0].machine
        self._numbers: dict[object, int] = {}
        self._specs: list[Any] = []
        self.generic = False
        self.jumps = False
        self.texts = 0
        self.memory = False
        self.wide = any(
            max(len(p.fetches), len(p.result_fetches)) > lib.LBT_VALUES for p in plan.probes
        )
        self.filtered = any(p.conditions or p.result_conditions for p in plan.probes)
        self.deferred = any(p.result_conditions for p in plan.probes)
        self.related = any(
            fetch.base in ("slot", "kept") or fetch.plus >= 0
            for p in plan.probes
            for fetch in (*p.fetches, *p.result_fetches)
        ) or any(c.other >= 0 for p in plan.probes for c in (*p.conditions, *p.result_conditions))
        self.compared_texts = any(
            c.subject in ("text", "comm")
            for p in plan.probes
            for c in (*p.conditions, *p.result_conditions)
        )
        self.keeping = any(p.keeps for p in plan.probes)
        layouts = [plan.goroutines(probe) for probe in plan.probes]
        self.go = any(layouts)
        self.cookies = [
            self._cookie(number, probe, go)
            for number, (probe, go) in enumerate(zip(plan.probes, layouts, strict=True))
        ]

    def __len__(self) -> int:
        return len(self._specs)

    def __iter__(self) -> Any:
        """Each as a pointer to a ``struct lbt_spec``."""
        return iter(self._specs)

    def _cookie(self, number: int, probe: Probe, go: GoLayout | None) -> int:
        delta = probe.site.sp_delta
        deferred = bool(probe.result_conditions)
        pairing = _Pairing(
            hooked=probe.kind == "call" and (self.filtered or bool(probe.keeps)),
            filtered=self.filtered and probe.kind in OF_FUNCTIONS,
            keeps=probe.keeps,
        )
        entry = self._add(
            probe.fetches,
            probe.conditions,
            delta,
            ARGUMENTS[self._machine],
            pairing,
            deferred,
            probe.site if probe.kind in ("call", "entry") else None,
            go,
        )
        leaving = probe.site if probe.kind in ("return", "tail", "landing") else None
        moved = leaving.sp_delta if leaving else 0
        conditions = probe.result_conditions if probe.kind != "entry" else ()
        results = RESULTS[self._machine]
        after = self._add(
            probe.result_fetches,
            conditions,
            moved,
            results,
            pairing,
            site=leaving,
            go=go,
        )
        return number | entry << 32 | after << 48

    def _add(
        self,
        fetches: tuple[Fetch, ...],
        conditions: tuple[Condition, ...],
        delta: int,
        registers: tuple[str, ...],
        pairing: _Pairing,
        deferred: bool = False,
        site: Site | None = None,
        go: GoLayout | None = None,
    ) -> int:
        sent_as_is = not self.filtered and not pairing.keeps
        plain = sent_as_is and fetches == tuple(map(_register, registers[: len(fetches)]))
        key = (delta, len(fetches)) if plain else (delta, fetches, conditions, deferred)
        jump = (site.unless, site.only, site.jump, site.test) if site else (0, 0, None, None)
        place = (registers, jump, go and (go.g, go.goid, go.stack_high), pairing, key)
        if place not in self._numbers:
            self._numbers[place] = len(self._specs)
            self._specs.append(self._make(fetches, conditions, delta, plain, deferred))
            if go:
                _locate_goroutine(self._specs[-1], go)
            self._specs[-1].hooked = pairing.hooked
            self._specs[-1].filtered = pairing.filtered
            if pairing.keeps:
                self._specs[-1].keeps = REGISTERS[self._machine].index(pairing.keeps) + 1
            if site:
                self._set_jump(self._specs[-1], site)
            if len(self._specs) > 0xFFFF:
                raise UsageError(
                    "the traced functions need more than 65,535 different kinds of probe",
                    "trace fewer functions, or use --args none",
                )
        return self._numbers[place]

    def _set_jump(self, spec: Any, site: Site) -> None:
        spec.unless, spec.only = site.unless, site.only
        if site.test is not None:
            self.jumps = True
            spec.jump.tested = REGISTERS[self._machine].index(site.test.register) + 1
            spec.jump.mask, spec.jump.minus = site.test.mask, site.test.minus
            spec.jump.nonzero = site.test.nonzero
        if site.jump is None:
            return
        self.jumps = True
        self.memory |= site.jump.loads
        jump, registers = site.jump, REGISTERS[self._machine]
        spec.jump.computed = True
        spec.jump.base = registers.index(jump.base) if jump.base else lib.LBT_NO_REGISTER
        spec.jump.index = registers.index(jump.index) if jump.index else lib.LBT_NO_REGISTER
        spec.jump.shift = jump.scale.bit_length() - 1
        spec.jump.loads = jump.loads
        spec.jump.offset = jump.offset
        for number, (low, high) in enumerate(jump.inside[: lib.LBT_RANGES]):
            spec.jump.low[number], spec.jump.high[number] = low, high

    def _make(
        self,
        fetches: tuple[Fetch, ...],
        conditions: tuple[Condition, ...],
        delta: int,
        plain: bool,
        deferred: bool,
    ) -> Any:
        spec = ffi.new("struct lbt_spec *")
        spec.plain = plain
        spec.sp_delta = delta
        spec.fetches = len(fetches)
        spec.more = max(0, len(fetches) - lib.LBT_VALUES)
        spec.deferred = deferred
        texts = [fetch for fetch in fetches if fetch.read in ("string", "bytes")]
        if texts:
            spec.texts = _texts(texts)
            self.texts |= 1 << spec.texts
        for slot, fetch in zip(spec.fetch, fetches, strict=False):
            _fill(slot, fetch, REGISTERS[self._machine])
        slots = [n for n, f in enumerate(fetches) if f.read in ("string", "bytes")]
        ffi.buffer(spec.text_slot)[:] = bytes(slots).ljust(lib.LBT_CHUNKS, b"\xff")
        spec.text_slots = sum(1 << n for n in slots)
        spec.conditions = len(conditions)
        conditions = tuple(sorted(conditions, key=lambda c: c.subject not in TEXT_SUBJECTS))
        compared = list(
            dict.fromkeys(
                (c.text, c.operator in ("startswith", "lacks"))
                for c in conditions
                if c.subject in TEXT_SUBJECTS
            )
        )
        if len(compared) > lib.LBT_TEXTS or len(conditions) > lib.LBT_CONDITIONS:
            raise UsageError(
                f"the filter compares with more than {lib.LBT_TEXTS} texts"
                f" or more than {lib.LBT_CONDITIONS} times",
                "use a simpler --where",
            )
        for (text, prefix), slot in zip(compared, spec.text, strict=False):
            ffi.buffer(slot.words)[: len(text)] = text
            counting = len(text) if prefix else ffi.sizeof(slot.masks)
            ffi.buffer(slot.masks)[:counting] = b"\xff" * counting
        for slot, condition in zip(spec.condition, conditions, strict=False):
            slot.slot = SLOTS.get(condition.subject, condition.slot)
            slot.relations = RELATIONS[condition.operator]
            slot.is_signed = condition.signed
            slot.group = condition.group
            slot.operand = condition.operand & (1 << 64) - 1
            slot.other = condition.other + 1
            if condition.subject in TEXT_SUBJECTS:
                slot.prefix = condition.operator in ("startswith", "lacks")
                slot.text = compared.index((condition.text, bool(slot.prefix))) + 1
                slot.length = len(condition.text)
        self.generic |= not plain
        self.memory |= any(fetch.derefs or fetch.read != "value" for fetch in fetches)
        return spec


def _texts(fetches: list[Fetch]) -> int:
    """The smallest ``enum lbt_texts`` that holds these strings and bytes."""
    if any(fetch.limit >= lib.LBT_SMALL_CHUNK for fetch in fetches):
        return int(lib.LBT_LARGE_1 if len(fetches) == 1 else lib.LBT_LARGE_8)
    return int({1: lib.LBT_SMALL_1, 2: lib.LBT_SMALL_2}.get(len(fetches), lib.LBT_SMALL_8))


def _locate_goroutine(spec: Any, go: GoLayout) -> None:
    spec.go = lib.LBT_GO_REGISTER if go.g == "register" else lib.LBT_GO_THREAD
    spec.go_goid = go.goid
    spec.go_stack_high = go.stack_high


def _register(name: str) -> Fetch:
    return Fetch(register=name)


def _fill(slot: Any, fetch: Fetch, registers: tuple[str, ...]) -> None:
    slot.base = {
        "register": lib.LBT_REGISTER,
        "stack": lib.LBT_STACK,
        "slot": lib.LBT_SLOT,
        "kept": lib.LBT_SLOT,
        "constant": lib.LBT_CONSTANT,
    }[fetch.base]
    slot.read = {
        "value": lib.LBT_VALUE,
        "integer": lib.LBT_INTEGER,
        "string": lib.LBT_STRING,
        "bytes": lib.LBT_BYTES,
    }[fetch.read]
    slot.reg = registers.index(fetch.register) if fetch.base == "register" else 0
    if fetch.base == "slot":
        slot.reg = fetch.earlier
    elif fetch.base == "kept":
        slot.reg = lib.LBT_SLOT_KEPT
    slot.plus = fetch.plus + 1
    slot.factor = fetch.factor
    slot.size = fetch.size
    slot.is_signed = fetch.signed
    if fetch.read in ("value", "integer"):
        bits = fetch.bit_size or 8 * (fetch.size if fetch.read == "integer" else 8)
        slot.left = 64 - bits - fetch.bit_offset
        slot.right = 64 - bits
    slot.derefs = len(fetch.derefs)
    for number, offset in enumerate(fetch.derefs):
        slot.deref[number] = offset
    slot.length_from = fetch.length_from if fetch.length_from >= 0 else 0xFF
    slot.scale = fetch.scale
    slot.optional = fetch.optional
    slot.limit = fetch.limit
    slot.offset = fetch.offset

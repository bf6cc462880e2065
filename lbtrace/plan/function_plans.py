"""The plan for the functions that finders have found."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from lbtrace.elf.image import Image
from lbtrace.elf.memory import PF_W
from lbtrace.errors import BinaryError, UsageError, option
from lbtrace.model import Function, Plan
from lbtrace.plan import within
from lbtrace.plan.binary_plan import (
    AMID,
    ASKED_AGAIN,
    DATA,
    HELD,
    PATCHED,
    UNANSWERED,
    TracedBinary,
    plan_binary,
)
from lbtrace.plan.found import Outer
from lbtrace.plan.functions import merge, read_symbols
from lbtrace.plan.merge import empty, merge_plans
from lbtrace.plan.selection import Selection
from lbtrace.text import some

LIMIT = 50_000
"""Functions a plan may hold without ``force``."""


def plan_functions(
    images: Sequence[Image], found: Sequence[Function | Outer], selection: Selection
) -> Plan:
    """Return the plan for what was ``found``, without what ``selection`` excludes. Raises
    `LbtraceError`: of what is asked for, or where none of the functions can be traced."""
    parts, notes = _select(images, found, selection)
    if selection.libcalls:
        from lbtrace.plan import called_functions  # imported here because few ask for them

        parts, said = called_functions.move(parts, selection)
        notes += said
    chosen = [part.functions for part in parts]
    paths = " and ".join(image.path for image in images)
    for image, functions in zip(images, chosen, strict=True):
        _check_writable(image, functions)
    _check_request(selection, sum(map(len, chosen)), paths)
    if selection.returns == "uretprobe":
        from lbtrace.plan import uretprobe_guard  # imported here because few ask for them

        notes += uretprobe_guard.check(images, selection)
    plans: list[Plan] = []
    mismatch: UsageError | None = None
    for number, part in enumerate(parts):
        if selection.libcalls and not part.functions:
            plans.append(empty([part.image]))
            continue
        own = selection.from_program() if selection.libcalls and number else selection
        try:
            plans.append(plan_binary(part, own))
        except UsageError as error:  # those of another binary may have what is asked for
            mismatch = mismatch or error
            note = f"{part.image.path}: what is asked for fits none of its functions"
            plans.append(replace(empty([part.image]), notes=(note,)))
    plan = merge_plans(plans, tells_untraced=not selection.libcalls)
    plan = replace(plan, notes=(*plan.notes, *notes)) if notes else plan
    if not plan.functions:
        raise mismatch or _explain_emptiness(plan.notes, chosen, paths)
    return within.mark(plan, parts, selection) if any(p.outer for p in parts) else plan


def _select(
    images: Sequence[Image], found: Sequence[Function | Outer], selection: Selection
) -> tuple[list[TracedBinary], list[str]]:
    """The functions of each binary, and notes."""
    searched, full_names = read_symbols(images, selection), selection.full_names
    functions = [each for each in found if isinstance(each, Function)]
    chosen, notes = merge(searched, functions, selection.exclude, full_names=full_names)
    bounds = [each.function for each in found if isinstance(each, Outer)]
    outer, _ = merge(searched, bounds, full_names=full_names)
    parts = []
    for image, own, bounding in zip(images, chosen, outer, strict=True):
        every = {f.address: f for f in (*bounding, *own)}
        addresses = frozenset(f.address for f in bounding)
        added = addresses - {f.address for f in own}
        parts.append(TracedBinary(image, [every[at] for at in sorted(every)], addresses, added))
    return parts, notes


def _check_writable(image: Image, functions: Sequence[Function]) -> None:
    """Raise `BinaryError` where functions lie in code that the loader maps writable: the kernel
    places no breakpoint there (``valid_vma``, kernel/events/uprobes.c)."""
    writable = [segment for segment in image.executable_segments if segment.flags & PF_W]
    if not writable:
        return
    inside = [
        function.name
        for function in functions
        if any(s.address <= function.address < s.address + s.size for s in writable)
    ]
    if inside:
        raise BinaryError(
            f"{image.path}: the kernel places no probes in writable code: {some(inside)}",
            "build it so that its code and its data lie in segments of their own",
        )


def _check_request(selection: Selection, count: int, paths: str) -> None:
    """Raise `UsageError` where ``selection`` asks for too many functions, or contradicts itself."""
    if count > LIMIT and not selection.force:
        raise UsageError(
            f"{count:,} functions of {paths} match, more than {LIMIT:,}",
            f"narrow {option('func')}, or add {option('force')}",
        )
    request = selection.request
    returns = request is not None and (
        request.needs_return or (selection.off_cpu and request.names_times_off_cpu)
    )
    if returns and selection.returns == "none":
        raise UsageError(
            f"{option('returns', 'none')} sees no return, so neither retval nor duration is known",
            f"leave {option('returns')} out, or retval, duration and {option('errors')}",
        )
    if selection.args is not None and selection.args < 0:
        raise UsageError(
            f"{option('args', selection.args)}: is negative", "give 0 for no arguments"
        )


def _explain_emptiness(
    notes: Sequence[str], chosen: Sequence[Sequence[Function]], paths: str
) -> UsageError | BinaryError:
    """Why none of the ``chosen`` functions can be traced, as ``notes`` say or the kernel does."""

    def find(reason: str) -> str:
        return next((note for note in notes if note.endswith(reason)), "")

    if looping := find(ASKED_AGAIN):
        return UsageError(
            looping,
            f"leave {option('where')} out, or add {option('returns', 'none')}:"
            " each iteration is a call then",
        )
    if unanswered := find(UNANSWERED):
        return UsageError(
            unanswered,
            f"leave {option('returns')} out, or retval and duration in {option('where')}",
        )
    if patched := find(PATCHED):
        return BinaryError(
            patched, "build it with -fPIC, or trace the program before it changes its code"
        )
    if held := find(HELD):
        return BinaryError(*held.rsplit(": ", 1))
    if amid := find(AMID) or find(DATA):
        return BinaryError(amid, "choose functions that begin with an instruction of their own")
    refused = [function.name for found in chosen for function in found]
    return BinaryError(
        f"{paths}: no probe can be on the first instructions of {some(refused)}",
        "choose functions that begin with other instructions (lbtrace list --sites)",
    )

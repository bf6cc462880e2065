"""Planning: what is decided before the kernel is touched.

`make_plan` turns binaries and a `Selection` into a `Plan`, which is plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from lbtrace.elf import plt, symbols
from lbtrace.elf.dynamic import Dynamic
from lbtrace.elf.image import Image, whole
from lbtrace.elf.memory import PF_W
from lbtrace.errors import BinaryError, NoMatchError, UsageError, option
from lbtrace.model import Function, Plan
from lbtrace.naming import NAMING
from lbtrace.plan import made_stacks, patterns, within
from lbtrace.plan.binary_plan import (
    AMID,
    ASKED_AGAIN,
    DATA,
    HELD,
    PATCHED,
    UNANSWERED,
    plan_binary,
)
from lbtrace.plan.crossed_points import find_crossed
from lbtrace.plan.function_choice import choose, split_excluded, split_named
from lbtrace.plan.merge import distinct, empty, merge_plans, without_false_notes
from lbtrace.plan.selection import Selection
from lbtrace.plan.traced_binary import TracedBinary
from lbtrace.plan.value_selection import parse
from lbtrace.plan.warnings import some

LIMIT = 50_000
"""Functions a plan may hold without ``force``."""


def make_plan(
    binaries: str | Image | Sequence[str | Image],
    selection: Selection,
) -> Plan:
    """Return the plan for tracing ``selection`` of ``binaries``, paths or open images.

    A pattern ``NAME:PATTERN`` selects what an option names (`lbtrace.naming`), all others
    functions.

    Raises `BinaryError` if a file cannot be traced, `NoMatchError` if a
    pattern selects nothing in any, `UsageError` if the selection is too large.
    """
    several = [binaries] if isinstance(binaries, str | Image) else binaries
    images = distinct(b if isinstance(b, Image) else Image.open(b) for b in several)
    plan = _made(images, selection)
    if crossed := find_crossed(plan):
        files = [each.file.identity for each in (*images, *selection.marked)]
        points = {files[binary]: addresses for binary, addresses in crossed.items()}
        plan = _made(images, replace(selection, points=points))
    measured = selection.off_cpu and not selection.blocking
    if measured and (plan.functions or not selection.growth):
        from lbtrace.plan import off_cpu  # imported here because most plans measure none

        plan = off_cpu.add(plan, selection.off_cpu)
    nests = any(p.role == "opens" and p.binary >= 0 and not p.pair for p in plan.probes)
    if nests and not selection.aggregates:
        plan = made_stacks.add(plan, images, selection)
    if selection.growth != "later":
        return plan
    return replace(plan, may_grow=True, added_action=selection.action)


def _made(images: Sequence[Image], selection: Selection) -> Plan:
    if selection.aggregates:
        from lbtrace.plan import aggregation  # imported here because most plans send

        selection = aggregation.narrow(selection)
    wanted, excluded = split_excluded(selection.patterns, selection.exclude)
    functions, prefixed = split_named(wanted)
    named = selection.naming(
        **{name: (*of, *selection.named.get(name, ())) for name, of in prefixed.items()}
    )
    selection = replace(selection, patterns=functions, named=named, exclude=excluded)
    if selection.locals and not ("line" in named or "at" in named):
        raise UsageError(
            f"{option('locals')} is about lines and other places, and none is named",
            f"name some with {option('line')} or {option('at')}",
        )
    others = [name for name in NAMING if name in named and not NAMING[name].functions]
    finders = dict.fromkeys(NAMING[name].finder for name in others)
    if selection.blocking:
        finders["blocked_stacks"] = None
    with whole([*images, *selection.marked]):
        # What is asked of values is about what finders find.
        calls = _of_calls(selection, apart=bool(finders))
        if functions or len(named) > len(others) or selection.within or not finders:
            plan = _of_functions(images, calls)
        else:
            plan = empty(images)
        if not finders:
            return plan
        from lbtrace.plan import found  # imported here because most plans are of functions

        plan = replace(plan, binaries=plan.binaries + empty(selection.marked).binaries)
        plan = found.add(plan, images, selection, finders)
        plan = within.warn_markers(plan) if selection.within else plan
        return without_false_notes(plan)


def _of_calls(selection: Selection, *, apart: bool) -> Selection:
    """What is asked for of functions: no values, if these are asked for ``apart`` from them; by
    what is aggregated is asked of all."""
    aggregated = selection.by or selection.columns or (selection.aggregates and selection.arg)
    apart &= not aggregated
    if not selection.libcalls:
        return replace(selection, request=None) if apart else selection
    where = "from_program != 0"
    if apart:
        return replace(selection, request=parse((), where))
    if selection.where:
        where = f"{where} and ({selection.where})"
    request = parse(
        selection.arg,
        where,
        errors=selection.errors,
        by=selection.by,
        columns=selection.columns,
    )
    aggregates = selection.aggregates
    return replace(selection, request=request and replace(request, aggregates=aggregates))


def _of_functions(images: Sequence[Image], selection: Selection) -> Plan:
    """The plan for the functions that ``selection`` names, and for where they were inlined."""
    if not selection.inlined:
        try:
            return _planned(images, selection, own=selection.takes_own)
        except NoMatchError as error:
            from lbtrace.plan.inlined import advise  # imported here: most patterns match

            advise(error, images, selection)
            raise
    from lbtrace.plan.inlined import Copies  # imported here because most plans have none

    copies = Copies(images, selection)
    called = copies.with_calls()
    has_calls = called.patterns or "source" in called.named or called.within
    return copies.add(_planned(images, called) if has_calls else empty(images))


def _planned(images: Sequence[Image], selection: Selection, *, own: bool = False) -> Plan:
    """The plan for the functions that ``selection`` names, or the program's ``own``."""
    searched = [
        patterns.BinarySymbols(
            *(image.path, image.once(symbols.read), partial(_loads, image)), selection.loads_later
        )
        for image in images
    ]
    (others, said), own_notes = _of_sources(images, selection), None
    if own:
        from lbtrace.plan import own_functions  # imported here because most plans name functions

        defined = own_functions.find(images, [each.symbols for each in searched])
        others, own_notes = defined.functions, partial(own_functions.notes, images, defined)
    full_names = selection.full_names
    chosen, notes = choose(
        searched, selection.patterns, selection.exclude, others, full_names=full_names
    )
    notes += said
    parts = [
        TracedBinary(image, table.symbols, image.once(plt.stubs), functions)
        for image, table, functions in zip(images, searched, chosen, strict=True)
    ]
    if selection.within:
        parts = within.select(parts, searched, selection.within, full_names=full_names)
    chosen = [[*part.functions] for part in parts]
    paths = " and ".join(image.path for image in images)
    for image, functions in zip(images, chosen, strict=True):
        _check_writable(image, functions)
    _check_request(selection, sum(map(len, chosen)), paths)
    if own_notes:
        notes += own_notes(map(len, chosen))
    if selection.returns == "uretprobe":
        from lbtrace.plan import uretprobe_guard  # imported here because few ask for them

        notes += [*uretprobe_guard.check(images, selection)]
    plans: list[Plan] = []
    mismatch: UsageError | None = None
    for part in parts:
        try:
            plans.append(plan_binary(part, selection))
        except UsageError as error:  # those of another binary may have what is asked for
            mismatch = mismatch or error
            note = f"{part.image.path}: what is asked for fits none of its functions"
            plans.append(replace(empty([part.image]), notes=(note,)))
    plan = merge_plans(plans)
    plan = replace(plan, notes=(*plan.notes, *notes)) if notes else plan
    if not plan.functions:
        raise mismatch or _explain_emptiness(plan.notes, chosen, paths)
    return within.mark(plan, parts, selection) if selection.within else plan


def _of_sources(
    images: Sequence[Image], selection: Selection
) -> tuple[Sequence[Sequence[Function]], list[str]]:
    """The functions of each image that are selected otherwise than by their names, and notes."""
    finders = [NAMING[name].finder for name in selection.named if NAMING[name].functions]
    if not finders:
        return (), []
    from lbtrace.plan import found  # imported here because most plans select none

    items = [each for finder in finders for each in found.find(finder, images, selection)]
    functions = [each for each in items if isinstance(each, Function)]
    others = [[f for f in functions if f.binary == n] for n in range(len(images))]
    return others, [each for each in items if isinstance(each, str)]


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


def _loads(image: Image, name: str) -> Sequence[str]:
    dynamic = image.once(Dynamic)
    return dynamic.needed if name in dynamic.imports else ()

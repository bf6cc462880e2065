"""The return strategies of the functions of several binaries that run together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from lbtrace.elf import plt, symbols
from lbtrace.elf.image import Image
from lbtrace.elf.symbols import Symbols
from lbtrace.errors import UsageError, option
from lbtrace.model import Function
from lbtrace.plan import call_graph, uretprobe_hazards
from lbtrace.plan.call_graph import Node, TracedBinary
from lbtrace.plan.harmless_functions import Judge, Verdict
from lbtrace.plan.return_strategy import ReturnStrategy, StrategyChooser
from lbtrace.plan.selection import Selection
from lbtrace.plan.uretprobe_hazards import Forbidden


def choosers(
    parts: Sequence[TracedBinary], tables: Sequence[Symbols], selection: Selection
) -> list[StrategyChooser]:
    """For each part, what chooses the return strategy of each of its functions.

    Raises `UsageError` where what the user asks for would harm processes of other programs.
    """
    if selection.within and selection.returns == "none":  # those of the functions there are seen
        selection = replace(selection, returns="auto")
    forbidding = _hazards(parts, tables, selection)
    verdicts = [
        _verdicts(part, table, forbidden, selection)
        for part, table, forbidden in zip(parts, tables, forbidding, strict=True)
    ]
    recursive: dict[Node, str] = {}
    if selection.returns in ("auto", "uretprobe"):
        cheap = [
            part._replace(functions=[f for f in part.functions if _is_free(f, forbidden, known)])
            for part, forbidden, known in zip(parts, forbidding, verdicts, strict=True)
        ]
        recursive = call_graph.recursive(cheap)
    made: list[StrategyChooser] = []
    for number, (part, table) in enumerate(zip(parts, tables, strict=True)):
        circles = {address: how for (n, address), how in recursive.items() if n == number}
        facts = (forbidding[number], verdicts[number], circles)
        made.append(StrategyChooser(part.image, table, selection.returns, *facts))
    return made


def choose_strategies(image: Image, selection: Selection) -> list[tuple[Function, ReturnStrategy]]:
    """Return how the returns of all functions of ``image`` would be seen.

    Raises `BinaryError` if the file cannot be traced.
    """
    table = image.once(symbols.read)
    part = TracedBinary(image, image.once(plt.stubs), table.functions)
    (chooser,) = choosers([part], [table], selection)
    return [(function, chooser.choose(function)) for function in table.functions]


def _hazards(
    parts: Sequence[TracedBinary], tables: Sequence[Symbols], selection: Selection
) -> list[Forbidden]:
    """What is against uretprobes in each part, where that matters."""
    if selection.strangers and selection.returns == "uretprobe":
        _refuse_hooking_strangers(parts)
    if selection.hazard or selection.returns not in ("auto", "uretprobe"):
        return [Forbidden(selection.hazard, selection.hazard)] * len(parts)
    return uretprobe_hazards.forbidden(
        parts,
        tables,
        selection.beside,
        strangers=selection.strangers,
        shared=selection.shared,
        altstack_checked=selection.altstack_checked,
    )


def _verdicts(
    part: TracedBinary, table: Symbols, forbidden: Forbidden, selection: Selection
) -> dict[int, Verdict]:
    """What is known of each function, where a uretprobe may be used at all."""
    if selection.returns not in ("auto", "uretprobe"):
        return {}
    if forbidden.all:
        return {}
    go = table.go
    functions = [f for f in part.functions if not (go and go.start <= f.address < go.end)]
    if not functions:
        return {}
    return Judge(part.image, table, part.stubs, forbidden.others).judge(
        functions, in_doubt=not (forbidden.most or forbidden.left)
    )


def _is_free(function: Function, forbidden: Forbidden, known: Mapping[int, Verdict]) -> bool:
    """Whether ``function`` has a uretprobe unless it calls itself."""
    verdict = known.get(function.address, Verdict())
    doubtful = verdict.doubt and (forbidden.most or forbidden.left)
    return not (forbidden.all or verdict.keeps or doubtful)


def _refuse_hooking_strangers(parts: Sequence[TracedBinary]) -> None:
    """Processes of other programs shall not be harmed, even if the user insists."""
    library = next((part.image.path for part in parts if not part.image.is_program), "")
    if library:
        raise UsageError(
            f"{option('returns', 'uretprobe')} would change return addresses"
            f" in every process with {library}",
            f"leave {option('returns')} out, trace one process"
            f" ({option('pid')} without {option('follow')}),"
            f" or use a kernel from 6.13 on, without {option('mode')}",
        )

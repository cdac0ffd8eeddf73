"""Two methods compared from records alone: differences over seeds, on the same documents, and of removal orders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.analysis.comparing.paired_methods import PairedMethods, largest_share, pair_methods
from bench.analysis.costs import level_index
from bench.analysis.curves import area_to, removes
from bench.analysis.quality import POINTS, is_of_corpus, quality_name
from bench.analysis.run_results import FinishedCell, RunResults, SeedPairs
from bench.analysis.stats.corpus import sentence_bootstrap
from bench.analysis.stats.documents import Interval, McNemar, document_bootstrap, mcnemar
from bench.analysis.stats.orders import kendall_tau, overlap, stability
from bench.analysis.stats.pairs import Difference, adjusted, difference, holm
from bench.records.errors import InputError
from bench.records.protocol import count_at
from bench.records.schema import TaskKey

LEAST_ALPHA = 1e-4  # below it, random flips of many seeds could show nothing


@dataclass(frozen=True)
class Documents:
    """The two pruned models of each seed on the same documents of one task, at one level."""

    mcnemar: tuple[McNemar, ...]  # one per seed; empty if there are none
    no_mcnemar: str  # why there are none
    holm: np.ndarray  # their p-values adjusted over seeds, (seeds,)
    interval: Interval  # over documents, for these seeds; points


@dataclass(frozen=True)
class Agreement:
    """How much the removal orders of the two methods agree on one task."""

    tau: float  # Kendall's, mean over seeds and draws
    overlap: float  # share that they have in common of the first ``k`` units removed
    k: int
    units: int
    stable: tuple[float, float]  # Kendall's tau of each method with itself over seeds


@dataclass(frozen=True)
class TaskComparison:
    """The two methods on one task."""

    task: TaskKey
    name: str  # the shortest clear one
    seeds: tuple[int, ...]
    a: float  # mean over seeds, points
    b: float
    difference: Difference
    holm: float | None  # p-value adjusted over tasks; None with too few seeds
    documents: Documents | None
    agreement: Agreement | None


@dataclass(frozen=True)
class Comparison:
    """The two methods on all tasks that both were measured on."""

    a: str
    b: str
    unlike: str  # how they differ in what they remove, and what is compared then; empty if they remove the same parts
    where: str  # at which level, as the end of a sentence
    quality: str  # the name of what is compared
    alpha: float
    tasks: tuple[TaskComparison, ...]
    overall: Difference  # of the mean over tasks
    caveats: tuple[str, ...]  # without which the result would mislead
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Scope:
    """What is compared of two curves: the value at one ``level``, or the mean up to a share (to the end without)."""

    level: float | None = None
    up_to: float | None = None
    by_parameters: bool = False  # shares are of all parameters, otherwise of what the methods remove


def compare(
    run: Path | RunResults,
    a: str,
    b: str,
    tasks: Sequence[str] = (),
    level: float | None = None,
    alpha: float = 0.05,
    up_to: float | None = None,
) -> Comparison:
    """Compare the methods labelled ``a`` and ``b``, from the records of ``run``, a folder or what was read from it.

    They are compared by mean quality over the shares removed (not scaled by chance, as the leaderboard's area is), all
    of them or those ``up_to`` one, or at one ``level``, on the tasks that ``pair_methods`` takes. If they do not remove
    the same parts, they are compared at equal shares of parameters removed, up to the largest that both reach. Raises
    InputError for unknown names, levels that were not measured, shares that the methods do not reach, and records that
    cannot be compared.
    """
    if not LEAST_ALPHA <= alpha < 1:
        raise InputError(f"--alpha {alpha:g}: expected a probability from {LEAST_ALPHA:g} to below 1")
    if up_to is not None and (level is not None or not 0 < up_to <= 1):
        given = "one of --level and --up-to" if level is not None else f"a share above 0, at most 1, not {up_to:g}"
        raise InputError(f"--up-to: expected {given}")
    both = pair_methods(run, a, b, tasks)
    pairs, by_parameters = both.tasks, both.removed[0] != both.removed[1]
    scope = Scope(level, up_to, by_parameters)
    unlike = _unlike(a, b, both, scope) if by_parameters else ""
    values = {task: _points(pair, scope) for task, pair in pairs.items()}  # (2, seeds)
    differences = [difference([one], [other], alpha) for one, other in values.values()]
    of_a, of_b = zip(*values.values(), strict=True)
    return Comparison(
        a=a,
        b=b,
        unlike=unlike,
        where=_where(pairs, scope),
        quality=_quality(pairs),
        alpha=alpha,
        tasks=tuple(
            TaskComparison(
                task=task,
                name=both.names[task],
                seeds=tuple(pair),
                a=float(values[task][0].mean()),
                b=float(values[task][1].mean()),
                difference=each,
                holm=p,
                documents=None if level is None or by_parameters else _documents(pair, level, alpha),
                agreement=_agreement(pair, 0.5 if level is None or by_parameters else level),
            )
            for (task, pair), each, p in zip(pairs.items(), differences, adjusted(differences), strict=True)
        ),
        overall=difference(of_a, of_b, alpha),
        caveats=both.caveats,
        remarks=both.remarks,
    )


def _quality(pairs: dict[TaskKey, SeedPairs]) -> str:
    """The name of what is compared; ``quality`` if that differs from task to task."""
    names = {quality_name(next(iter(pair.values()))[0].record) for pair in pairs.values()}
    return names.pop() if len(names) == 1 else "quality"


def _where(pairs: dict[TaskKey, SeedPairs], scope: Scope) -> str:
    cells = [next(iter(pair.values()))[0] for pair in pairs.values()]
    removed = "parameters" if scope.by_parameters else removes(cells[0].record)
    if scope.level is None:
        to = "" if scope.up_to is None else f" up to {100 * scope.up_to:g} %"
        return f"on average over the shares of {removed} removed{to}"
    if scope.by_parameters:
        return f"at {100 * scope.level:g} % of {removed} removed"
    shares = [100 * cell.shares[_level_index(cell, scope.level)] for cell in cells]
    low, high = f"{min(shares):.3g}", f"{max(shares):.3g}"
    if low == high:
        return f"at {low} % of {removed} removed"
    return f"with {low} to {high} % of {removed} removed (the nearest to {100 * scope.level:g} %)"


def _unlike(a: str, b: str, both: PairedMethods, scope: Scope) -> str:
    """How methods that remove unlike parts differ, and how they are compared, as a sentence.

    Raises InputError if they cannot be compared: nothing is said about shares that one of them does not reach.
    """
    parts = f"{a} removes {both.removed[0]}, {b} {both.removed[1]}"
    most = [largest_share(pair) for pair in both.tasks.values()]
    if not min(most):
        raise InputError(f"{parts}, and one of them removes no parameters: they cannot be compared")
    for flag, share in (("level", scope.level), ("up-to", scope.up_to)):
        if share is not None and share > min(most):
            raise InputError(
                f"--{flag} {share:g}: {parts}: this is a share of parameters, and both reach only "
                f"{math.floor(1000 * min(most)) / 1000:.3f}"
            )
    cells = [both_cells for pair in both.tasks.values() for both_cells in pair.values()]
    whole = [100 * np.mean([cell.parameters[-1] for cell in side]) for side in zip(*cells, strict=True)]
    reach = (
        "" if scope.level is not None or scope.up_to is not None else f", up to the {_range(most)} % that both reach"
    )
    return (
        f"{parts}: they differ in parameters removed ({whole[0]:.1f} % and {whole[1]:.1f} % of all where nothing is "
        f"kept), so they are compared at equal shares of parameters removed{reach}, linear between measured levels"
    )


def _range(shares: Sequence[float]) -> str:
    """The smallest and the largest of ``shares``, in per cent."""
    low, high = f"{100 * min(shares):.1f}", f"{100 * max(shares):.1f}"
    return low if low == high else f"{low} to {high}"


def _points(pair: SeedPairs, scope: Scope) -> np.ndarray:
    """Quality of both methods by seed, (2, seeds), in points: the mean over shares removed, or at one level."""
    most = largest_share(pair) if scope.by_parameters else 1.0

    def quality(cell: FinishedCell) -> float:
        shares = cell.parameters if scope.by_parameters else cell.shares
        if scope.level is None:
            return area_to(scope.up_to or most, shares, cell.quality)
        if scope.by_parameters:
            return float(np.interp(scope.level, shares, cell.quality))
        return float(cell.quality[_level_index(cell, scope.level)])

    return POINTS * np.array([[quality(cell) for cell in both] for both in pair.values()]).T


def _level_index(cell: FinishedCell, level: float) -> int:
    """Index of ``level`` among those measured. Raises InputError, also if the share rounds to no unit or to all."""
    units, task = cell.record.result.units, ", ".join(cell.record.task)
    count = count_at(level, units)
    available = ", ".join(f"{share:.4g}" for share in cell.shares)
    if (count == 0 and level > 0) or (count == units and level < 1):
        which = "none" if count == 0 else "all"
        raise InputError(f"level {level:g} rounds to {which} of the {units} units on {task}: available: {available}")
    if (index := level_index(cell.record, level)) is None:
        raise InputError(f"level {level:g} was not measured on {task}: available: {available}")
    return index


def _documents(pair: SeedPairs, level: float, alpha: float) -> Documents | None:
    """None if texts are scored, and nothing is right or wrong."""
    cells = list(pair.values())
    some = cells[0][0].record.result
    if not some.parts:
        return None
    index = _level_index(cells[0][0], level)
    if is_of_corpus(some):
        one, other = ([cell.statistics("bleu", index) for cell in side] for side in zip(*cells, strict=True))
        found = sentence_bootstrap(one, other, alpha)
        in_points = Interval(POINTS * found.mean, POINTS * found.low, POINTS * found.high)
        return Documents((), "BLEU is that of all documents together", holm([]), in_points)
    a, b = (np.stack([cell.outcomes(index) for cell in side]) for side in zip(*cells, strict=True))
    tests: tuple[McNemar, ...] = ()
    why = "one of the methods is a mean over random draws"
    if all(len(cell.record.result.quality) == 1 for both in cells for cell in both):
        tests = tuple(mcnemar(one > 0.5, other > 0.5) for one, other in zip(a, b, strict=True))
    interval = document_bootstrap(POINTS * a, POINTS * b, list(some.parts.values()), alpha)
    return Documents(tests, why, holm([test.p for test in tests]), interval)


def _agreement(pair: SeedPairs, level: float) -> Agreement | None:
    """None if one of the methods has no removal orders."""
    results = [tuple(cell.record.result for cell in both) for both in pair.values()]
    orders = [(np.array(a.orders), np.array(b.orders)) for a, b in results if a.orders and b.orders]
    if len(orders) < len(results):
        return None
    units = results[0][0].units
    k = max(1, count_at(level, units))
    return Agreement(
        tau=float(np.mean([kendall_tau(a, b).mean() for a, b in orders])),
        overlap=float(np.mean([overlap(a, b, k).mean() for a, b in orders])),
        k=k,
        units=units,
        stable=(_stability(side[0] for side in orders), _stability(side[1] for side in orders)),
    )


def _stability(orders: Iterable[np.ndarray]) -> float:
    """Of a method with itself over seeds; NaN where these differ in how many random orders they have."""
    found = list(orders)
    return stability(np.stack(found)) if len({each.shape for each in found}) == 1 else float("nan")

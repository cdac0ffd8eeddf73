"""Two methods compared from records alone: what was measured alike, and the tests that fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.analysis.pairing import Pair, Paired, in_seeds, largest_share, paired
from bench.analysis.quality_scale import POINTS
from bench.analysis.stats.documents import Interval, McNemar, document_bootstrap, mcnemar
from bench.analysis.stats.orders import kendall_tau, overlap, stability
from bench.analysis.stats.pairs import Difference, difference, holm
from bench.analysis.stats.samples import Sample, area, area_to
from bench.records.errors import InputError
from bench.records.protocol import count_at
from bench.records.schema import TaskKey


@dataclass(frozen=True)
class Documents:
    """Tests at one level of the models of one task, pruned by the two methods."""

    mcnemar: tuple[McNemar, ...]  # a seed each; empty where a method is a mean over random draws
    holm: np.ndarray  # their p-values adjusted over seeds
    interval: Interval  # over documents, of these seeds; points


@dataclass(frozen=True)
class Agreement:
    """How much the removal orders of the two methods agree on one task."""

    tau: float  # mean over seeds, and draws
    overlap: float  # of the first ``k`` units removed
    k: int
    units: int
    stable: tuple[float, float]  # each method's agreement with itself over seeds


@dataclass(frozen=True)
class TaskComparison:
    """The two methods on one task."""

    task: TaskKey
    name: str  # shortest that is clear
    seeds: tuple[int, ...]
    a: float  # mean over seeds, points
    b: float
    difference: Difference
    holm: float | None  # p-value adjusted over tasks
    documents: Documents | None
    agreement: Agreement | None


@dataclass(frozen=True)
class Comparison:
    """The two methods on all tasks that both were measured on."""

    a: str
    b: str
    where: str  # what was compared, as the end of a sentence
    quality: str  # what it is, in words
    alpha: float
    tasks: tuple[TaskComparison, ...]
    overall: Difference | None  # mean over tasks, a sample for each seed that every task has; None without any
    caveats: tuple[str, ...]  # what the answer would mislead without
    remarks: tuple[str, ...]


def compare(
    folder: Path, a: str, b: str, tasks: Sequence[str] = (), level: float | None = None, alpha: float = 0.05
) -> Comparison:
    """Compare methods ``a`` and ``b``, by their labels, from the records in ``folder``.

    By mean quality over the shares removed (not scaled by chance, as the leaderboard's area is), or at one ``level``;
    over all tasks or those named, by their adapter or data. Where the two do not remove the same parts, at equal shares
    of parameters removed, to the largest that both reach. Raises InputError for names, levels and records that do not
    allow it.
    """
    if not 0 < alpha < 1:
        raise InputError(f"--alpha {alpha:g}: expected a probability between 0 and 1")
    both = paired(folder, a, b, tasks)
    pairs, by_parameters = both.tasks, bool(both.unlike)
    caveats = [_at_equal_parameters(both, level)] if by_parameters else []
    caveats += both.caveats
    values = {task: _values(pair, level, by_parameters) for task, pair in pairs.items()}  # (2, seeds), points
    differences = [difference(one, other, alpha, tests=len(pairs)) for one, other in values.values()]
    adjusted = holm([1.0 if each.p is None else each.p for each in differences])
    overall, remarks = _overall(values, pairs, alpha)
    return Comparison(
        a=a,
        b=b,
        where=_where(pairs, level, by_parameters),
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
                holm=None if each.p is None else float(p),
                documents=None if level is None or by_parameters else _documents(pair, level, alpha),
                agreement=_agreement(pair, 0.5 if level is None or by_parameters else level),
            )
            for (task, pair), each, p in zip(pairs.items(), differences, adjusted, strict=True)
        ),
        overall=overall,
        caveats=tuple(caveats),
        remarks=(*both.remarks, *remarks),
    )


def _overall(
    values: dict[TaskKey, np.ndarray], pairs: dict[TaskKey, Pair], alpha: float
) -> tuple[Difference | None, list[str]]:
    """The difference averaged over tasks within each seed that they share, and a remark where they do not share all."""
    common = sorted(set.intersection(*(set(pair) for pair in pairs.values())))
    remarks = []
    if not common:
        return None, []
    if any(len(pair) > len(common) for pair in pairs.values()):
        remarks = [f"the tasks do not share all seeds: the mean over tasks is that of {in_seeds(common)}"]
    rows = [values[task][:, [list(pair).index(seed) for seed in common]] for task, pair in pairs.items()]
    of_a, of_b = np.mean(rows, axis=0)  # (seeds,)
    return difference(of_a, of_b, alpha), remarks


def _quality(pairs: dict[TaskKey, Pair]) -> str:
    """What is compared: one word for tasks that are alike in it."""
    found = {next(iter(pair.values()))[0].measure for pair in pairs.values()}
    return found.pop() if len(found) == 1 else "quality"


def _where(pairs: dict[TaskKey, Pair], level: float | None, by_parameters: bool) -> str:
    sample, _ = next(iter(next(iter(pairs.values())).values()))
    removed = "parameters" if by_parameters else sample.removes
    if level is None:
        return f"on average over the shares of {removed} removed"
    if by_parameters:
        return f"at {100 * level:g} % of {removed} removed"
    found = [next(iter(pair.values()))[0] for pair in pairs.values()]
    shares = [100 * sample.shares[_place(sample, level)] for sample in found]
    low, high = f"{min(shares):.3g}", f"{max(shares):.3g}"
    if low == high:
        return f"at {low} % of {removed} removed"
    return f"with {low} to {high} % of {removed} removed (the nearest to {100 * level:g} %)"


def _at_equal_parameters(both: Paired, level: float | None) -> str:
    """How methods that remove unlike parts are compared. Raises InputError where they cannot be."""
    most = [largest_share(pair) for pair in both.tasks.values()]
    if not min(most):
        raise InputError(f"{both.unlike}, and one of them removes no parameter: there is nothing to compare them at")
    if level is not None and level > min(most):
        raise InputError(
            f"{both.unlike}: a level is a share of parameters then, and both reach {min(most):.3f} only, not {level:g}"
        )
    reach = f"{100 * min(most):.1f}" + (
        f" to {100 * max(most):.1f}" if f"{min(most):.3f}" != f"{max(most):.3f}" else ""
    )
    to = "" if level is not None else f", up to the {reach} % that both reach"
    return f"{both.unlike}: they were compared at equal shares of parameters removed{to}, linear between levels"


def _values(pair: Pair, level: float | None, by_parameters: bool) -> np.ndarray:
    """Quality of both by seed, (2, seeds), in points: the mean over shares removed, or at ``level``."""
    most = largest_share(pair)

    def value(sample: Sample) -> float:
        if level is None:
            return area_to(most, sample) if by_parameters else area(sample.shares, sample.quality)
        if by_parameters:
            return float(np.interp(level, sample.parameters, sample.quality))
        return float(sample.quality[_place(sample, level)])

    return POINTS * np.array([[value(sample) for sample in both] for both in pair.values()]).T


def _place(sample: Sample, level: float) -> int:
    """Place of ``level`` among those measured. Raises InputError, also where a share rounds to no unit or to all."""
    count, task = count_at(level, sample.units), ", ".join(sample.task)
    there = ", ".join(f"{share:.4g}" for share in sample.shares)
    if (count == 0 and level > 0) or (count == sample.units and level < 1):
        which = "none" if count == 0 else "all"
        raise InputError(f"level {level:g} rounds to {which} of the {sample.units} units on {task}: there is {there}")
    found = np.flatnonzero(np.isclose(sample.shares, count / sample.units))
    if not len(found):
        raise InputError(f"level {level:g} was not measured on {task}: there is {there}")
    return int(found[0])


def _documents(pair: Pair, level: float, alpha: float) -> Documents | None:
    """None where texts are scored, and nothing is right or wrong."""
    both = [pair[seed] for seed in pair]
    if not both[0][0].parts:
        return None
    place = _place(both[0][0], level)
    a, b = (np.stack([sample.outcomes(place) for sample in side]) for side in zip(*both, strict=True))
    tests: tuple[McNemar, ...] = ()
    if all(sample.draws == 1 for samples in both for sample in samples):
        tests = tuple(mcnemar(one > 0.5, other > 0.5) for one, other in zip(a, b, strict=True))
    interval = document_bootstrap(POINTS * a, POINTS * b, both[0][0].parts, alpha)
    return Documents(tests, holm([test.p for test in tests]), interval)


def _agreement(pair: Pair, level: float) -> Agreement | None:
    """None where one of the methods has no removal order."""
    both = [pair[seed] for seed in pair]
    a = [one.orders for one, _ in both if one.orders is not None]
    b = [other.orders for _, other in both if other.orders is not None]
    if len(a) < len(both) or len(b) < len(both):
        return None
    units = both[0][0].units
    k = max(1, count_at(level, units))
    return Agreement(
        tau=float(np.mean([kendall_tau(one, other).mean() for one, other in zip(a, b, strict=True)])),
        overlap=float(np.mean([overlap(one, other, k).mean() for one, other in zip(a, b, strict=True)])),
        k=k,
        units=units,
        stable=(stability(np.stack(a)), stability(np.stack(b))),
    )

"""One verdict per method: the same, no loss, changed, not known, or a regression, with the reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from math import isinf

from bench.analysis.regression.cells import Twin, Twins
from bench.analysis.regression.cost import passes_ratio, slowdown
from bench.analysis.regression.effect import Effect, effect
from bench.analysis.regression.exact import FAILED_BEFORE, FAILS_NOW, Change, changes, same_choices

SAME, CHANGED, FAILED = "same", "changed", "FAILED"
NO_LOSS = "no loss"  # on another machine or with other versions its results are others, and it lost no more than may be
UNKNOWN = "unknown"  # it lost more than that, which may be chance
ORDER = (FAILED, UNKNOWN, CHANGED, NO_LOSS, SAME)


@dataclass(frozen=True)
class Limits:
    """What counts as a regression."""

    points: float = 0.5  # points of area that may be lost
    slower: float = 0.15  # share by which scoring seconds, or passes, may grow
    alpha: float = 0.05  # error rate of all intervals of one kind together


@dataclass(frozen=True)
class Verdict:
    """The verdict on one method."""

    label: str
    status: str
    reasons: tuple[str, ...]  # why it failed
    remarks: tuple[str, ...]  # what else changed, and what could not be judged
    cells: int


def verdicts(cells: Twins, declared: Collection[str], limits: Limits) -> list[Verdict]:
    """A verdict on each method in both folders, failures first.

    declared: methods that are meant to change. Their results may differ, as may those of cells from another machine or
    other versions; only an effect or a cost beyond ``limits`` is then a regression. Otherwise any difference is one, as
    the same seed gives the same record.
    """
    labels = cells.labels()
    found = [
        _verdict(label, cells.of(label), label in declared, limits, limits.alpha / len(labels)) for label in labels
    ]
    return sorted(found, key=lambda verdict: ORDER.index(verdict.status))


def _verdict(label: str, pairs: list[Twin], declared: bool, limits: Limits, alpha: float) -> Verdict:
    reasons: list[str] = []
    remarks: list[str] = []
    done = [twin for twin in pairs if twin.before.done and twin.after.done]
    kept = effect(done, alpha) if done else None
    if kept:
        for text, worse in (_quality(done, kept, limits), _passes(done, limits), _seconds(done, limits, alpha)):
            if text:
                (reasons if worse else remarks).append(text)
    changed: dict[str, list[tuple[Twin, Change]]] = defaultdict(list)
    for twin in pairs:
        for change in changes(twin):
            changed[change.part].append((twin, change))
    for part, found in changed.items():
        excused = part == FAILED_BEFORE or (declared and part != FAILS_NOW)
        (remarks if excused else reasons).append(_told(part, found, len(pairs)))
    if failing := sum(not twin.before.done and not twin.after.done for twin in pairs):
        remarks.append(f"{failing} of {len(pairs)} cells fail, as in the baseline")
    unknown = kept is not None and kept.unknown(limits.points)
    moved = any(twin.environment_changes and not _is_equal(twin) for twin in done)
    if reasons:
        status = FAILED
    elif unknown or not (done or changed):  # in the latter case nothing was compared
        status = UNKNOWN
    else:
        status = CHANGED if changed else NO_LOSS if moved else SAME
    return Verdict(label, status, tuple(reasons), tuple(remarks), len(pairs))


def _is_equal(twin: Twin) -> bool:
    before, after = twin.before.finished.result, twin.after.finished.result
    return before.quality == after.quality and same_choices(before, after)


def _told(part: str, found: list[tuple[Twin, Change]], of: int) -> str:
    twin, change = found[0]
    return f"{part} in {len(found)} of {of} cells ({twin.where}: {change.detail})"


def _quality(pairs: list[Twin], effect: Effect, limits: Limits) -> tuple[str, bool]:
    """The effect on ``pairs`` in words, empty if there is none, and whether it is a regression."""
    if abs(effect.mean) < 0.005 and not any(twin.environment_changes for twin in pairs):
        return "", False
    worse = effect.worse(limits.points)
    interval = "no interval" if effect.interval is None else f"{effect.interval[0]:+.1f} to {effect.interval[1]:+.1f}"
    kept = f"{abs(effect.mean):.2f} points {'less' if effect.mean < 0 else 'more'}, averaged over levels"
    return f"keeps {kept} ({interval} over {effect.over})", worse


def _passes(pairs: list[Twin], limits: Limits) -> tuple[str, bool]:
    most = max(passes_ratio(twin) for twin in pairs)
    if isinf(most):
        return "makes passes, and made none before", True
    return (f"takes up to {most:.2f} times the passes" if most > 1 else ""), most > 1 + limits.slower


def _seconds(pairs: list[Twin], limits: Limits, alpha: float) -> tuple[str, bool]:
    found = slowdown(pairs, alpha)
    if isinstance(found, str):
        return f"speed not judged: {found}", False
    if not found.worse(limits.slower):
        return "", False
    low, high = found.interval
    return f"scores {found.ratio:.2f} times as long ({low:.2f} to {high:.2f} over {found.cells} cells)", True

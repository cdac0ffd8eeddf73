"""How often each test finds a difference where there is none, and a difference of two points.

The null is that of the random removal orders in ``results/mini``: how far the area of one random order lies from
the mean of its seed, in points, is drawn anew from the committed records of ``random``, task by task. So noise has the
size, the shape and the unevenness over tasks that it has; what a seed adds to every method is drawn too, and cancels.
An effect is two points more for one method, on every task. ``one`` is a method with one order a seed, as a score has;
``ten`` the mean of ten orders, as the row ``random`` has. Rates are in per cent, at the nominal 5.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.analysis.curves import area
from bench.analysis.run_results import read_results
from bench.analysis.stats.across import improvement_over, mean_of_tasks, seed_bootstrap
from bench.analysis.stats.documents import document_bootstrap, mcnemar
from bench.analysis.stats.many import ranking
from bench.analysis.stats.pairs import difference, holm
from bench.analysis.stats.signflip import sign_flip_p
from bench.analysis.stats.tiers import tiers

ALPHA = 0.05
EFFECT = 2.0  # points
SEEDS = (3, 5, 10, 20)
DOCUMENTS = 1000
METHODS = 8  # where many are compared
RESULTS = Path(__file__).parents[2] / "results" / "mini"
EXACT = {
    "sign-flip, one task",
    "sign-flip and Holm, all tasks",
    "sign-flip, mean of tasks",
    "Wilcoxon and Holm",
    "tiers",
}
ROOM = {  # what an approximate test may exceed 5 per cent by, from so many seeds on
    "bootstrap, mean of tasks": (5, 3.0),
    "probability of improvement": (5, 3.0),
    "Friedman": (3, 0.0),
}


@pytest.fixture(scope="module")
def noise() -> list[np.ndarray]:
    """Of each task, how far random orders lie from the mean of their seed: (orders,), points of area."""
    by_task: dict[str, list[np.ndarray]] = {}
    for cell in read_results(RESULTS).cells:
        record = cell.record
        if record.cell.label == "random":
            areas = 100 * area(cell.shares, np.array(record.result.quality))
            spread = np.sqrt(len(areas) / (len(areas) - 1))  # around a mean of their own they lie too near
            by_task.setdefault(record.cell.task, []).append((areas - areas.mean()) * spread)
    return [np.concatenate(parts) for parts in by_task.values()]


def simulated(rng, noise, methods: int, seeds: int, orders: int, effect: float) -> np.ndarray:
    """Areas, (tasks, methods, seeds), in points; the first method is better by ``effect``."""
    tables = []
    for pool in noise:
        luck = rng.choice(pool, size=(methods, seeds, orders)).mean(-1)
        tables.append(60 + rng.normal(scale=4, size=seeds) + luck)
    tables = np.array(tables)
    tables[:, 0] += effect
    return tables


def finds(scores: np.ndarray) -> dict[str, bool]:
    """Which tests call some difference significant."""
    a, b = scores[:, 0], scores[:, 1]  # (tasks, seeds)
    by_task = [sign_flip_p(d) for d in a - b]
    pair = list(scores[:, :2])
    found = {
        "sign-flip, one task": by_task[0] <= ALPHA,
        "sign-flip and Holm, all tasks": bool((holm(by_task) <= ALPHA).any()),
        "sign-flip, mean of tasks": (difference(list(a), list(b), ALPHA).p or 1) <= ALPHA,
        "tiers": len(tiers(list(scores), margin=0.0, alpha=ALPHA).members) > 1,
    }
    for name, statistic, null in (
        ("bootstrap, mean of tasks", lambda *drawn: mean_of_tasks(*drawn) @ [1, -1], 0.0),
        ("probability of improvement", lambda *drawn: improvement_over(*drawn, 1)[..., 0], 0.5),
    ):
        interval = seed_bootstrap(statistic, pair, ALPHA, draws=400)
        found[name] = interval.low is not None and not interval.low <= null <= interval.high
    blocks = scores.mean(0).T  # seeds
    ranks = ranking(blocks, ALPHA)
    found["Friedman"] = ranks.friedman <= ALPHA
    found["Wilcoxon and Holm"] = len(ranks.cliques) > 1
    return found


def rates(trial: Callable[[], dict[str, bool]], trials: int) -> dict[str, float]:
    """Share of ``trials`` in which each test finds something."""
    found = [trial() for _ in range(trials)]
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def error(trials: int) -> float:
    """Three standard errors of a rate of 5 per cent."""
    return 3 * np.sqrt(ALPHA * (1 - ALPHA) / trials)


@pytest.mark.parametrize("seeds", SEEDS)
def test_methods(noise, capsys, seeds):
    rng = np.random.default_rng(seeds)
    trials = 1000 if seeds <= 10 else 300  # a fifth of a second each, with twenty
    got = {
        (orders, effect): rates(lambda o=orders, e=effect: finds(simulated(rng, noise, METHODS, seeds, o, e)), trials)
        for orders, effect in ((1, 0.0), (1, EFFECT), (10, EFFECT))
    }
    null, one, ten = got.values()
    with capsys.disabled():
        print(f"\n{f'{seeds} seeds, {trials} trials':34}{'false alarms':>14}{'power, one':>12}{'power, ten':>12}")
        for name in null:
            print(f"{name:34}{100 * null[name]:14.1f}{100 * one[name]:12.1f}{100 * ten[name]:12.1f}")
    for name in EXACT:
        assert null[name] <= ALPHA + error(trials), name
        few = seeds <= 5 and name.startswith("sign-flip") and not name.endswith("mean of tasks")
        assert not few or not null[name], name  # 2 / 2^5 is more than 5 per cent
    if seeds >= 10:
        assert null["sign-flip, one task"] >= ALPHA - error(trials)
        assert ten["sign-flip, mean of tasks"] > 0.8
    for name, (least, room) in ROOM.items():
        assert seeds < least or null[name] <= ALPHA + room / 100 + error(trials), name


def test_documents(capsys):
    """Two models that are right as often on documents like these; some documents are easier, for both."""
    rng = np.random.default_rng(0)

    def trial(seeds: int, effect: float) -> dict[str, bool]:
        ease = rng.beta(3, 2, size=DOCUMENTS)
        ease_a = np.minimum(1, ease + effect)
        a, b = rng.random((seeds, DOCUMENTS)) < ease_a, rng.random((seeds, DOCUMENTS)) < ease
        interval = document_bootstrap(a, b, alpha=ALPHA, draws=400, seed=int(rng.integers(2**32)))
        return {"McNemar": mcnemar(a[0], b[0]).p <= ALPHA, "bootstrap": not interval.low <= 0 <= interval.high}

    for seeds in (1, 10):
        null, power = rates(lambda n=seeds: trial(n, 0), 1000), rates(lambda n=seeds: trial(n, EFFECT / 100), 1000)
        with capsys.disabled():
            print(f"\n{f'{DOCUMENTS} documents, {seeds} models each':34}{'false alarms':>14}{'power':>12}")
            for name in null:
                print(f"{name:34}{100 * null[name]:14.1f}{100 * power[name]:12.1f}")
        assert null["McNemar"] <= ALPHA + error(1000)
        assert abs(null["bootstrap"] - ALPHA) <= error(1000) + 0.005

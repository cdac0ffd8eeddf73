"""How often the tests find a difference where there is none, and where there is one: false alarms and power.

    python docs/studies/error_rates.py

writes ``error_rates.csv`` and ``error_rates.svg`` beside this file, in a minute or two, the same each time for the same
records in ``results/mini``. Two methods are simulated on four tasks. Noise is that of a removal order:

measured: how far the area of a random order lies from the mean of its seed, drawn from the records of ``random``, task
    by task; so it has the size, the shape and the unevenness over tasks that it has.
mean of ten: the same, but the second method is the mean of ten orders, as the row ``random`` is.
steady: the same, but both are: a score whose orders vary less from seed to seed than random ones.
unequal: normal, with a standard deviation of 1 point on three tasks and of 8 on the fourth.
opposite: measured, but one method keeps 4 points more on two tasks, and 4 less on the others.
skewed: exponential, 4 points, against the mean of ten: the farthest from symmetric that a test should have to bear.

An effect is added on every task. Rates are shares of trials with p <= 0.05.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from bench.analysis.curves import area  # noqa: E402
from bench.analysis.run_results import read_results  # noqa: E402
from bench.analysis.stats.across import mean_of_tasks, seed_bootstrap  # noqa: E402
from bench.analysis.stats.tiers import tiers  # noqa: E402

ALPHA, TRIALS, FEWER_TRIALS = 0.05, 4000, 500
SEEDS = (3, 5, 6, 10, 20)
EFFECTS = (0.0, 1.0, 2.0, 4.0)  # points
TASKS, METHODS = 4, 8
EXACT, SAMPLED = 12, 2**11  # differences whose flips are all made; random flips beyond
Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]  # differences of (trials, tasks, seeds)


def pools() -> list[np.ndarray]:
    """Of each task, how far random orders lie from the mean of their seed: (orders,), points of area."""
    by_task: dict[str, list[np.ndarray]] = {}
    for cell in read_results(HERE.parents[1] / "results" / "mini").cells:
        if cell.record.cell.label == "random":
            areas = 100 * area(cell.shares, np.array(cell.record.result.quality))
            spread = np.sqrt(len(areas) / (len(areas) - 1))  # around a mean of their own they lie too near
            by_task.setdefault(cell.record.cell.task, []).append((areas - areas.mean()) * spread)
    return [np.concatenate(by_task[task]) for task in sorted(by_task)]


def scenarios(pool: list[np.ndarray]) -> dict[str, Noise]:
    """Differences of two methods that keep as much on average, in points, by the names above."""

    def orders(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> np.ndarray:
        """Areas, (trials, tasks, seeds), each the mean of ``count`` random orders."""
        trials, _, seeds = shape
        return np.stack([rng.choice(own, (trials, seeds, count)).mean(-1) for own in pool], 1)

    def opposite(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return orders(rng, shape, 1) - orders(rng, shape, 1) + np.array([4, 4, -4, -4])[:, None]

    def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return rng.exponential(4, shape) - rng.exponential(4, (*shape, 10)).mean(-1)

    return {
        "measured": lambda rng, shape: orders(rng, shape, 1) - orders(rng, shape, 1),
        "mean of ten": lambda rng, shape: orders(rng, shape, 1) - orders(rng, shape, 10),
        "steady": lambda rng, shape: orders(rng, shape, 10) - orders(rng, shape, 10),
        "unequal": lambda rng, shape: rng.normal(size=shape) * np.array([1, 1, 1, 8])[:, None],
        "opposite": opposite,
        "skewed": skewed,
    }


def flip_test(differences: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """p-values of the sign-flip test of the sum of ``differences``, (trials, n), for all trials at once: (trials,).

    ``bench.analysis.stats.signflip`` with fewer random flips.
    """
    n = differences.shape[1]
    found = []
    for some in np.array_split(differences, max(1, len(differences) // 500)):
        if n <= EXACT:  # one sign is left as it is: flipping all changes nothing
            signs = 1.0 - 2.0 * (np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1)
        else:
            signs = 1.0 - 2.0 * rng.integers(0, 2, (SAMPLED, n))
            signs[0] = 1
        least = np.abs(some.sum(1)) - 1e-9
        found.append((np.abs(some @ signs.T) >= least[:, None]).mean(1))
    return np.concatenate(found)


def two_methods(pool: list[np.ndarray]) -> list[tuple[str, str, int, float, float]]:
    """Rates of the tests of two methods: (test, noise, seeds, effect, rate)."""
    rows = []
    for name, noise in scenarios(pool).items():
        for seeds in SEEDS:
            rng = np.random.default_rng([seeds, len(name)])
            drawn = noise(rng, (TRIALS, TASKS, seeds))
            for effect in EFFECTS if name in ("measured", "mean of ten", "steady") else EFFECTS[:1]:
                d = drawn + effect
                for test, values in (
                    ("mean of tasks", d.reshape(TRIALS, -1)),
                    ("mean of tasks, flipped by seed", d.mean(1)),
                    ("one task", d[:, 0]),
                ):
                    rows.append((test, name, seeds, effect, float((flip_test(values, rng) <= ALPHA).mean())))
    return rows


def many_methods(pool: list[np.ndarray]) -> list[tuple[str, str, int, float, float]]:
    """Rates of what the report shows of eight methods: tiers, and intervals of the mean over tasks."""
    rows = []
    for seeds in SEEDS:
        for effect in (0.0, 4.0):
            rng, apart, outside = np.random.default_rng(seeds), 0, 0
            for _ in range(FEWER_TRIALS):
                scores = [rng.choice(own, (METHODS, seeds)) for own in pool]
                for task in scores:
                    task[0] += effect
                apart += len(tiers(scores, 0.0, ALPHA).members) > 1
                interval = seed_bootstrap(lambda *drawn: mean_of_tasks(*drawn)[..., 0], scores, ALPHA, 400)
                if interval.low is not None and interval.high is not None:
                    outside += not interval.low <= effect <= interval.high
            rows.append(("tiers of eight methods", "measured", seeds, effect, apart / FEWER_TRIALS))
            if effect == 0 and seeds >= 5:
                rows.append(("interval of the report", "measured", seeds, effect, outside / FEWER_TRIALS))
    return rows


def draw(rows: list[tuple[str, str, int, float, float]]) -> None:
    """False alarms by noise, and power by effect, of the test of the mean of tasks."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "headbench", "font.size": 9}
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
    rates: dict[tuple[str, str, float], list[float]] = {(test, noise, e): [] for test, noise, _, e, _ in rows}
    for test, noise, _, effect, rate in rows:
        rates[test, noise, effect].append(100 * rate)
    for (test, noise, effect), values in rates.items():
        if test == "mean of tasks" and effect == 0:
            left.plot(SEEDS, values, "o-", markersize=4, label=noise)
        if noise == "mean of ten" and effect and test.startswith("mean of tasks"):
            old = test != "mean of tasks"
            name = f"{effect:g} point{'s' * (effect > 1)}" + ", flipped by seed" * old
            colour = f"C{EFFECTS.index(effect) - 1}"
            right.plot(SEEDS, values, "x:" if old else "o-", color=colour, markersize=4, label=name)
    left.axhline(100 * ALPHA, color="grey", linewidth=0.8)
    left.set(title="False alarms", ylabel="trials with p ≤ 0.05 (%)", ylim=(0, 10))
    right.set(title="Power, one order against the mean of ten", ylabel="differences found (%)", ylim=(0, 102))
    for axis in (left, right):
        axis.set(xlabel="seeds on each of four tasks", xscale="log")
        axis.set_xticks(SEEDS, [str(seeds) for seeds in SEEDS])
        axis.minorticks_off()
        axis.legend(fontsize=7.5, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(HERE / "error_rates.svg", metadata={"Date": None})


def main() -> None:
    """Simulate, write the table and the figure."""
    pool = pools()
    rows = two_methods(pool) + many_methods(pool)
    with (HERE / "error_rates.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["test", "noise", "seeds", "effect", "rate"])
        writer.writerows((*row[:3], f"{row[3]:g}", f"{row[4]:.4f}") for row in rows)
    draw(rows)


if __name__ == "__main__":
    main()

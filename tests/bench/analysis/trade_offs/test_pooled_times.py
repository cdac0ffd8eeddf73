"""Times that methods share where their models have one shape, and times that are their own."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.analysis.trade_offs.budgets import Budget, answer
from bench.analysis.trade_offs.levels import trade_offs
from bench.analysis.trade_offs.pooled_times import ALIKE, pooled_speedups

SEEDS = 5
assert_close = partial(np.testing.assert_allclose, rtol=1e-6)  # records keep seven digits of a second
TIMES = st.floats(0.2, 1.2)


@pytest.fixture
def timed(make_record):
    """Records by seed of a method that takes this share of the unpruned model's time with half of the heads removed."""

    def make(label: str, time: float, accuracy: float = 0.7, left: float = 3.0, **fields):
        return [
            make_record(
                label=label, seed=seed, quality=[[0.9, accuracy, 0.5]], megabytes=[4.0, left, 2.0],
                samples={"0": [2.0], "4": [2 * time * (1 + seed / 100)]}, **fields,
            )
            for seed in range(SEEDS)
        ]  # fmt: skip

    return make


def test_of_two_models_of_one_size_a_budget_of_time_prefers_the_better_and_not_the_faster_timing(timed):
    found = trade_offs([*timed("lucky", 0.86, accuracy=0.6), *timed("better", 0.9, accuracy=0.8)])
    times = [found.points[label][0].time(8) for label in ("lucky", "better")]
    assert times[0] == times[1] and 0.86 < times[0].value < 0.93
    assert answer(found, Budget("time", 0.88, 8)) == {}
    assert [fit.point.label for fit in answer(found, Budget("time", 0.91, 8))["score"]] == ["better", "lucky"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(TIMES, min_size=1, max_size=4), TIMES, TIMES)
def test_a_speed_up_is_the_mean_of_what_was_timed_at_the_size_in_each_seed(timed, times, of_neurons, of_smaller):
    methods = {f"m{place}": timed(f"m{place}", time, control=not place) for place, time in enumerate(times)}
    methods["biased"] = timed("biased", 0.7, left=3.0 + 3.9 * ALIKE)  # as after a recovery that adds biases
    alone = {
        "both": timed("both", of_neurons, neurons=True),
        "smaller": timed("smaller", of_smaller, left=2.5),
        "untimed": timed("untimed", 1.0, measured={"latency": None}),
    }
    cells = {label: [records] for label, records in (methods | alone).items()}
    (found, before) = (
        pooled_speedups(each, [8]) for each in (cells, {name: cells[name] for name in ("both", "untimed")})
    )
    slower = 1 + np.arange(SEEDS) / 100
    expected = np.mean([1 / (time * slower) for time in [*times, 0.7]], axis=0)
    for label in (*methods, "untimed"):
        assert_close(found[label][8][0], np.column_stack([np.ones(SEEDS), expected, [np.nan] * SEEDS]))
    assert_close(found["both"][8][0][:, 1], 1 / (of_neurons * slower))
    np.testing.assert_array_equal(found["both"][8][0], before["both"][8][0])
    assert_close(found["smaller"][8][0][:, 1], 1 / (of_smaller * slower))
    assert np.isnan(before["untimed"][8][0]).all()


def test_sizes_that_are_each_near_the_next_do_not_make_one_of_the_first_and_the_last(timed):
    sizes = {name: 3.0 + place * 3.9 * 0.9 * ALIKE for place, name in enumerate(("a", "b", "c"))}
    times = {"a": 0.5, "b": 0.7, "c": 0.9}
    found = pooled_speedups({name: [timed(name, times[name], left=left)] for name, left in sizes.items()}, [8])
    a, b, c = (found[name][8][0][0, 1] for name in sizes)
    assert a == b == pytest.approx((1 / 0.5 + 1 / 0.7) / 2, rel=1e-6) and c == pytest.approx(1 / 0.9, rel=1e-6)

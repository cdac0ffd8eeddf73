"""Trade-offs of made-up records, against numbers counted here from their fields."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bench.analysis.stats.across import mean_of_tasks, seed_bootstrap
from bench.analysis.trade_offs.levels import sharing_levels, trade_offs
from bench.analysis.trade_offs.points import Cost, Mean, Point

SEEDS = 6
REMOVED = (0, 2, 6, 8)


def quality(label: str, data: str, seed: int) -> list[float]:
    """Quality at each level, from 0.9 down."""
    lost = np.random.default_rng([len(label), len(data), seed]).uniform(0, 0.3, 3)
    return [0.9, *(0.9 - np.sort(lost)).round(3).tolist()]


@pytest.fixture
def records(make_record):
    """Records of a method on two tasks of different models: draws, sizes and times differ from seed to seed."""

    def make(label: str = "m", data: Sequence[str] = ("a", "bb"), seeds: int = SEEDS, **fields):
        return [
            make_record(
                label=label, data=task, model=f"model-{task}", seed=seed, removed=REMOVED,
                quality=[quality(label, task, seed), quality(label + "x", task, seed)], megabytes=[8.0, 7.0, 6.0, 5.0],
                samples={"0": [4.0, 5.0, 60.0], "2": [4.0], "6": [2.5, 2.0 + 0.1 * seed, 9.0], "8": [1.0]}, **fields,
            )
            for task in data
            for seed in range(seeds)
        ]  # fmt: skip

    return make


def test_a_point_is_the_mean_over_tasks_and_seeds_with_the_bootstraps_interval(records):
    found = trade_offs(records())
    point = found.points["m"][1]
    lost = [
        np.array(
            [[90 - 100 * np.mean([quality(each, task, seed)[2] for each in ("m", "mx")]) for seed in range(SEEDS)]]
        )
        for task in ("a", "bb")
    ]
    assert point.removed == 6 / 8
    assert point.lost.value == pytest.approx(np.mean([of_task.mean() for of_task in lost]))
    expected = seed_bootstrap(mean_of_tasks, lost)
    assert expected.low is not None and expected.high is not None
    assert (point.lost.low, point.lost.high) == pytest.approx((expected.low[0], expected.high[0]))
    for own, of_task in zip(point.losses, lost, strict=True):
        np.testing.assert_allclose(own, of_task[0])
    assert point.left == pytest.approx(6 / 8) and np.isnan(point.megabytes)  # of two models
    assert found.batches == [1, 8, 32]
    batch = 8
    speedups = [5.0 / np.median([2.5, 2.0 + 0.1 * seed, 9.0]) for seed in range(SEEDS)]
    faster = point.speedups[batch]
    assert faster.value == pytest.approx(np.mean(speedups)) and point.time(batch).value == pytest.approx(
        1 / faster.value
    )
    assert faster.low is not None and point.time(batch).high == pytest.approx(1 / faster.low)
    assert found.unpruned.quality == pytest.approx(90) and found.unpruned.seconds[batch] == pytest.approx(5)


def test_of_one_task_the_size_and_the_cost_of_choosing_are_means_over_seeds(records, make_record):
    scored = records(data=("a",))
    trained = [
        make_record(label="t", data="a", model="model-a", seed=seed, removed=REMOVED, quality=[quality("t", "a", seed)],
                    trained=0.5, result={"method_training": {"passes": {"forward": 5, "backward": seed},
                                                               "reports": {}}},
                    measured={"method_training_seconds": 3.0 + seed, "scoring_seconds": 0.0, "latency": None})
        for seed in range(SEEDS)
    ]  # fmt: skip
    found = trade_offs([*scored, *trained])
    assert [point.megabytes for point in found.points["m"]] == [7.0, 6.0]  # not where everything is removed
    assert found.unpruned.megabytes == 8.0
    assert found.kinds == {"m": "score", "t": "trained"}
    assert found.costs["m"] == Cost(scored[0].measured.scoring_seconds / 2, 128 / 2)  # of two draws
    assert found.costs["t"].passes == 5 + 2.5 and found.costs["t"].seconds == 3 + 2.5
    assert (
        found.points["t"][0].speedups == found.points["m"][0].speedups != {}
    )  # models of one shape, one of them timed
    assert trade_offs([*scored, *trained], timed=False).batches == []


@pytest.mark.parametrize("other", [{"provenance": {"processor": "another"}}, {"cell": {"device": "cuda"}}])
def test_times_of_choosing_on_two_processors_are_not_averaged_but_passes_are(records, other):
    """Nor is the time of one compared with that of the other."""
    one, two = records("m"), records("n")
    found, mixed = trade_offs([*one, *two]), trade_offs([*one, *records("n", **other)])
    for label in ("m", "n"):
        assert np.isnan(mixed.costs[label].seconds) and not np.isnan(found.costs[label].seconds)
        assert mixed.costs[label].passes == found.costs[label].passes


@pytest.mark.parametrize(("other", "expected"), [(4.0, 4.0), (4.02, 4.01), (6.0, float("nan"))])
def test_the_size_of_a_model_is_averaged_where_tasks_give_it_the_same(make_record, other, expected):
    sizes = {"a": 4.0, "b": other}
    found = trade_offs(make_record(data=data, megabytes=[size, 3.0, 2.0]) for data, size in sizes.items())
    assert found.unpruned.megabytes == pytest.approx(expected, nan_ok=True)


def test_methods_that_lack_a_seed_or_a_level_have_no_points_and_are_named(records, make_record):
    made = [*records(), *records("other")[1:]]
    made += [make_record(label="few", data=d, model=f"model-{d}", seed=s) for d in ("a", "bb") for s in range(SEEDS)]
    made += [
        make_record(label="none", data="a", model="model-a", seed=s, megabytes=[4.0] * 3, control=True)
        for s in range(9)
    ]
    found = trade_offs(made)
    assert set(found.points) == {"m"} and list(found.seeds.values()) == [(0, 1, 2, 3, 4, 5)] * 2
    assert found.left_out == {
        "other": "no result for seed 0 on classification (a, model-a)",
        "few": "measured at other levels",
    }


def test_too_few_seeds_have_no_interval(records):
    assert {point.lost.low for point in trade_offs(records(seeds=4)).points["m"]} == {None}


def test_tasks_are_averaged_where_most_records_share_levels_and_the_kind_of_quality(records, make_record):
    alike = records(data=("a", "bb"))
    texts = [
        make_record(data="texts", seed=s, removed=REMOVED, quality=[[0.5] * 4], result={"parts": {}}) for s in (0, 1)
    ]
    other = [make_record(data="other", seed=s, removed=(0, 3, 8)) for s in (0, 1)]
    larger = [make_record(data="larger", removed=(0, 4, 12, 16), quality=[[0.5] * 4])]  # the same shares of 16 units
    groups = sharing_levels([*alike, *texts, *other, *larger])
    assert [[task.data for task in group] for group in groups] == [["a", "bb", "larger"]]
    assert sharing_levels([*texts, *other]) == []


def test_controls_are_marked(records):
    found = trade_offs([*records(), *records("random", control=True)])
    assert found.methods == ["m"] and found.controls == found.random == {"random"}


def test_nothing_that_removes_parameters_has_no_points(make_record):
    found = trade_offs([make_record(megabytes=[4.0] * 3)])
    assert not found.points and not found.methods and not found.batches


@pytest.mark.parametrize("ends", [(1.6, 2.5), (None, None)])
def test_a_share_of_time_is_one_over_the_speed_up_with_its_ends_in_order(ends):
    point = Point("m", 0.5, Mean(1.0), 0.8, 3.0, {8: Mean(2.0, *ends)}, ())
    assert point.time(8) == Mean(0.5, *((0.4, 0.625) if ends[0] else (None, None)))
    assert np.isnan(point.time(1).value)

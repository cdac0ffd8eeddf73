"""The metrics of a cell against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from bench.analysis.cell_metrics import metrics, metrics_table
from bench.analysis.costs import cost_in_passes, forward_speedup, forward_speedups
from bench.analysis.curves import curve
from bench.analysis.trade_offs.points import Cost, cost_of

SAMPLES = {"0": [4.0, 2.0, 3.0], "4": [1.0, 2.0, 1.5], "2": [9.0]}


@pytest.fixture
def figures(make_record):
    return lambda **result: metrics(make_record(**result))


def test_quality_at_half_and_three_quarters(figures):
    got = figures(removed=[0, 4, 6, 8], quality=[[0.9, 0.8, 0.7, 0.5]])
    assert (got["base"], got["at50"], got["at75"]) == (0.9, 0.8, 0.7)


def test_the_area_of_a_straight_line_from_whole_to_chance_is_a_half(figures):
    got = figures(removed=[0, 2, 8], quality=[[0.9, 0.8, 0.5]], chance=0.5)
    assert got["area"] == pytest.approx(0.5)
    assert figures(removed=[0, 8], quality=[[0.9, 0.9]], chance=0.5)["area"] == pytest.approx(1)
    # By hand: trapezoids of 0.25 * (0.9 + 0.7) / 2 + 0.75 * (0.7 + 0.6) / 2 = 0.6875.
    assert figures(removed=[0, 2, 8], quality=[[0.9, 0.7, 0.6]], chance=0.5)["area"] == pytest.approx(0.1875 / 0.4)


def test_the_area_to_half_is_that_of_the_first_half(figures):
    got = figures(removed=[0, 4, 8], quality=[[0.9, 0.7, 0.7]], chance=0.5)
    assert got["area50"] == pytest.approx(0.75) and got["area"] == pytest.approx(0.625)
    between = figures(removed=[0, 2, 6, 8], quality=[[0.9, 0.7, 0.5, 0.5]], chance=0.5)  # 0.6 at a half, linearly
    assert between["area50"] == pytest.approx((0.8 + 0.65) / 2 / 0.4 - 0.5 / 0.4)
    assert math.isnan(figures(quality=[[0.5, 0.5, 0.5]], chance=0.5)["area50"])


@pytest.mark.parametrize(
    ("orders", "share"),
    [
        ([[0, 1, 2, 3, 4, 5, 6, 7]], 1.0),  # the first module goes whole
        ([[0, 4, 1, 5, 2, 6, 3, 7]], 0.0),
        ([[0, 1, 2, 3, 4, 5, 6, 7], [0, 4, 1, 5, 2, 6, 3, 7]], 0.5),
    ],
)
def test_the_share_of_draws_that_empty_a_module(figures, orders, share):
    quality = [[0.9, 0.7, 0.5]] * len(orders)
    assert figures(quality=quality, result={"shape": [4, 0, 4], "orders": orders})["emptied50"] == share
    kept = [list(range(8)), sorted(orders[0][4:]), []]
    assert figures(kept=kept, result={"shape": [4, 4], "orders": None})["emptied50"] == float(share > 0)


def test_without_its_level_or_modules_nothing_is_said_of_emptied_ones(figures):
    assert math.isnan(figures(removed=[0, 2, 8], result={"shape": [4, 4]})["emptied50"])
    assert math.isnan(figures(result={"shape": []})["emptied50"])


def test_a_model_no_better_than_chance_has_no_area(figures):
    assert math.isnan(figures(quality=[[0.5, 0.5, 0.5]], chance=0.5)["area"])


@pytest.mark.parametrize(
    ("quality", "within1", "within5"),
    [
        ([0.90, 0.90, 0.90, 0.90], 1.0, 1.0),
        ([0.90, 0.89, 0.85, 0.85], 0.25, 1.0),  # a loss of exactly 1 or 5 points is within
        ([0.90, 0.80, 0.90, 0.90], 0.0, 0.0),  # a dip ends it, whatever follows
        ([0.90, 0.95, 0.88, 0.50], 0.25, 0.5),
    ],
)
def test_the_share_that_goes_before_accuracy_falls(figures, quality, within1, within5):
    got = figures(removed=[0, 2, 4, 8], quality=[quality])
    assert (got["within1"], got["within5"]) == (within1, within5)


def test_levels_that_were_not_measured_are_nan(figures):
    got = figures(removed=[0, 2, 8], quality=[[0.9, 0.8, 0.5]])
    assert all(math.isnan(got[name]) for name in ("at50", "at75", "mb", "speedup1", "speedup8", "speedup32"))
    assert not math.isnan(got["area"])


def test_none_and_all_units_are_no_half(figures):
    "One of a model's two units is a half of them, and three quarters are both."
    got = figures(removed=[0, 1, 2], quality=[[0.9, 0.8, 0.5]], result={"units": 2, "orders": [[0, 1]]})
    assert got["at50"] == 0.8 and math.isnan(got["at75"])


def test_draws_are_averaged_before_anything_else(figures, make_record):
    quality = [[0.9, 0.9, 0.5], [0.9, 0.7, 0.4]]
    got = figures(quality=quality)
    assert got["at50"] == pytest.approx(0.8)
    assert got["within5"] == 0.0  # one draw of two would reach 0.5
    share, mean = curve(make_record(quality=quality))
    assert share.tolist() == [0, 0.5, 1] and mean.tolist() == pytest.approx([0.9, 0.8, 0.45])


def test_size_and_speed_are_those_at_half(figures):
    got = figures(samples=SAMPLES)
    assert (got["mb"], got["mb_base"]) == (3.0, 4.0)
    assert got["speedup1"] == 2.0  # median 3 over median 1.5


def test_each_batch_size_has_its_own_speed(figures):
    samples = {str(batch): {"0": [ratio], "4": [1.0]} for batch, ratio in ((1, 2.0), (8, 3.0), (32, 4.0))}
    got = figures(measured={"latency": {"samples": samples}})
    assert [got[f"speedup{batch}"] for batch in (1, 8, 32)] == [2.0, 3.0, 4.0]


def test_generation_is_compared_at_half_and_where_amp_gives_it(figures):
    generation = {"samples": {"0": [9.0], "4": [3.0]}, "prompt": 12, "new": 8}
    got = figures(measured={"generation": generation})
    assert got["speedup_generate50"] == 3.0 and math.isnan(got["speedup_generate"])


def test_none_keeps_everything(figures):
    everything = [list(range(8))] * 3
    got = figures(quality=[[0.9] * 3], kept=everything, megabytes=[4.0] * 3, samples={"0": [4.0, 2.0, 3.0]})
    assert (got["within1"], got["within5"]) == (0.0, 0.0)
    assert got["mb"] == got["mb_base"]
    assert got["speedup1"] == got["speedup8"] == got["speedup32"] == 1.0


def test_a_selector_is_timed_at_the_units_it_really_removed(figures):
    kept = [list(range(8)), list(range(6)), []]  # two removed, though four were asked for
    got = figures(kept=kept, samples=SAMPLES)
    assert got["speedup1"] == pytest.approx(3 / 9)


@pytest.mark.parametrize("kept", [None, [list(range(8)), list(range(6)), []]], ids=["ranked", "selected"])
def test_speedups_at_all_levels_are_those_at_each(make_record, kept):
    record = make_record(samples=SAMPLES, kept=kept)
    levels = [removed / record.result.units for removed in record.result.removed]
    for batch in (1, 8, 2):
        each = [forward_speedup(record, batch, level) for level in levels]
        assert forward_speedups(record, batch).tolist() == pytest.approx(each, nan_ok=True)
    assert not math.isnan(forward_speedups(record, 1)[1])


@pytest.mark.parametrize("latency", [None, {"samples": {"1": {"0": [1.0], "2": [1.0]}}}])
def test_what_was_not_timed_has_no_speedup(figures, latency):
    got = figures(measured={"latency": latency})
    assert all(
        math.isnan(got[name])
        for name in ("speedup1", "speedup8", "speedup32", "speedup_generate", "speedup_generate50")
    )
    assert got["area"] == pytest.approx(0.5)


def test_a_point_of_a_bytes_probability_says_nothing(figures):
    got = figures(quality=[[0.06, 0.05, 0.004]], chance=1 / 256, result={"parts": {}})
    assert math.isnan(got["within1"]) and math.isnan(got["within5"]) and got["at50"] == 0.05


def test_the_cost_of_a_joint_method_is_its_training(make_record):
    scorer = make_record()
    training = {"passes": {"forward": 900, "backward": 800}, "reports": {}}
    joint = make_record(trained=0.1, result={"passes": {"forward": 0, "backward": 0}, "method_training": training})
    assert (cost_in_passes(scorer), cost_in_passes(joint)) == (scorer.result.passes.total, 1700)


def test_costs_are_the_mean_of_the_draws(figures, make_record):
    several = {"quality": [[0.9, 0.8, 0.5]] * 4, "result": {"passes": {"forward": 200, "backward": 40}}}
    measured = {"scoring_seconds": 6.0, "method_training_seconds": 2.0}
    got = figures(**several, measured=measured)
    assert [got[name] for name in ("forward", "backward", "scoring_seconds", "training_seconds")] == [50, 10, 1.5, 0.5]
    record = make_record(**several, measured=measured)
    assert cost_in_passes(record) == 60
    assert cost_of([[record]], one_machine=True) == Cost(2.0, 60)


def test_the_table_has_a_row_for_each_cell(make_record):
    table = metrics_table([make_record(label="a"), make_record(label="b", seed=1, trained=0.1, neurons=True)])
    rows = zip(table["label"], table["seed"], table["trained"], table["removes"], strict=True)
    assert list(rows) == [("a", 0, 0.0, "heads"), ("b", 1, 10.0, "heads and neurons")]


def test_where_no_usual_level_was_measured_the_nearest_are_shown(make_record):
    """Of 8 heads 2 and 5, for a half and for three quarters the same; of 10, 3 and 6."""
    same = {"quality": [[0.9, 0.8, 0.7, 0.5]], "removed": [0, 2, 5, 8]}
    found = metrics_table([make_record(label=label, **same) for label in ("a", "b")])
    assert "at50" not in found and "at75" not in found and found["at62"].tolist() == [0.7, 0.7]
    more = {"quality": [[0.9, 0.8, 0.6, 0.5]], "removed": [0, 3, 6, 10], "result": {"units": 10, "shape": [5, 5]}}
    found = metrics_table([make_record(**same), make_record(data="more", **more)])
    assert found["at60to62"].tolist() == [0.7, 0.6]
    assert list(found.columns)[list(found.columns).index("chance") + 1] == "at60to62"


def test_a_usual_level_that_some_records_have_stays_alone(make_record):
    found = metrics_table([make_record(), make_record(seed=1, removed=[0, 2, 8])])
    assert found["at50"].notna().tolist() == [True, False] and found["at75"].isna().all()
    ends = metrics_table([make_record(quality=[[0.9, 0.5]], removed=[0, 8])])
    assert ends["at50"].isna().all()  # there is no level between

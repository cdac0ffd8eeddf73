"""From records on disk to samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.analysis.stats.documents import document_bootstrap
from bench.analysis.stats.samples import area, area_to, check_equal, load
from bench.records.errors import InputError
from bench.records.protocol import PROTOCOL

TASK = ("classification", "data", "model")


def test_a_cell_is_a_sample(keep):
    keep("ae")
    (sample,) = load(keep("michel", [0.9, 0.7, 0.5], seed=3)).of(TASK, "michel").values()
    assert (sample.task, sample.label, sample.seed, sample.units, sample.draws) == (TASK, "michel", 3, 8, 1)
    assert (sample.shares.tolist(), sample.quality.tolist()) == ([0, 0.5, 1], [0.9, 0.7, 0.5])
    assert sample.parameters.tolist() == [0, 0.25, 0.5]  # of 4, 3 and 2 megabytes
    assert sample.outcomes(1).tolist() == [1] * 70 + [0] * 30
    assert (sample.removes, sample.trained, sample.parts) == ("heads", 0, (100,))


def test_draws_within_a_seed_are_averaged_first(keep):
    (sample,) = load(keep("random", [0.9, 0.8, 0.5], [0.9, 0.4, 0.5])).samples
    assert sample.quality == pytest.approx([0.9, 0.6, 0.5])
    assert sample.outcomes(1).tolist() == [1] * 40 + [0.5] * 40 + [0] * 20
    assert sample.draws == 2 and sample.orders is not None and sample.orders.shape == (2, 8)


def test_the_committed_records_say_the_same_of_outcomes_and_quality():
    folder = Path(__file__).parents[4] / "results"
    samples = load(folder)
    assert len(samples.tasks()) == 4 and not samples.failures and not samples.other_protocol
    check_equal(samples.samples)
    for sample in samples.samples[::9]:
        assert sample.outcomes(4).mean() == pytest.approx(sample.quality[4])


def test_groups_of_examples_are_means_of_their_own(keep):
    parts = {"first": 80, "second": 20}
    quality = {"quality": [[0.9, 0.5, 0.5]]}  # of 50 right: (50 / 80 + 0 / 20) / 2
    (sample,) = load(keep("michel", [0.9, 0.5, 0.5], result={"parts": parts} | quality)).samples
    assert sample.parts == (80, 20)
    outcomes = sample.outcomes(1)[None]
    assert document_bootstrap(outcomes, np.zeros_like(outcomes), sample.parts).mean == pytest.approx(0.3125)


def test_failed_cells_and_other_protocols_are_named(keep, monkeypatch):
    keep("michel")
    folder = keep("ae", reason="RuntimeError: no")
    samples = load(folder)
    assert [(one.task, one.label, one.seed, one.reason) for one in samples.failures] == [
        (TASK, "ae", 0, "RuntimeError: no")
    ]
    assert samples.labels() == ["michel"]
    monkeypatch.setattr("bench.records.store.PROTOCOL", PROTOCOL + 1)
    with pytest.raises(InputError, match="another protocol"):
        load(folder)


def test_some_records_of_another_protocol_are_counted(keep):
    keep("michel")
    samples = load(keep("ae", protocol=PROTOCOL - 1))
    assert samples.other_protocol == 1 and samples.labels() == ["michel"]


def test_no_records_and_corrupt_ones(keep, tmp_path):
    with pytest.raises(InputError, match="no records there"):
        load(tmp_path)
    folder = keep("michel")
    (sample,) = load(folder).samples
    sample.path.with_suffix(".safetensors").write_bytes(b"other")
    with pytest.raises(InputError, match="corrupt record"):
        load(folder)
    with pytest.raises(InputError, match="corrupt record"):
        sample.outcomes(0)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"limit": 50}, "limit 50"),
        ({"dtype": "bfloat16"}, "dtype bfloat16"),
        ({"removed": (0, 2, 8)}, "0, 2, 8 of 8 units"),
        ({"chance": 0.2}, "chance 0.2"),
        ({"examples": 200}, "200 test examples"),
        ({"result": {"parts": {"a": 40, "b": 60}}}, "parts a 40, b 60"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_unequal_settings_are_refused_in_one_line(keep, other, told):
    keep("michel")
    keep("ae", **other)
    samples = load(keep("michel", data="else", limit=7)).samples  # another task may be what it likes
    with pytest.raises(InputError, match=told) as error:
        check_equal(samples)
    assert "ae:" in str(error.value) and "michel:" in str(error.value) and "\n" not in str(error.value)


def test_the_area_is_a_mean_over_shares(keep):
    assert area(np.array([0, 0.5, 1]), np.array([0.9, 0.7, 0.5])) == pytest.approx(0.7)
    assert area(np.array([0, 0.5]), np.array([0.9, 0.7])) == pytest.approx(0.8)  # of the shares measured
    assert area(np.array([0, 0.25, 1]), np.array([1.0, 1.0, 0.0])) == pytest.approx(0.25 + 0.75 / 2)


def test_the_area_over_parameters_is_linear_between_levels(keep):
    (sample,) = load(keep("michel", [0.9, 0.7, 0.3])).samples  # at 0, 25 and 50 % of parameters
    assert area_to(0.25, sample) == pytest.approx(0.8)
    assert area_to(0.5, sample) == pytest.approx((0.8 + 0.5) / 2)
    assert area_to(0.375, sample) == pytest.approx((0.8 * 2 + 0.6) / 3)
    assert area_to(0.1, replace(sample, quality=np.full(3, 0.4))) == pytest.approx(0.4)

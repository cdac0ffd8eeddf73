"""Cells that were measured under different settings are not compared."""

from __future__ import annotations

import pytest

from bench.analysis.comparing.comparable import check_comparable, differing, settings, unlike_most
from bench.records.errors import InputError
from bench.records.schema import FailedRecord

SETTINGS = [
    ({"limit": 50}, "limit 50 (ae), limit none (michel)"),
    ({"dtype": "bfloat16"}, "dtype bfloat16 (ae)"),
    ({"removed": (0, 2, 8)}, "units removed 0, 2, 8 of 8 (ae), units removed 0, 4, 8 of 8 (michel)"),
    ({"result": {"units": 9, "orders": [list(range(9))]}}, "units removed 0, 4, 8 of 9 (ae)"),
    ({"chance": 0.2}, "chance 0.2 (ae)"),
    ({"cell": {"calibration": 64}}, "calibration examples 128 (michel), calibration examples 64 (ae)"),
    ({"cell": {"calibration_from": "held-out"}}, "calibration from held-out (ae), calibration from train (michel)"),
    ({"cell": {"asked": {"text": ["a", "b"]}}}, "text a+b (ae)"),
    ({"cell": {"asked": {"beams": 4}}}, "beams 1 (michel), beams 4 (ae)"),
    ({"cell": {"asked": {"label_smoothing": 0.1}}}, "label smoothing 0.1 (ae)"),
    ({"cell": {"asked": {"languages": ["en", "hu"]}}}, "languages en+hu (ae)"),
    ({"result": {"parts": {"data": 200}}}, "test examples data 100 (michel), test examples data 200 (ae)"),
    ({"result": {"parts": {}}}, "test examples texts only (ae)"),
]


@pytest.mark.parametrize(("other", "said"), SETTINGS, ids=[said for _, said in SETTINGS])
def test_records_of_one_task_have_to_share_their_settings(make_record, other, said):
    elsewhere = make_record("ae", data="else", limit=7)  # another task may have other settings
    with pytest.raises(InputError, match="classification, data, model: measured under different settings") as error:
        check_comparable([make_record("michel"), make_record("ae", **other), elsewhere])
    assert said in str(error.value) and "\n" not in str(error.value)


def test_only_the_settings_that_differ_are_named(make_record):
    one, other = make_record("michel"), make_record("ae", limit=50)
    assert differing([one, other]) == {"limit": {"none": [one], "50": [other]}}
    check_comparable([one, make_record("ae", seed=1)])


@pytest.mark.parametrize(
    ("asked", "same"),
    [({"label": "label"}, True), ({"text": ["text"]}, True), ({"limit": 500}, True), ({"finetune": True}, False)],
)
def test_the_same_data_may_be_asked_for_in_other_words(make_record, asked, same):
    """As by the columns that an adapter reads anyway. What is not of the data counts."""
    records = [
        make_record(label, cell={"origin": origin, "asked": words})
        for label, origin, words in (("michel", "f" * 64, {}), ("ae", "f" * 64, asked), ("gnorm", "e" * 64, asked))
    ]
    assert (not differing(records[:2])) == same
    (name,) = asked
    assert {name, "digest of data and model"} <= set(differing(records))


@pytest.mark.parametrize("asked", [{"beams": 1}, {"dtype": "float32"}])
def test_what_is_taken_where_nothing_was_asked_may_be_asked_for(make_record, asked):
    assert not differing([make_record("michel"), make_record("ae", cell={"asked": asked})])


def test_a_setting_that_a_record_does_not_have_is_equal_to_any(make_record):
    """The share of training of a method that trains nothing, the data of an old record, the levels of a failed cell."""
    plain, origin = make_record("michel"), make_record("ae", trained=0.1, cell={"origin": "f" * 64})
    failed = FailedRecord(cell=plain.cell, provenance=plain.provenance, reason="RuntimeError")
    check_comparable([plain, origin, failed])
    assert "units removed" not in settings(failed) and "training" not in settings(plain)


@pytest.mark.parametrize("other", [{"trained": 0.2}, {"cell": {"origin": "0" * 64}}])
def test_shares_of_training_and_origins_are_compared_where_there_are_two(make_record, other):
    known = {"trained": 0.1, "cell": {"origin": "f" * 64}}
    with pytest.raises(InputError, match=r"training 10 %|digest of data and model ffff"):
        check_comparable([make_record("ste", **known), make_record("dsp", **known | other)])


def test_methods_under_other_settings_than_most_are_told_with_what_is_other(make_record):
    most = [make_record(label, seed=seed) for label in ("michel", "ae", "gnorm") for seed in (0, 1)]
    other = [make_record("tis", limit=50), make_record("tis", seed=1), make_record("hies", cell={"calibration": 64})]
    assert unlike_most([*most, *other]) == {
        "tis": "limit 50 and none instead of none",
        "hies": "calibration examples 64 instead of 128",
    }
    shares = [make_record(label, trained=share) for label, share in (("a", 0.5), ("b", 0.5), ("c", 0.1))]
    assert unlike_most([*most, *shares]) == {"c": "training 10 % of the task's own instead of 50 % of the task's own"}


def test_seeds_under_other_settings_for_all_methods_alike_leave_none_out(make_record):
    """As where a run went on with other texts to calibrate on: what is other is so for each method."""
    assert unlike_most(make_record(label, seed=seed, limit=50 * seed) for label in "ab" for seed in range(2)) == {}

"""The kinds of methods, and which controls each has."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.analysis.comparing.controls import controls_of, random_removal
from bench.analysis.kinds import KINDS, kind, share_trained
from bench.records.storage.store import Store

RESULTS = Path(__file__).parents[4] / "results" / "mini"
FREE = {"shape": "joint"}  # makes new weights, and trains nothing
TRAINS = {"shape": "joint", "trained": 0.1}
BOTH = {"neurons": True}


@pytest.fixture
def record_of(make_record):
    """The record of a method by its label, with these fields of its cell."""

    def make(label: str, control: bool = False, neurons: bool = False, **cell):
        method, _, given = label.partition(":")
        options = {"allocation": "global"} | dict(pair.split("=") for pair in given.split(",") if pair)
        options |= cell.pop("options", {})
        return make_record(
            label=label, control=control, neurons=neurons, cell={"method": method, "options": options} | cell
        )

    return make


@pytest.fixture
def records(record_of):
    """One record of each of these methods, by label."""
    found = [
        *map(record_of, ("michel", "ae", "michel:recover=bias", "michel:recover=lstsq", "ae:recover=lstsq", "obs")),
        record_of("obs-compensated", **FREE),
        *(record_of(f"random{ending}", True) for ending in ("", ":recover=lstsq", ":allocation=layer")),
        record_of("michel:allocation=layer"),
        record_of("amp", **BOTH),
        record_of("random-both", True, **BOTH),
        record_of("amp-recovered", **BOTH, **TRAINS, options={"choice": "amp"}),
        record_of("amp-recovered:choice=random", True, **BOTH, **TRAINS),
        record_of("amp-recovered:choice=inverse", True, **BOTH, **TRAINS),
        record_of("dsp-joint", **TRAINS, options={"start": "finetuned"}),
        record_of("dsp-joint:start=pretrained", **TRAINS),
        record_of("dsp-pipelined", **TRAINS, options={"frozen": True}),
        *(
            record_of(f"{name}-retrained{ending}", True, **TRAINS, options={"choice": name, "start": start})
            for name in ("michel", "random")
            for ending, start in (("", "finetuned"), (":start=pretrained", "pretrained"))
        ),
    ]
    return {each.cell.label: each for each in found}


def test_the_kind_says_what_becomes_of_the_weights(records):
    found = {own: {label for label, each in records.items() if kind(each.cell) == own} for own in KINDS}
    assert found["recovered"] == {label for label in records if "recover=" in label} | {"obs-compensated"}
    assert found["trained"] == {each for each in records if each.startswith(("amp-rec", "dsp")) or "retrained" in each}
    assert set.union(*found.values()) == set(records)


def test_committed_records_have_the_kind_of_their_method():
    store = Store(RESULTS)
    cells = [store.read(path).cell for path in store.paths() if path.match("mnli*/*/seed0.json")]
    of_label = {cell.label: kind(cell) for cell in cells}
    joint = {"dsp-joint", "dsp-pipelined", "ste", "voita", "amp-recovered", "michel-retrained", "random-retrained"}
    assert {label for label in joint if of_label[label] != "trained"} == set()
    scores = {"michel", "greedy-gnorm", "random", "random-both", "none", "amp", "oracle-greedy", "inverse-ae"}
    assert {label for label in scores if of_label[label] != "score"} == set()


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("michel", {"random": "random"}),
        ("ae", {"random": "random"}),
        ("michel:allocation=layer", {"random": "random:allocation=layer"}),
        ("amp", {"random": "random-both"}),
        ("random", {}),
        ("random-both", {}),
        ("michel:recover=lstsq", {"random": "random:recover=lstsq", "untreated": "michel"}),
        ("michel:recover=bias", {"untreated": "michel"}),  # random:recover=lstsq does more to the weights
        ("random:recover=lstsq", {"untreated": "random"}),
        ("obs-compensated", {"random": "random:recover=lstsq"}),
        (
            "dsp-joint",
            {"random": "random-retrained", "michel": "michel-retrained", "untreated": "michel:recover=lstsq"},
        ),
        (
            "dsp-joint:start=pretrained",
            {
                "random": "random-retrained:start=pretrained",
                "michel": "michel-retrained:start=pretrained",
                "untreated": "michel:recover=lstsq",
            },
        ),
        ("random-retrained", {"untreated": "random:recover=lstsq"}),
        ("dsp-pipelined", {"random": "random", "michel": "michel"}),  # it trains gates, on weights that stay
        ("amp-recovered", {"random": "amp-recovered:choice=random"}),
        ("amp-recovered:choice=inverse", {"random": "amp-recovered:choice=random"}),
    ],
)
def test_each_method_has_the_controls_of_its_kind(records, label, expected):
    assert controls_of(records, label) == expected


def test_of_several_recoveries_the_strongest_is_the_control(records, record_of):
    more = {label: record_of(label, True) for label in ("random:recover=bias", "random:recover=scale")}
    assert controls_of(records | more, "obs-compensated") == {"random": "random:recover=lstsq"}
    del records["random:recover=lstsq"]
    assert controls_of(records | more, "obs-compensated") == {"random": "random:recover=scale"}
    assert controls_of(records | more, "michel:recover=bias")["random"] == "random:recover=bias"


def test_each_way_to_recover_has_a_control_of_its_own(records, record_of):
    labels = [f"{name}:recover={how}" for name in ("kwon", "random") for how in ("scale", "scale-damped")]
    more = {label: record_of(label, label.startswith("random")) for label in labels}
    for how in ("scale", "scale-damped"):
        assert controls_of(records | more, f"kwon:recover={how}")["random"] == f"random:recover={how}"


def test_what_removes_nothing_has_no_control(record_of, make_record):
    none = make_record(label="none", control=True, kept=[[*range(8)]] * 3, megabytes=[4.0, 4.0, 4.0])
    assert controls_of({"none": none, "random": record_of("random", True)}, "none") == {}


def test_the_control_that_every_method_should_beat_leaves_the_weights_alone(records):
    assert random_removal(records) == "random"
    del records["random"]
    assert random_removal(records) == "random:allocation=layer"
    del records["random:allocation=layer"]
    assert random_removal(records) == ""


def test_a_method_with_epochs_of_its_own_has_the_share_of_its_steps(make_record):
    reports = {"reports": {4: {"steps": 100.0}, 8: {"steps": 0.0}}, "passes": {"forward": 1, "backward": 1}}
    fields = {"trained": 1.0, "training": {"steps": 300}}
    own = make_record(label="dsp", cell={"options": {"epochs": 1.0}}, result={"method_training": reports}, **fields)
    assert share_trained(own) == pytest.approx(1 / 3)
    assert share_trained(make_record(label="dsp", cell={"options": {"epochs": 0.0}}, **fields)) == 1.0
    assert share_trained(make_record(label="michel")) is None

"""DSP, pipelined and joint, and the straight-through estimator: budgets, weights, reports, independence."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest
import torch

from methods import METHODS, OptionError
from methods.dsp import _initial
from methods.heads import gated

NAMES = ("dsp-joint", "dsp-pipelined", "ste")


def train(name, view, budgets, **options):
    method = METHODS[name]
    return list(method.function(view, budgets, **method.configure(options)))


def view_with(tiny, steps, seed=0):
    view = tiny.view(tiny.model("bert"), [tiny.batch(tiny.sentences(0))], seed=seed)
    return dataclasses.replace(view, training=dataclasses.replace(view.training, steps=steps))


def same_weights(one, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize("name", NAMES)
def test_every_budget_is_met_and_only_joint_training_touches_weights(tiny, architecture, name):
    view = tiny.random_view(architecture)
    budgets = list(range(len(view.heads) + 1))
    for keep, found in zip(budgets, train(name, view, budgets), strict=True):
        assert found.mask.dtype == torch.bool and int(found.mask.sum()) == keep
        if name == "dsp-pipelined":
            assert found.model is view.model
        else:
            assert not same_weights(found.model, view.model)


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_does_not_depend_on_the_others(tiny, name):
    (alone,) = train(name, view_with(tiny, 3), [3])
    among = train(name, view_with(tiny, 3), [6, 1, 3])[2]
    assert torch.equal(alone.mask, among.mask) and alone.report == among.report
    assert same_weights(alone.model, among.model)


@pytest.mark.parametrize("name", NAMES)
def test_results_follow_the_seed(tiny, name):
    margins = [train(name, view_with(tiny, 3, seed), [4])[0].report["margin"] for seed in (0, 0, 1)]
    assert margins[0] == margins[1] != margins[2]


def test_no_trained_model_is_held_after_it_is_yielded(tiny):
    method, view = METHODS["dsp-joint"], view_with(tiny, 1)
    copies = []
    for found in method.function(view, [1, 2, 3], **method.configure({})):
        copies.append(weakref.ref(found.model))
        del found
        gc.collect()
        assert [copy() for copy in copies] == [None] * len(copies)


@pytest.mark.parametrize(
    ("given", "steps", "temperatures", "rate"),
    [
        ({}, 7, (1000, 1e-8), 0.5),
        ({"cooldown": 1.0}, 10, (1000, 10 ** (3 - 0.9 * 11)), 0.5),
        ({"start_temperature": 0.1, "end_temperature": 0.01, "learning_rate": 0.2}, 7, (0.1, 0.01), 0.2),
    ],
)
def test_the_report_gives_the_schedule_and_options_change_it(tiny, given, steps, temperatures, rate):
    (found,) = train("dsp-joint", view_with(tiny, 10), [4], schedule="paper", **given)
    report = found.report
    assert (report["steps"], report["cooldown_steps"], report["learning_rate"]) == (10, steps, rate)
    assert (report["start_temperature"], report["final_temperature"]) == pytest.approx(temperatures)
    assert report["margin"] > 0


def test_the_default_schedule_follows_from_the_steps_that_are_taken(tiny):
    short, long = (train("dsp-joint", view_with(tiny, 4), [4], epochs=epochs)[0].report for epochs in (0, 8))
    assert (short["steps"], long["steps"]) == (4, 24)
    assert 1 < short["start_temperature"] < long["start_temperature"]
    assert short["learning_rate"] > long["learning_rate"] > 0.5


def test_the_learning_rate_grows_where_weights_adapt_to_noisy_gates_and_falls_where_they_are_frozen(tiny):
    rates = [train(name, view_with(tiny, 4), [4])[0].report["learning_rate"] for name in NAMES]
    assert rates[0] > 0.5 > rates[1] and rates[2] == 0.5


@pytest.mark.parametrize("name", ["dsp-joint", "ste"])
def test_joint_training_can_start_where_the_tasks_own_training_did(tiny, name):
    view = view_with(tiny, 3)
    first = tiny.model("bert", seed=7)
    from_there = dataclasses.replace(view.training, initial=first.state_dict())
    (found,) = train(name, dataclasses.replace(view, training=from_there), [4], start="pretrained")
    (expected,) = train(name, dataclasses.replace(view_with(tiny, 3), model=first), [4])
    assert torch.equal(found.mask, expected.mask) and same_weights(found.model, expected.model)
    assert same_weights(view.model, tiny.model("bert"))


def test_a_model_taken_as_it_is_has_no_other_start(tiny):
    with pytest.raises(OptionError, match="start=pretrained: the model is taken as it is"):
        train("dsp-joint", view_with(tiny, 3), [4], start="pretrained")


def test_frozen_weights_start_from_the_tasks_model():
    for name, options in ("dsp-pipelined", {}), ("dsp-joint", {"frozen": True}), ("ste", {"frozen": True}):
        with pytest.raises(OptionError, match="start=pretrained trains the weights"):
            METHODS[name].configure({"start": "pretrained", **options})


@pytest.mark.parametrize(("epochs", "steps"), [(0, 4), (1, 3), (2, 6), (0.01, 1)])
def test_epochs_count_passes_over_the_training_split(tiny, epochs, steps):
    (found,) = train("dsp-pipelined", view_with(tiny, 4), [4], epochs=epochs)
    assert found.report["steps"] == steps


def test_cooled_gates_are_the_mask(tiny):
    """The gates at the last step of training are those of the evaluation, so their logits agree."""
    view = view_with(tiny, 6)
    seen = []

    def forward(model, batch):
        logits = view.forward(model, batch)
        seen.append(logits.detach())
        return logits

    # Far beyond the noise.
    options = {"learning_rate": 100.0, "cooldown": 0.5, "end_temperature": 1e-8, "frozen": True}
    watched = dataclasses.replace(view, forward=forward)
    for module in view.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # for train and evaluation mode to agree
    (found,) = train("dsp-joint", watched, [3], **options)
    with torch.no_grad(), gated(view.model, found.mask):
        torch.testing.assert_close(seen[-1], view.logits(view.batches[0]))


def test_straight_through_gates_have_no_temperature(tiny):
    (found,) = train("ste", view_with(tiny, 2), [4])
    assert not [name for name in found.report if "temperature" in name or "cooldown" in name]


def test_a_cooldown_beyond_the_steps_is_refused():
    with pytest.raises(OptionError, match=r"cooldown=1\.5: expected a number, at least 0, at most 1"):
        METHODS["dsp-joint"].configure({"cooldown": 1.5})


def test_initial_weights_are_uniform_within_glorots_bound_for_the_grid_of_heads(tiny, monkeypatch):
    heads = tiny.random_view("bert").heads
    monkeypatch.setattr(type(heads), "shape", (2, 10))
    draws = torch.stack([_initial(heads, torch.Generator().manual_seed(seed)).detach() for seed in range(50)])
    bound = (6 / (2 + 10)) ** 0.5
    assert 0.97 * bound < draws.abs().max() <= bound and draws.min() < -0.9 * bound and draws.max() > 0.9 * bound

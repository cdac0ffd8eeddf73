"""Training of gates: against the same training written out, and without side effects."""

from __future__ import annotations

import copy
import dataclasses
from itertools import islice

import pytest
import torch
from torch import nn

from methods.heads import gated
from methods.training.gates import LearningSteps, Seeds, train_gates
from methods.training.loop import training_of

SEEDS = Seeds(gates=1, dropout=2)
STEPS = 4


@pytest.fixture
def view(tiny, architecture):
    """A model with dropout, and three batches for four steps."""
    return scene(tiny, architecture)


def scene(tiny, architecture, dtype=torch.float32):
    batches = [tiny.batch(tiny.sentences(seed), extra=seed) for seed in range(3)]
    view = tiny.view(tiny.model(architecture, dtype=dtype), batches, tiny.unit(architecture))
    return dataclasses.replace(view, training=dataclasses.replace(view.training, steps=STEPS))


def parameter(view, value=0.6):
    return torch.full((len(view.heads),), value, dtype=torch.float64, requires_grad=True)


def ones(view):
    return lambda step: torch.ones(len(view.heads), dtype=torch.float64)


def run(view, parameter, gates, **changes):
    options = {"learning_rate": 0.1, "frozen": False, "seeds": SEEDS, **changes}
    return train_gates(view, parameter, gates, **options)[0]


def spying(view):
    """The view, and a list that fills with (train mode, whether weights require a gradient, dtypes) of each forward."""
    seen = []

    def forward(model, batch):
        parameters = list(model.parameters())
        seen.append((model.training, {p.requires_grad for p in parameters}, {p.dtype for p in parameters}))
        return view.forward(model, batch)

    return dataclasses.replace(view, forward=forward), seen


def test_the_training_written_out(tiny, architecture):
    """Weights and gates, with dropout, a penalty, separate clipping, Adam and both schedules.

    In float64: the gradients of some biases are pure rounding, which Adam in float32 would scale up to whole steps.
    """
    view = scene(tiny, architecture, torch.float64)
    w = parameter(view)
    trained = run(view, w, lambda step: w * (1 + step), penalty=lambda: 0.3 * w.square().sum())
    model, gate = copy.deepcopy(view.model).train().requires_grad_(True), parameter(view)
    optimizer, schedule = view.training.optimizer(model)
    first, second = torch.zeros_like(gate), torch.zeros_like(gate)  # Adam's moments
    with torch.random.fork_rng():
        torch.manual_seed(SEEDS.dropout)
        for step, batch in enumerate(islice(view.training.batches(), STEPS)):
            with gated(model, gate * (1 + step), view.heads):
                losses = view.loss_of_logits(model(**batch.inputs).logits, batch)
            (losses.sum() / len(batch.labels) + 0.3 * gate.square().sum()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            gradient = gate.grad * min(1.0, 1 / (gate.grad.norm().item() + 1e-6))
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            change = (first / (1 - 0.9 ** (step + 1))) / ((second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
            gate = (gate - 0.1 * (1 - step / STEPS) * change).detach().requires_grad_()
    torch.testing.assert_close(w, gate, rtol=1e-9, atol=1e-9)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], value, rtol=1e-6, atol=1e-8)


def test_frozen_weights_do_not_change(view):
    watched, seen = spying(view)
    w = parameter(view)
    trained = run(watched, w, lambda step: w, frozen=True)
    assert seen == [(True, {False}, {torch.float32})] * STEPS
    assert not torch.equal(w, parameter(view))
    for name, value in view.model.state_dict().items():
        assert torch.equal(trained.state_dict()[name], value)


def test_the_copy_is_ready_and_the_model_unchanged(view):
    before = copy.deepcopy(view.model.state_dict())
    view.model.requires_grad_(True)
    view.loss(view.batches[0]).sum().backward()  # gradients that the copy must not take over
    with torch.no_grad():
        trained = run(view, parameter(view), ones(view))
    assert not any(module.training for module in trained.modules())
    assert not any(p.requires_grad or p.grad is not None for p in trained.parameters())
    assert all(p.requires_grad for p in view.model.parameters())
    assert any(p.grad is not None for p in view.model.parameters())
    assert any(not torch.equal(trained.state_dict()[name], value) for name, value in before.items())
    assert all(torch.equal(view.model.state_dict()[name], value) for name, value in before.items())


def test_half_precision_is_trained_in_float32_and_rounded_at_the_end(view):
    halves = dataclasses.replace(view, model=copy.deepcopy(view.model).bfloat16())
    watched, seen = spying(halves)
    trained = run(watched, parameter(view), ones(view))
    assert seen == [(True, {True}, {torch.float32})] * STEPS
    whole = dataclasses.replace(view, model=copy.deepcopy(halves.model).float())
    expected = run(whole, parameter(view), ones(view))
    for (name, value), weight in zip(expected.named_parameters(), trained.parameters(), strict=True):
        assert weight.dtype == torch.bfloat16
        torch.testing.assert_close(weight.float(), value.bfloat16().float(), rtol=0.01, atol=1e-3, msg=name)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_named(view, bad):
    calls = []

    def loss(logits, batch):
        calls.append(batch)
        return logits.sum(1) * (1.0 if len(calls) < 3 else bad)

    broken = dataclasses.replace(view, loss_of_logits=loss)
    with pytest.raises(FloatingPointError, match=r"^loss is -?(nan|inf) at step 3 of 4 of training gates: .*0\.1$"):
        run(broken, parameter(view), ones(view))


def test_a_view_without_training_examples_is_refused(tiny):
    with pytest.raises(ValueError, match="no training examples"):
        training_of(dataclasses.replace(tiny.random_view("bert"), training=None))


def test_seeds_come_from_the_view_alone(tiny):
    model = tiny.model("bert")
    first, same, other = (Seeds.draw(tiny.view(model, [], seed=seed)) for seed in (0, 0, 1))
    assert first == same and first != other and first.gates != first.dropout
    assert torch.equal(torch.rand(3, generator=first.noise()), torch.rand(3, generator=first.noise()))


def test_steps_count_as_learning_while_some_gradient_is_not_small_beside_the_earlier_ones():
    w = torch.zeros(2, requires_grad=True)
    learning = LearningSteps(w)
    for gradient in ([0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [1e-3, 0.0], [1e-3, 1e-6], [1e-3, 1e-6], [0.2, 0.0]):
        w.grad = torch.tensor(gradient)
        learning.step()
    assert learning.count == 5  # all but the first and the fourth


def test_learning_is_watched_before_the_parameter_moves(view):
    w = parameter(view)
    learning = LearningSteps(w)
    run(view, w, lambda step: w if step < 2 else w.detach() + 0 * w, before_update=learning)
    assert learning.count == 2


@pytest.mark.parametrize(("last", "learns"), [(0.2, True), (0.11, True), (0.09, False), (0.0, False)])
def test_a_step_counts_from_a_tenth_of_the_root_mean_square(last, learns):
    parameter = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    steps = LearningSteps(parameter)
    for number in range(50):
        parameter.grad = torch.full((2,), 1.0 if number < 49 else last, dtype=torch.float64)
        steps.step()
    assert steps.count == 49 + learns

"""A trace is what the training saw, stretch by stretch."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from methods import METHODS
from methods.training.tracing import STRETCHES, Recorder


@given(data=st.data())
def test_values_are_means_over_the_steps_of_a_stretch(data):
    steps = data.draw(st.integers(1, 3 * STRETCHES))
    seed, classes, gated = data.draw(st.integers(0, 99)), data.draw(st.booleans()), data.draw(st.booleans())
    generator = torch.Generator().manual_seed(seed)
    recorder, rows = Recorder(steps), []
    for _ in range(steps):
        size = int(torch.randint(1, 5, (), generator=generator))
        loss = torch.rand((), generator=generator)
        logits = torch.randn((size, 3) if classes else (size, 2, 3), generator=generator)
        labels = torch.randint(3, (size,), generator=generator)
        gates = torch.rand(6, generator=generator).pow(9) if gated else None
        recorder.step(loss, logits, labels, gates)
        right = [int(row.argmax()) == label for row, label in zip(logits, labels.tolist(), strict=True)]
        rows.append((loss.item(), right, [gate >= 0.01 for gate in (gates.tolist() if gated else [])]))
    trace = recorder.trace
    assert trace.steps[-1] == steps and len(trace.steps) <= STRETCHES and list(trace.steps) == sorted(set(trace.steps))
    assert steps > STRETCHES or trace.steps == tuple(range(1, steps + 1))
    for place, end in enumerate(trace.steps):
        stretch = rows[trace.steps[place - 1] if place else 0 : end]
        assert trace.loss[place] == pytest.approx(sum(loss for loss, *_ in stretch) / len(stretch), rel=1e-4)
        if classes:
            right = [each for _, batch, _ in stretch for each in batch]
            assert trace.right[place] == pytest.approx(sum(right) / len(right), rel=1e-4)
        if gated:
            assert trace.open[place] == pytest.approx(sum(sum(each) for *_, each in stretch) / len(stretch), rel=1e-4)
    assert (trace.right != ()) == classes and (trace.open != ()) == gated


@pytest.mark.parametrize("name", ["dsp-joint", "dsp-pipelined", "ste", "voita", "michel-retrained", "random-retrained"])
def test_each_training_is_traced(tiny, name):
    """Annealed gates of all units are open at first and those of K at the end; hard ones of K always."""
    view = tiny.random_view("bert", count=6)
    seen = []

    def loss_of_logits(logits, batch):
        losses = view.loss_of_logits(logits, batch)
        seen.append(losses.mean().item())
        return losses

    training = dataclasses.replace(view.training, steps=5)
    watched = dataclasses.replace(view, training=training, loss_of_logits=loss_of_logits)
    keep = 3
    options = METHODS[name].configure({})
    (trained,) = METHODS[name].function(watched, [keep], **options)
    trace = trained.trace
    assert trace.steps == (1, 2, 3, 4, 5) and len(trace.loss) == len(trace.right) == len(trace.open) == 5
    if name.startswith("dsp"):
        assert trace.open[0] == len(view.heads) and trace.open[-1] < trace.open[0]
    elif name != "voita":
        assert set(trace.open) == {keep}
    if name == "dsp-pipelined":
        assert trained.model is watched.model
    if name != "voita":  # which trains several times
        assert list(trace.loss) == pytest.approx(seen[-5:], rel=1e-4)

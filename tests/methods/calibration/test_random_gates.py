"""Gates drawn for each text: from the text and not from its place, with the shares that are promised."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from methods.calibration.random_gates import open_or_closed, partly_closed


def test_a_texts_gates_do_not_depend_on_padding_and_neighbours(tiny):
    sentences = tiny.sentences(0, count=4)
    together = tiny.batch(sentences, extra=3)
    alone = tiny.alone(sentences)
    found = partly_closed(together, 6, 5, 0.8, seed=1), open_or_closed(together, 6, 0.5, seed=1)
    expected = [partly_closed(each, 6, 5, 0.8, seed=1) for each in alone]
    assert torch.equal(found[0], torch.cat(expected, 2))
    assert torch.equal(found[1], torch.cat([open_or_closed(each, 6, 0.5, seed=1) for each in alone], 1))
    assert not torch.equal(expected[0], expected[1])
    assert not torch.equal(found[0], partly_closed(together, 6, 5, 0.8, seed=2))


def test_images_have_gates_of_their_own_too():
    pixels = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    batch = SimpleNamespace(inputs={"pixel_values": pixels}, labels=torch.zeros(2))
    gates = partly_closed(batch, 20, 1, 0.9, seed=0)
    assert gates.shape == (1, 20, 2) and not torch.equal(gates[..., 0], gates[..., 1])


def test_shares_of_gates(tiny):
    batch = tiny.batch(tiny.sentences(0, count=6, shortest=5))
    units, draws, share = 20000, 4, 0.6
    gates = partly_closed(batch, units, draws, share, seed=0)
    assert gates.shape == (draws, units, 6) and gates.min() == 0 and gates.max() == 1
    closed = (gates < 1).double().mean(1).sort(0).values  # (draws, texts), one draw from each part
    least = torch.arange(draws)[:, None] * share / draws
    assert (closed > least - 0.02).all() and (closed < least + share / draws + 0.02).all()
    between = gates[(gates > 0) & (gates < 1)]
    assert abs((gates == 0).sum() / len(between) - 1) < 0.05
    assert abs(between.mean() - 0.5) < 0.01
    assert abs(open_or_closed(batch, units, 0.3, seed=0).mean() - 0.3) < 0.01

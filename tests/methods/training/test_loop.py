"""What all methods that train share."""

from __future__ import annotations

import torch

from methods.training.loop import training_copy


def test_a_copy_is_trained_from_its_seed_and_leaves_all_random_states(tiny, monkeypatch):
    """Also those of GPUs, which torch.manual_seed would seed."""

    def refuse(seed: int) -> None:
        raise AssertionError(f"seeded the GPUs with {seed}")

    view = tiny.view(tiny.model("bert"), [tiny.batch(tiny.sentences(1))])
    torch.manual_seed(3)
    before, drawn = torch.get_rng_state(), torch.rand(4)
    torch.set_rng_state(before)
    monkeypatch.setattr("torch.cuda.manual_seed_all", refuse)
    with training_copy(view, 3) as model:
        assert torch.equal(torch.rand(4), drawn) and model.training and model is not view.model
    assert torch.equal(torch.get_rng_state(), before) and not model.training

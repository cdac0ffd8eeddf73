"""Removing neurons must give the model in which they are silent."""

from __future__ import annotations

import pytest
import torch
import transformers as t

from methods.heads import HeadMap, UnsupportedArchitecture, count_parameters, find_mlps, remove_heads, remove_neurons


def _silence(keep, width):
    return lambda module, args: (args[0] * torch.isin(torch.arange(width), torch.as_tensor(keep)), *args[1:])


def test_removed_neurons_are_silent_ones(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    mlps = find_mlps(model)
    few = {mlp.name: sorted({index % mlp.width, 3, mlp.width - 1}) for index, mlp in enumerate(mlps)}
    masks = {mlp.name: torch.arange(mlp.width) % 2 == 0 for mlp in mlps}
    for keep in (few, masks):
        indices = {name: kept.nonzero().flatten() if keep is masks else kept for name, kept in keep.items()}
        hooks = [
            model.get_submodule(mlp.output).register_forward_pre_hook(_silence(indices[mlp.name], mlp.width))
            for mlp in mlps
        ]
        with torch.no_grad():
            expected = model(**batch).logits
        for hook in hooks:
            hook.remove()
        smaller = remove_neurons(model, keep)
        assert [mlp.width for mlp in find_mlps(smaller)] == [len(indices[mlp.name]) for mlp in mlps]
        logits = smaller(**batch).logits
        zoo.assert_close(logits.detach(), expected)
        logits.sum().backward()


def test_wrong_neurons_are_refused(zoo):
    model = zoo.model("bert")
    keep = {mlp.name: range(mlp.width) for mlp in find_mlps(model)}
    first = next(iter(keep))
    for wrong, message in (
        ({**keep, first: [0, 20]}, "neurons 0 to 19"),
        ({**keep, first: [0, 0]}, "kept once"),
        ({**keep, first: torch.ones(3, dtype=torch.bool)}, "has shape"),
        ({first: [0]}, "every feed-forward layer"),
        ({**keep, "nowhere": [0]}, "differs in nowhere"),
    ):
        with pytest.raises(ValueError, match=message):
            remove_neurons(model, wrong)
    with pytest.raises(UnsupportedArchitecture, match="no feed-forward layer"):
        find_mlps(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(("heads_removed", "percent"), [(3, 9.01), (7, 21.02), (10, 30.03), (17, 51.06)])
def test_counts_of_the_amp_paper(heads_removed, percent):
    """The ratios of AMP (Mugnaini et al.) for LLaMA-2-7B: k of 32 heads and as many of 32 parts of the neurons."""
    with torch.device("meta"):
        model = t.LlamaForCausalLM(t.LlamaConfig())
    before = count_parameters(model)["model"]
    heads = HeadMap.of(model)
    kept = {site.name: range(32 - heads_removed) for site in heads.sites}
    smaller = remove_heads(model, heads.mask(kept), heads)
    width = 11008 - round(11008 * heads_removed / 32)
    smaller = remove_neurons(smaller, {mlp.name: range(width) for mlp in find_mlps(smaller)}, in_place=True)
    assert before == 6738415616
    assert round(100 * (1 - count_parameters(smaller)["model"] / before), 2) == percent

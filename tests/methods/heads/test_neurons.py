"""Removing neurons must give the model in which they are silent, whether a hook or a gate silences them."""

from __future__ import annotations

import pytest
import torch
import transformers as t

from bench.records.protocol import count_at
from methods.heads import (
    HeadMap,
    UnsupportedArchitecture,
    count_parameters,
    find_mlps,
    gated,
    gated_neurons,
    load_pruned,
    observed,
    remove_heads,
    remove_neurons,
    save_pruned,
)
from tests.fixtures.slow import slow_cases
from tests.methods.heads.small_models import build


def _silence(keep, width):
    return lambda module, args: (args[0] * torch.isin(torch.arange(width), torch.as_tensor(keep)), *args[1:])


@pytest.mark.typical
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


def masks_of(mlps):
    """Masks of neurons that every family must bear."""
    generator = torch.Generator().manual_seed(4)
    random = {mlp.name: torch.rand(mlp.width, generator=generator) < 0.5 for mlp in mlps}
    none = {mlp.name: torch.zeros(mlp.width, dtype=torch.bool) for mlp in mlps}
    return {"random": random, "none in the first layer": random | dict(list(none.items())[:1]), "none at all": none}


@pytest.mark.typical
@pytest.mark.parametrize("dtype", [torch.float32, *slow_cases(torch.bfloat16)], ids=["float32", "bfloat16"])
def test_gated_equals_removed_alone_and_with_heads(zoo, family, dtype):
    model, batch = zoo.model(family, dtype=dtype), zoo.batch(family)
    batch = {name: values.to(dtype) if values.is_floating_point() else values for name, values in batch.items()}
    heads = HeadMap.of(model)
    for name, neurons in masks_of(find_mlps(model)).items():
        for units in (heads.full_mask(), zoo.masks(heads)["random"]):
            with torch.no_grad(), gated(model, units, heads), gated_neurons(model, neurons):
                expected = model(**batch).logits
            smaller = remove_neurons(remove_heads(model, units, heads), neurons)
            logits = smaller(**batch).logits
            zoo.assert_close(logits.detach().float(), expected.float(), dtype, what=name)
            logits.sum().backward()


@pytest.mark.typical
def test_a_layer_without_neurons_is_saved_gated_and_pruned_again(zoo, family, tmp_path):
    model, batch = zoo.model(family), zoo.batch(family)
    mlps = find_mlps(model)
    smaller = remove_neurons(model, masks_of(mlps)["none in the first layer"])
    assert count_parameters(smaller)["model"] < count_parameters(model)["model"]
    save_pruned(smaller, tmp_path / "smaller")
    loaded = load_pruned(tmp_path / "smaller")
    fewer = remove_neurons(loaded, {mlp.name: range(mlp.width // 2) for mlp in find_mlps(loaded)})
    ones = {mlp.name: torch.ones(mlp.width) for mlp in find_mlps(loaded)}
    halves = {mlp.name: torch.arange(mlp.width) < mlp.width // 2 for mlp in find_mlps(loaded)}
    with torch.no_grad():
        expected = smaller(**batch).logits
        assert torch.equal(loaded(**batch).logits, expected)
        with gated_neurons(loaded, ones):
            assert torch.equal(loaded(**batch).logits, expected)
        with gated_neurons(loaded, halves):
            zoo.assert_close(fewer(**batch).logits, loaded(**batch).logits)


@pytest.mark.typical
def test_gates_of_neurons_nest_take_gradients_and_leave_no_trace(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    generator = torch.Generator().manual_seed(5)
    first, second = (
        {mlp.name: torch.rand(mlp.width, generator=generator).requires_grad_() for mlp in find_mlps(model)}
        for _ in range(2)
    )
    with torch.no_grad():
        before = model(**batch).logits
    with gated_neurons(model, first), gated_neurons(model, second):
        nested = model(**batch).logits
    assert all(grad.abs().sum() > 0 for grad in torch.autograd.grad(nested.sum(), [*first.values(), *second.values()]))
    with torch.no_grad():
        with gated_neurons(model, {name: first[name] * second[name] for name in first}):
            zoo.assert_close(nested.detach(), model(**batch).logits)
        with pytest.raises(ZeroDivisionError), gated_neurons(model, first):
            raise ZeroDivisionError
        assert torch.equal(model(**batch).logits, before)
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.typical
def test_observed_neurons_are_what_the_down_projection_gets(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    mlps = {mlp.name: mlp for mlp in find_mlps(model)}
    gates = {name: torch.rand(mlp.width) for name, mlp in mlps.items()}
    inputs, seen = [], []
    with gated_neurons(model, gates):
        hooks = [
            model.get_submodule(mlp.output).register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
            for mlp in mlps.values()
        ]
        with torch.no_grad(), observed(model, neurons=lambda name, values: seen.append((name, values))):
            model(**batch)
    for hook in hooks:
        hook.remove()
    assert {name for name, _ in seen} == set(mlps)
    assert len(seen) == (3 if family == "albert" else len(mlps))  # its tied layers are one
    for given, (name, values) in zip(inputs, seen, strict=True):
        assert values.shape[-1] == mlps[name].width
        assert torch.equal(values, given)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_wrong_gates_are_refused(zoo):
    model = zoo.model("bert")
    gates = {mlp.name: torch.ones(mlp.width) for mlp in find_mlps(model)}
    first = next(iter(gates))
    for wrong, message in (
        ({**gates, first: torch.ones(19)}, r"of shape \(20,\), not torch.float32 of shape \(19,\)"),
        ({**gates, first: torch.ones(20, dtype=torch.long)}, "float or bool"),
        ({first: torch.ones(20)}, "gates must list every feed-forward layer"),
        ({**gates, "nowhere": torch.ones(20)}, "unknown: nowhere"),
    ):
        with pytest.raises(ValueError, match=message), gated_neurons(model, wrong):
            pass


def test_wrong_neurons_are_refused(zoo):
    model = zoo.model("bert")
    keep = {mlp.name: range(mlp.width) for mlp in find_mlps(model)}
    first = next(iter(keep))
    for wrong, message in (
        ({**keep, first: [0, 20]}, "from 0 to 19"),
        ({**keep, first: [0, 0]}, "must be distinct"),
        ({**keep, first: torch.ones(3, dtype=torch.bool)}, "must have shape"),
        ({first: [0]}, "every feed-forward layer"),
        ({**keep, "nowhere": [0]}, "unknown: nowhere"),
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
    assert count_at(heads_removed / 32, len(heads)) == 32 * heads_removed  # so many of each of the 32 layers
    kept = {site.name: range(32 - heads_removed) for site in heads.sites}
    smaller = remove_heads(model, heads.mask(kept), heads)
    width = 11008 - count_at(heads_removed / 32, 11008)
    assert 11008 - width == round(11008 * heads_removed / 32) == 344 * heads_removed  # exact: nothing to round
    smaller = remove_neurons(smaller, {mlp.name: range(width) for mlp in find_mlps(smaller)}, in_place=True)
    assert before == 6738415616
    assert round(100 * (1 - count_parameters(smaller)["model"] / before), 2) == percent


def test_neurons_that_depend_on_others_are_refused():
    """Gemma 3n keeps the gates that are far above the mean over all neurons of the layer."""
    model = build("gemma3n_text", narrow=True)
    keep = {mlp.name: range(1, mlp.width) for mlp in find_mlps(model)}
    first, *others = (layer.mlp for layer in model.layers)
    for mlp in (first, *others):
        mlp.activation_sparsity = 0.0
    remove_neurons(model, keep)
    first.activation_sparsity = 0.95
    with pytest.raises(UnsupportedArchitecture, match=r"layers\.0\.mlp compares each neuron with the mean"):
        remove_neurons(model, keep)
    remove_neurons(model, keep | {"layers.0.mlp": range(first.intermediate_size)})


def test_a_norm_over_all_neurons_is_refused():
    model = build("kosmos_2_5_text_model", narrow=True)
    mlps = find_mlps(model)
    remove_neurons(model, {mlp.name: range(mlp.width) for mlp in mlps})
    with pytest.raises(UnsupportedArchitecture, match=r"ffn has a norm over all neurons \(ffn_layernorm\): keep every"):
        remove_neurons(model, {mlp.name: range(1, mlp.width) for mlp in mlps})

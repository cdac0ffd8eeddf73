"""Recovered weights are those of the formulas, and the rest of the model stays as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from methods.contract.choice import Choice
from methods.heads import find_mlps
from methods.recovery.recover import held_out_texts, recover
from tests.fixtures.slow import slow_cases
from tests.methods.activations import contexts_of, weights_of
from tests.methods.recovery.oracle import divergence, slow, slow_damped


def scene(tiny, architecture, seed=0, dtype=torch.float64, texts=9, layers=3):
    """A view whose texts lie in two batches with padding, and the same texts each in a batch of its own."""
    sentences = tiny.sentences(seed, count=texts, shortest=3)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:4], first, extra=1), tiny.batch(sentences[4:], second)]
    model = tiny.model(architecture, seed, dtype, layers).requires_grad_(False)
    view = tiny.view(model, batches, tiny.unit(architecture))
    return view, replace(view, batches=tiny.alone(sentences))


def masks(heads):
    """Half of the units, at random; the same with no head in the second layer and all in the first; and no unit."""
    random = torch.randperm(len(heads), generator=torch.Generator().manual_seed(3)) < len(heads) // 2
    empty = random | (heads.site_of_unit == 0) & (len(heads.sites) > 1)
    if len(heads.sites) > 1:
        empty[heads.site_of_unit == 1] = False
    return {"random": random, "a layer without heads": empty, "nothing": torch.zeros_like(random)}


def choice_of(view, mask):
    return Choice(view.model, view.heads, mask)


@pytest.mark.parametrize(
    ("which", "how"),
    [
        ("random", "lstsq"),
        ("a layer without heads", "scale"),
        ("nothing", "lstsq"),
        *slow_cases(("random", "scale"), ("a layer without heads", "lstsq"), ("nothing", "scale")),
    ],
)
def test_least_squares(tiny, architecture, how, which):
    view, alone = scene(tiny, architecture)
    choice = choice_of(view, masks(view.heads)[which])
    found = recover(view, choice, how, guarded=False)
    expected, counts = slow(alone, choice, how, held_out_texts(view), adds=architecture != "albert")
    assert [found.recovered, found.unchanged] == counts
    state, wanted = found.choice.model.state_dict(), expected.state_dict()
    assert state.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(state[name], value, rtol=1e-7, atol=1e-7)
    smaller = found.choice.smaller()
    with found.choice.gated() as gated:
        torch.testing.assert_close(view.forward(smaller, view.batches[0]), view.forward(gated, view.batches[0]))


@pytest.mark.parametrize("which", ["random", "a layer without heads", "nothing"])
def test_damped_factors(tiny, architecture, which):
    view, alone = scene(tiny, architecture)
    choice = choice_of(view, masks(view.heads)[which])
    found = recover(view, choice, "scale-damped")
    expected, counts = slow_damped(alone, choice, adds=architecture != "albert")
    assert [found.recovered, found.unchanged] == counts
    state = found.choice.model.state_dict()
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=1e-6, atol=1e-6)
    assert (found.recovered > 0) == (which != "nothing" and architecture != "albert")  # whose only module is the first


def test_above_a_damped_factor_that_is_too_large_all_stays(tiny):
    view, alone = scene(tiny, "bert", layers=4)
    choice = choice_of(view, torch.arange(len(view.heads)) % 2 > 0)
    whole = recover(view, choice, "scale-damped")
    assert [whole.recovered, whole.unchanged] == [3, 0]
    site = view.heads.sites[2]
    removed, kept = slice(site.head_dim), slice(site.head_dim, 2 * site.head_dim)
    for path in site.projections.values():
        for each in view.model.get_submodule(path).parameters():
            each[kept] = each[removed]
    output = view.model.get_submodule(site.output).weight
    output[:, kept] = output[:, removed] / 50  # to make up for its double, it has to give 51 times as much
    found = recover(view, choice, "scale-damped")
    assert [found.recovered, found.unchanged] == slow_damped(alone, choice, adds=True)[1] == [1, 1]
    state, old = found.choice.model.state_dict(), view.model.state_dict()
    changed = {name for name, value in state.items() if not torch.equal(value, old[name])}
    assert changed == {f"{view.heads.sites[1].output}.weight"}


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_heads_make_up_for_neurons_too(tiny, name):
    view, alone = scene(tiny, name)
    neurons = {mlp.name: torch.arange(mlp.width) % 3 > 0 for mlp in find_mlps(view.model)}
    choice = Choice(view.model, view.heads, view.heads.full_mask(), neurons)
    found = recover(view, choice, "lstsq", guarded=False)
    expected, counts = slow(alone, choice, "lstsq", held_out_texts(view), adds=name != "albert")
    assert [found.recovered, found.unchanged] == counts and found.choice.neurons is neurons
    state = found.choice.model.state_dict()
    for path, value in expected.state_dict().items():
        torch.testing.assert_close(state[path], value, rtol=1e-6, atol=1e-6)


def test_bias(tiny, architecture):
    view, alone = scene(tiny, architecture)
    contexts = contexts_of(alone, alone.batches)
    for mask in masks(view.heads).values():
        found = recover(view, choice_of(view, mask), "bias")
        for index, site in enumerate(view.heads.sites):
            old = view.model.get_submodule(site.output).bias
            wanted = torch.zeros(view.model.config.hidden_size).double() if old is None else old.clone()
            for unit, keep in zip(view.heads.units, mask.tolist(), strict=True):
                if unit.site == index and not keep:
                    for head in unit.heads:
                        wanted += contexts[index, head].mean(0) @ weights_of(view, index, head)
            new = found.choice.model.get_submodule(site.output)
            assert new.weight is view.model.get_submodule(site.output).weight
            torch.testing.assert_close(torch.zeros_like(wanted) if new.bias is None else new.bias.data, wanted)


def test_least_squares_invents_no_bias(tiny):
    view, _ = scene(tiny, "llama")
    choice = choice_of(view, masks(view.heads)["a layer without heads"])
    found = recover(view, choice, "lstsq", guarded=False)
    assert found.recovered
    assert found.choice.model.state_dict().keys() == view.model.state_dict().keys()


def test_a_head_that_gives_the_same_everywhere_is_made_up_for(tiny):
    """What every token gets from a head, the bias can give: then the pruned model is the unpruned one."""
    view, _ = scene(tiny, "bert")
    for site in view.heads.sites:
        value = view.model.get_submodule(site.projections["value"])
        value.weight[: site.head_dim] = 0  # head 0 gives its bias to every token
    mask = view.heads.full_mask()
    mask[::4] = False
    batch = view.batches[0]
    expected = view.logits(batch)
    for how in ("bias", "lstsq"):
        with recover(view, choice_of(view, mask), how).choice.gated() as model:
            torch.testing.assert_close(view.forward(model, batch), expected)
    with choice_of(view, mask).gated() as model:
        assert (view.forward(model, batch) - expected).abs().max() > 0.01


def test_a_head_twice_is_made_up_for_by_its_double(tiny):
    """Of two equal heads, the one that is kept can give what both gave."""
    view, _ = scene(tiny, "bert", texts=16)
    site = view.heads.sites[0]
    for path in site.projections.values():
        linear = view.model.get_submodule(path)
        for each in (linear.weight, linear.bias):
            each[: site.head_dim] = each[site.head_dim : 2 * site.head_dim]
    output = view.model.get_submodule(site.output).weight
    output[:, : site.head_dim] = output[:, site.head_dim : 2 * site.head_dim]
    mask = view.heads.full_mask()
    mask[0] = False
    found = recover(view, choice_of(view, mask), "scale", guarded=False)
    new = found.choice.model.get_submodule(site.output).weight
    torch.testing.assert_close(new[:, 4:8], 2 * output[:, 4:8], rtol=1e-3, atol=0)
    torch.testing.assert_close(new[:, 8:], output[:, 8:], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("how", ["bias", "scale", "scale-damped", "lstsq"])
def test_the_model_stays_and_shares_what_does_not_change(tiny, architecture, how):
    view, _ = scene(tiny, architecture, dtype=torch.float32)
    before = {name: value.clone() for name, value in view.model.state_dict().items()}
    choice = choice_of(view, masks(view.heads)["random"])
    found = recover(view, choice, how).choice
    assert torch.equal(found.mask, choice.mask) and found.heads is choice.heads
    after = view.model.state_dict()
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)
    outputs = {site.output for site in view.heads.sites}
    old = dict(view.model.named_parameters())
    for name, weight in found.model.named_parameters():
        assert not weight.requires_grad
        if name.rpartition(".")[0] not in outputs:
            assert weight is old[name]


def test_layers_below_the_first_removal_stay(tiny):
    view, _ = scene(tiny, "llama")
    mask = view.heads.full_mask()
    mask[-1] = False
    found = recover(view, choice_of(view, mask), "lstsq")
    assert found.recovered + found.unchanged == 1
    nothing = recover(view, choice_of(view, view.heads.full_mask()), "lstsq")
    assert (nothing.recovered, nothing.unchanged) == (0, 0)


@pytest.mark.parametrize("how", ["scale", "lstsq"])
@pytest.mark.parametrize("seed", range(6))
def test_all_stays_unless_held_out_texts_come_nearer(tiny, how, seed):
    """Where the unguarded weights bring them nearer they are used, and otherwise the old ones."""
    view, _ = scene(tiny, "bert" if seed % 2 else "llama", seed)
    choice = choice_of(view, masks(view.heads)["random"])
    free, guarded = recover(view, choice, how, guarded=False), recover(view, choice, how)
    before, after = (divergence(view, each, held_out_texts(view)) for each in (choice, free.choice))
    if after < before:
        assert (guarded.recovered, guarded.unchanged) == (free.recovered, free.unchanged)
        expected = free.choice.model.state_dict()
    else:
        assert (guarded.recovered, guarded.unchanged) == (0, free.recovered + free.unchanged)
        expected = view.model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in guarded.choice.model.state_dict().items())


def test_the_guard_says_yes_and_no(tiny):
    said = set()
    for seed in range(6):
        view, _ = scene(tiny, "bert", seed)
        said.add(recover(view, choice_of(view, masks(view.heads)["random"]), "scale").recovered > 0)
    assert said == {True, False}


def test_with_too_few_texts_to_hold_one_out_all_stays(tiny):
    view, _ = scene(tiny, "bert")
    view = replace(view, batches=[tiny.batch(tiny.sentences(0, count=3))])
    found = recover(view, choice_of(view, masks(view.heads)["random"]), "lstsq")
    assert found.recovered == 0 and found.unchanged > 0
    old = dict(view.model.named_parameters())
    assert all(weight is old[name] for name, weight in found.choice.model.named_parameters())


@pytest.mark.parametrize("how", ["lstsq", *slow_cases("bias", "scale", "scale-damped")])
def test_bfloat16(tiny, architecture, how):
    view, _ = scene(tiny, architecture, dtype=torch.bfloat16)
    found = recover(view, choice_of(view, masks(view.heads)["random"]), how).choice
    assert {weight.dtype for weight in found.model.parameters()} == {torch.bfloat16}
    exact, _ = scene(tiny, architecture, dtype=torch.float32)
    expected = recover(exact, choice_of(exact, found.mask), how).choice
    with found.gated() as rounded, expected.gated() as wanted, torch.no_grad():
        one, other = (view.forward(model, view.batches[0]).float() for model in (rounded, wanted))
    assert (one - other).abs().max() < 0.15 * other.abs().max()


def test_activations_that_are_not_finite_are_named(tiny):
    view, _ = scene(tiny, "bert")
    view.model.get_submodule(view.heads.sites[0].projections["value"]).weight[0, 0] = torch.inf
    with pytest.raises(FloatingPointError, match=r"layer\.0"):
        recover(view, choice_of(view, masks(view.heads)["nothing"]), "lstsq")

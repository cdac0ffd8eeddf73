"""Recovery by adapters: against the same training written out, and what it does not change."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from functools import partial
from itertools import islice

import pytest
import torch
import transformers as t

from methods import METHODS
from methods.amp import amp
from methods.amp_recovered import Adapters, adapted
from methods.contract.choice import Choice
from methods.contract.choosing import select
from methods.heads import find_mlps, remove_heads, remove_neurons
from methods.random import random_to_train

STEPS = 3
ADAPTERS = Adapters(rank=2, alpha=6.0, dropout=0.0, learning_rate=0.02, seed=5)


def scene(tiny, architecture, dtype=torch.float32):
    """A view without dropout, three steps, and what to keep: some units, every second neuron."""
    batches = [tiny.batch(tiny.sentences(seed), extra=seed) for seed in range(2)]
    view = tiny.view(tiny.model(architecture, dtype=dtype), batches, tiny.unit(architecture))
    for module in view.model.modules():
        for name in ("p", "dropout_prob"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    view = dataclasses.replace(view, training=dataclasses.replace(view.training, steps=STEPS))
    mask = torch.arange(len(view.heads)) % 3 != 0
    return view, mask, {mlp.name: torch.arange(mlp.width) % 2 == 0 for mlp in find_mlps(view.model)}


def linears(view):
    """Paths of the linear layers that get adapters."""
    of_sites = [path for site in view.heads.sites for path in (*site.projections.values(), site.output)]
    return {*of_sites, *(path for mlp in find_mlps(view.model) for path in (*mlp.inputs, mlp.output))}


def chosen(name, view, removed, **options):
    return select(METHODS[name], METHODS[name].configure(options), view, removed)


def first_adapters(model, paths):
    """A of each adapter of ``model``, (rank, inputs), as the library draws it from the seed."""
    from peft import LoraConfig
    from peft.tuners.lora import LoraModel

    with torch.random.fork_rng():
        torch.manual_seed(ADAPTERS.seed)
        config = LoraConfig(r=ADAPTERS.rank, target_modules=sorted(paths))
        tuner = LoraModel(copy.deepcopy(model), config, "default")
    return {path: tuner.model.get_submodule(path).lora_A["default"].weight.detach() for path in paths}


def test_the_training_written_out(tiny, architecture):
    """Adapters as a second path beside each layer of the smaller model, AdamW and its schedule; in float64."""
    view, mask, neurons = scene(tiny, architecture, torch.float64)
    trained = Choice(adapted(view, mask, neurons, ADAPTERS), view.heads, mask, neurons).smaller()
    before = Choice(view.model, view.heads, mask, neurons).smaller()
    model, scale = copy.deepcopy(before).train().requires_grad_(False), ADAPTERS.alpha / ADAPTERS.rank
    factors = {}
    for path, a in first_adapters(before, linears(view)).items():
        outputs = model.get_submodule(path).weight.shape[0]
        a, b = a.clone().requires_grad_(), torch.zeros(outputs, ADAPTERS.rank, dtype=a.dtype, requires_grad=True)
        factors[path] = a, b
        model.get_submodule(path).register_forward_hook(
            lambda module, args, output, a=a, b=b: output + scale * args[0] @ a.T @ b.T
        )
    every = [factor for pair in factors.values() for factor in pair]
    first, second = ([torch.zeros_like(factor) for factor in every] for _ in range(2))  # Adam's moments
    for step, batch in enumerate(islice(view.training.batches(), STEPS)):
        gradients = torch.autograd.grad(view.loss_of_logits(view.forward(model, batch), batch).mean(), every)
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm().item()
        rate = ADAPTERS.learning_rate * (1 - step / STEPS)
        with torch.no_grad():
            for factor, gradient, m, v in zip(every, gradients, first, second, strict=True):
                gradient = gradient * min(1.0, 1.0 / (norm + 1e-6))
                m.mul_(0.9).add_(0.1 * gradient)
                v.mul_(0.999).add_(0.001 * gradient**2)
                change = (m / (1 - 0.9 ** (step + 1))) / ((v / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
                factor -= rate * change
    for name, weight in before.named_parameters():
        a, b = factors.get(name.removesuffix(".weight"), (None, None))
        expected = weight if a is None else weight + scale * (b @ a).detach()
        torch.testing.assert_close(trained.get_parameter(name), expected.detach(), rtol=1e-6, atol=1e-8, msg=name)


def test_only_linear_layers_change_and_by_no_more_than_the_rank(tiny, architecture):
    view, mask, neurons = scene(tiny, architecture)
    model = adapted(view, mask, neurons, ADAPTERS)
    for name, before in view.model.named_parameters():
        path, change = name.removesuffix(".weight"), model.get_parameter(name) - before.detach()
        if name.endswith(".weight") and path in linears(view):
            assert 0 < torch.linalg.matrix_rank(change, rtol=1e-3) <= ADAPTERS.rank
        else:
            assert not change.any(), name


def test_what_is_removed_does_not_influence_training(tiny, architecture):
    """Changing the weights of removed heads and neurons gives the same smaller model."""
    view, mask, neurons = scene(tiny, architecture)
    other = copy.deepcopy(view.model)
    with torch.no_grad():
        for index, site in enumerate(view.heads.sites):
            gone = (~mask[view.heads.unit_of_head(index)]).repeat_interleave(site.head_dim)
            other.get_submodule(site.output).weight[:, gone] += 1
            other.get_submodule(site.projections["query"]).weight[gone] -= 1
        for mlp in find_mlps(other):
            other.get_submodule(mlp.output).weight[:, ~neurons[mlp.name]] += 1
            other.get_submodule(mlp.inputs[0]).weight[~neurons[mlp.name]] -= 1
    smaller = [
        remove_neurons(remove_heads(adapted(each, mask, neurons, ADAPTERS), mask, view.heads), neurons)
        for each in (view, dataclasses.replace(view, model=other))
    ]
    for (name, weight), changed in zip(smaller[0].named_parameters(), smaller[1].parameters(), strict=True):
        assert torch.equal(weight, changed), name


@pytest.mark.parametrize("parts", ["both", "heads", "neurons"])
@pytest.mark.parametrize("choice", ["amp", "inverse", "random"])
@pytest.mark.slow
def test_with_a_learning_rate_of_zero_only_the_choice_remains(tiny, architecture, choice, parts):
    removed = range(1, len(tiny.random_view(architecture).heads) + 1)
    score = partial(random_to_train if choice == "random" else amp, parts=parts)
    scorer = dataclasses.replace(METHODS["amp"], function=score)
    plan = {"allocation": "layer", "inverse": choice == "inverse"}
    expected = select(scorer, plan, tiny.random_view(architecture), removed)
    view = tiny.random_view(architecture)
    found = chosen("amp-recovered", view, removed, choice=choice, parts=parts, learning_rate=0)
    assert torch.equal(found.masks, expected.masks)
    for own, other in zip(found.choices[0], expected.choices[0], strict=True):
        assert (own.neurons is None) == (other.neurons is None) == (parts == "heads")
        assert all(torch.equal(kept, own.neurons[name]) for name, kept in (other.neurons or {}).items())
        for name, weight in view.model.named_parameters():
            assert torch.equal(own.model.get_parameter(name), weight), name


SIZES = {"vocab_size": 30, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}
NO_TOKENS = {"num_labels": 3, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}


def test_transposed_and_fused_weights(tiny):
    """GPT-2: one Conv1D layer computes queries, keys and values."""
    model = t.GPT2ForSequenceClassification(t.GPT2Config(**SIZES, **NO_TOKENS)).eval()
    view = tiny.view(model, [tiny.batch(tiny.sentences(1), extra=1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (choice,) = chosen("amp-recovered", view, [3]).choices[0]
    for path in linears(view):
        assert not torch.equal(choice.model.get_submodule(path).weight, model.get_submodule(path).weight), path
    with torch.no_grad():
        smaller = view.forward(choice.smaller(), view.batches[0])
        with choice.gated() as whole:
            torch.testing.assert_close(smaller, view.forward(whole, view.batches[0]), rtol=1e-5, atol=1e-6)


def test_adapters_of_half_precision_are_trained_in_float32(tiny, architecture):
    view, mask, neurons = scene(tiny, architecture, torch.bfloat16)
    seen = []

    def forward(model, batch):
        seen.append({weight.dtype for weight in model.parameters() if weight.requires_grad})
        return view.forward(model, batch)

    model = adapted(dataclasses.replace(view, forward=forward), mask, neurons, ADAPTERS)
    assert seen == [{torch.float32}] * STEPS
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert any(
        not torch.equal(model.get_submodule(p).weight, view.model.get_submodule(p).weight) for p in linears(view)
    )


def test_a_loss_that_is_not_finite_is_named(tiny):
    view, mask, neurons = scene(tiny, "bert")
    broken = dataclasses.replace(view, loss_of_logits=lambda logits, batch: logits.sum(1) * float("nan"))
    with pytest.raises(FloatingPointError, match=r"^loss is nan at step 1 of 3 of training adapters: .*0\.02$"):
        adapted(broken, mask, neurons, ADAPTERS)


def test_a_batch_size_changes_the_steps_and_not_the_number_of_texts(tiny, architecture):
    """Two batches of six texts each, twice: 24 texts."""
    view, _, _ = scene(tiny, architecture)
    view = dataclasses.replace(view, training=dataclasses.replace(view.training, steps=4))
    for size, steps in ((0, 4), (1, 24), (4, 8)):
        seen = []

        def forward(model, batch, seen=seen):
            if model.training:
                seen.append(len(batch.labels))
            return view.forward(model, batch)

        (trained,) = METHODS["amp-recovered"].function(dataclasses.replace(view, forward=forward), [3], batch_size=size)
        assert trained.report["steps"] == len(seen) == steps and sum(seen) == 24
        assert max(seen) == (size or 6)


def test_other_choices_make_it_a_control():
    method = METHODS["amp-recovered"]
    assert not method.is_control(method.configure({}))
    assert all(method.is_control(method.configure({"choice": choice})) for choice in ("inverse", "random"))

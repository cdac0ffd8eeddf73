"""Gating a head and removing it must give the same model."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
import transformers as t
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.heads import HeadMap, gated, remove_heads
from tests.fixtures.slow import slow_cases


@pytest.mark.parametrize(("attention", "padding"), [("sdpa", "right"), *slow_cases(("eager", "right"))])
def test_gated_equals_removed(zoo, family, unit, attention, padding):
    check_that_gated_equals_removed(zoo, family, unit, attention, padding)


@pytest.mark.typical
@pytest.mark.parametrize(("attention", "padding"), [("eager", "left"), *slow_cases(("sdpa", "left"))])
def test_gated_equals_removed_in_texts_padded_on_the_left(zoo, family, unit, attention, padding):
    check_that_gated_equals_removed(zoo, family, unit, attention, padding)


@torch.no_grad()
def check_that_gated_equals_removed(zoo, family, unit, attention, padding):
    """For texts of two lengths, one after the other: nothing of the first may be left when the second runs."""
    model = zoo.model(family, attention=attention)
    batches = [zoo.batch(family, padding, length) for length in (7, 12)]
    heads = HeadMap.of(model, unit)
    for name, mask in zoo.masks(heads).items():
        smaller = remove_heads(model, mask, heads)
        for batch in batches:
            with gated(model, mask, heads):
                expected = model(**batch).logits
            zoo.assert_close(smaller(**batch).logits, expected, what=name)


@pytest.mark.typical
def test_gated_equals_removed_in_bfloat16(zoo, family):
    model, batch = zoo.model(family, dtype=torch.bfloat16), zoo.batch(family)
    heads = HeadMap.of(model)
    zoo.assert_ones_change_nothing(model, heads, batch)
    for name, mask in zoo.masks(heads).items():
        smaller = remove_heads(model, mask)
        assert {parameter.dtype for parameter in smaller.parameters()} == {torch.bfloat16}
        with torch.no_grad(), gated(model, mask):
            expected = model(**batch).logits
        with torch.no_grad():
            actual = smaller(**batch).logits
        assert actual.dtype == expected.dtype == torch.bfloat16
        zoo.assert_close(actual.float(), expected.float(), torch.bfloat16, what=name)


@torch.no_grad()
def test_gated_equals_zeros_from_the_attention_function(zoo, family):
    model, batch = zoo.model(family, attention="eager"), zoo.batch(family)
    if not zoo.has_maps(family) or not hasattr(sys.modules[type(model).__module__], "eager_attention_forward"):
        pytest.skip("its attention is not a function of its own")
    heads = HeadMap.of(model)
    for name, mask in zoo.masks(heads).items():
        with gated(model, mask, heads):
            expected = model(**batch).logits
        with zoo.zeroed(model, mask, heads):
            zoo.assert_close(model(**batch).logits, expected, what=name)


@pytest.mark.typical
@settings(max_examples=5)
@given(bits=st.lists(st.booleans(), min_size=36, max_size=36))
def test_any_mask(zoo, family, unit, bits):
    """In double precision: in single precision some masks of LongT5 are off by 3e-5, as rounding adds up."""
    model, batch = zoo.model(family, dtype=torch.float64), zoo.batch(family)
    heads = HeadMap.of(model, unit)
    mask = torch.tensor(bits[: len(heads)])
    with torch.no_grad(), gated(model, mask, heads):
        expected = model(**batch).logits
    smaller = remove_heads(model, mask, heads)
    with torch.no_grad():
        zoo.assert_close(smaller(**batch).logits, expected)


@pytest.mark.typical
def test_gradients_of_the_remaining_weights_agree(zoo, family, unit):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model, unit)
    for name, mask in zoo.masks(heads).items():
        with gated(model, mask, heads):
            model(**batch).logits.square().sum().backward()
        # The smaller model's weights are cut from the gated one's; cut its gradients in the same way.
        of_gradients = copy.deepcopy(model)
        for parameter, source in zip(of_gradients.parameters(), model.parameters(), strict=True):
            parameter.data = torch.zeros_like(source) if source.grad is None else source.grad.clone()
        expected = dict(remove_heads(of_gradients, mask, heads).named_parameters())
        model.zero_grad()
        smaller = remove_heads(model, mask, heads)
        smaller(**batch).logits.square().sum().backward()
        scale = max(gradient.abs().max().item() for gradient in expected.values() if gradient.numel())
        for path, parameter in smaller.named_parameters():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            torch.testing.assert_close(
                gradient, expected[path].detach(), rtol=1e-4, atol=1e-5 * scale, msg=f"{name} {path}"
            )


@pytest.mark.typical
def test_gate_per_example_equals_examples_one_by_one(zoo, family, unit):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model, unit)
    gates = torch.rand(len(heads), 4)
    with torch.no_grad(), gated(model, gates, heads):
        together = model(**batch).logits
    for row in range(4):
        with torch.no_grad(), gated(model, gates[:, row], heads):
            alone = model(**{name: values[row : row + 1] for name, values in batch.items()}).logits
        zoo.assert_close(together[row : row + 1], alone)


@pytest.mark.typical
def test_gradient_of_gates_equals_finite_differences(zoo, family):
    model, batch = zoo.model(family, dtype=torch.float64), zoo.batch(family)
    heads = HeadMap.of(model)

    def loss(gates):
        with gated(model, gates, heads):
            return model(**batch).logits.square().sum()

    gates = (0.5 + torch.rand(len(heads), dtype=torch.float64)).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(gates), gates)
    in_float32 = zoo.computes_in_float32(family)  # a wide step hides its rounding, for the price of a wide tolerance
    width = 2e-2 if in_float32 else 1e-3
    with torch.no_grad():
        for index in range(0, len(heads), 3):
            step = width * torch.nn.functional.one_hot(torch.tensor(index), len(heads))
            near, far = (loss(gates + k * step) - loss(gates - k * step) for k in (1, 2))
            slope = (8 * near - far) / (12 * width)  # central, of fourth order
            error = (gradient[index] - slope).abs().item()
            assert error <= (2e-3 if in_float32 else 1e-6) * gradient.abs().max().item()


@pytest.mark.typical
def test_nested_gates_multiply_and_leave_no_trace(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model)
    first, second = torch.rand(2, len(heads))
    zoo.assert_ones_change_nothing(model, heads, batch)
    with torch.no_grad():
        before = model(**batch).logits
        with gated(model, first), gated(model, second):
            nested = model(**batch).logits
        with gated(model, first * second):
            product = model(**batch).logits
        with pytest.raises(ZeroDivisionError), gated(model, first):
            raise ZeroDivisionError
        with pytest.raises(ValueError, match="batch"), gated(model, torch.ones(len(heads), 3)):
            model(**batch)
        after = model(**batch).logits
    zoo.assert_close(nested, product)
    assert torch.equal(before, after)
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_gates_of_another_shape_or_kind_are_refused(zoo):
    model = zoo.model("bert")
    for gates in (torch.ones(5), torch.ones(12, 2, 2), torch.ones(12, dtype=torch.long)):
        with pytest.raises(ValueError, match="gates must"), gated(model, gates):
            pass


@pytest.mark.typical
def test_removing_twice_equals_removing_once(zoo, family, unit):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model, unit)
    first = zoo.masks(heads)["random"]
    kept = heads.kept(first)
    smaller = remove_heads(model, first, heads)
    fewer = HeadMap.of(smaller, unit)
    assert {site.name: site.num_heads for site in fewer.sites} == {name: len(left) for name, left in kept.items()}
    # A site with one query head a group left has other units than it had, so remove whole sites then.
    second = (torch.arange(len(fewer)) if len(fewer) == first.sum() else fewer.site_of_unit) % 2 == 0
    both = heads.mask({name: [kept[name][index] for index in left] for name, left in fewer.kept(second).items()})
    smaller(**batch)  # a forward pass must leave nothing behind that cannot be copied
    once, twice = remove_heads(model, both, heads), remove_heads(smaller, second, fewer)
    with torch.no_grad():
        assert torch.equal(once(**batch).logits, twice(**batch).logits)


@pytest.mark.typical
def test_the_copy_leaves_the_model_alone_and_in_place_does_not(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    parameters = dict(model.named_parameters())
    values = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    frozen = [name for index, name in enumerate(parameters) if index % 2]
    for name, parameter in parameters.items():
        parameter.requires_grad_(name not in frozen)
    heads = HeadMap.of(model)
    mask = zoo.masks(heads)["random"]
    smaller = remove_heads(model, mask)
    assert all(parameter is parameters[name] for name, parameter in model.named_parameters())
    assert all(torch.equal(parameter, values[name]) for name, parameter in parameters.items())
    assert {name for name, parameter in smaller.named_parameters() if not parameter.requires_grad} == set(frozen)
    for name, parameter in smaller.named_parameters():
        same_shape = parameter.shape == parameters[name].shape
        assert not parameter.numel() or (parameter.data_ptr() == parameters[name].data_ptr()) == same_shape, name
        assert parameter is not parameters[name]
    assert remove_heads(model, mask, in_place=True) is model
    with torch.no_grad():
        assert torch.equal(model(**batch).logits, smaller(**batch).logits)
    with pytest.raises(ValueError, match="build a new one"):
        remove_heads(model, mask, heads)


@pytest.mark.typical
@pytest.mark.parametrize("frozen", [False, True])
def test_training_the_smaller_model_leaves_the_model_alone(zoo, family, frozen):
    """It trains as a copy with memory of its own does."""
    model, batch = zoo.model(family).requires_grad_(not frozen), zoo.batch(family)
    values = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    smaller = remove_heads(model, zoo.masks(HeadMap.of(model))["random"]).requires_grad_(True)
    copied = copy.deepcopy(smaller)
    for each in (smaller, copied):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.01)
        for _ in range(2):
            optimizer.zero_grad()
            each(**batch).logits.square().mean().backward()
            optimizer.step()
    for trained, expected in zip(smaller.parameters(), copied.parameters(), strict=True):
        assert torch.equal(trained, expected)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, values[name]) and parameter.grad is None and parameter.requires_grad != frozen


def test_a_smaller_model_can_be_converted_copied_and_pickled(zoo, tmp_path):
    model, batch = zoo.model("llama"), zoo.batch("llama")
    smaller = remove_heads(model, zoo.masks(HeadMap.of(model))["random"])
    with torch.no_grad():
        expected = smaller(**batch).logits
        torch.save(smaller, tmp_path / "smaller")
        assert torch.equal(torch.load(tmp_path / "smaller", weights_only=False)(**batch).logits, expected)
        assert torch.equal(copy.deepcopy(smaller)(**batch).logits, expected)
    smaller.double()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_tied_weights_stay_tied_and_a_large_model_is_not_copied():
    """Llama of 1.1 billion parameters: what is new is what was cut."""
    config = t.LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        intermediate_size=5632,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = t.LlamaForCausalLM(config)
    heads = HeadMap.of(model)
    mask = heads.full_mask()
    mask[heads.site_of_unit == 3] = torch.tensor([True, False, True, True])  # one group of eight heads in one layer
    smaller = remove_heads(model, mask, heads)
    assert smaller.lm_head.weight is smaller.model.embed_tokens.weight
    storages = {parameter.untyped_storage()._cdata: parameter for parameter in model.parameters()}
    new = [parameter for parameter in smaller.parameters() if parameter.untyped_storage()._cdata not in storages]
    assert sum(parameter.numel() for parameter in new) == 3 * 64 * (8 + 1 + 1 + 8) * 2048

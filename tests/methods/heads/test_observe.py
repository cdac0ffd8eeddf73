"""What is observed must be what the model computes, and observing must leave no trace."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

from methods.heads import HeadMap, gated, observed, remove_heads


@pytest.mark.parametrize("padding", ["left", "right"])
def test_attention_rows(zoo, family, padding):
    if not zoo.has_maps(family):
        return
    model, batch = zoo.model(family), zoo.batch(family, padding)
    implementation = model.config._attn_implementation
    seen = []
    with torch.no_grad(), observed(model, attention=lambda site, rows: seen.append((site, rows))):
        logits = model(**batch).logits
    assert model.config._attn_implementation == implementation
    sites = HeadMap.of(model).sites
    assert sorted(site for site, _ in seen) == [index for index, site in enumerate(sites) for _ in range(site.calls)]
    if family in ("bert-to-gpt2", "falcon-alibi"):
        return  # set_attn_implementation does not reach its attention modules; its eager attention adds biases twice
    zoo.set_attention(model, "eager")
    with torch.no_grad():
        expected = model(**batch, output_attentions=True)
    assert torch.equal(logits, expected.logits)
    real = batch["attention_mask"].bool() if "attention_mask" in batch else torch.ones(4, 5, dtype=torch.bool)  # (B, S)
    targets = torch.ones(4, 5, dtype=torch.bool)
    attentions = {kind: iter(values) for kind, values in _attentions(expected).items()}
    for index, rows in seen:
        kind = sites[index].kind
        assert torch.equal(rows, next(attentions[kind]))
        queries = targets if kind == "cross" or ("decoder_input_ids" in batch and kind == "decoder") else real
        of_real_queries = rows.transpose(1, 2)[queries]  # (tokens, H, S)
        if sites[index].per_head:  # a sink takes its part
            assert of_real_queries.sum(-1).lt(1).all()
            of_real_queries = of_real_queries / of_real_queries.sum(-1, keepdim=True)
        torch.testing.assert_close(of_real_queries.sum(-1), torch.ones(of_real_queries.shape[:-1]))
        if rows.shape[-1] == real.shape[1]:
            padded_keys = ~real[:, None, None, :].expand_as(rows).transpose(1, 2)[queries]
            assert of_real_queries[padded_keys].eq(0).all()


@pytest.mark.typical
def test_watching_maps_does_not_change_what_is_computed(zoo, family):
    if not zoo.has_maps(family):
        return
    model, batch = zoo.model(family), zoo.batch(family)
    with torch.no_grad():
        expected = model(**batch).logits
        with observed(model, attention=lambda site, rows: None):
            actual = model(**batch).logits
    zoo.assert_close(actual, expected, what=family)


def _attentions(output):
    """The attentions that a model returns, by kind of site."""
    if "encoder_attentions" in output:
        return {kind: output[f"{kind}_attentions"] for kind in ("encoder", "decoder", "cross")}
    return {"encoder": output.attentions, "decoder": output.attentions}


@pytest.mark.typical
def test_attention_rows_carry_their_graph_and_are_not_kept(zoo, family):
    if not zoo.has_maps(family):
        return
    model, batch = zoo.model(family), zoo.batch(family)
    rows_by_call = []
    with observed(model, attention=lambda site, rows: rows_by_call.append(rows)):
        output = model(**batch, output_attentions=True)
    gradients = torch.autograd.grad(output.logits.square().sum(), rows_by_call)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    assert all(rows is None for values in _attentions(output).values() for rows in values or ())


def test_contexts_are_what_the_output_projection_gets(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model)
    inputs, contexts = [], []
    hooks = [
        model.get_submodule(site.output).register_forward_hook(lambda module, args, output: inputs.append(args[0]))
        for site in heads.sites
    ]
    gates = torch.rand(len(heads))
    with gated(model, gates, heads), observed(model, heads, context=lambda site, z: contexts.append((site, z))):
        loss = model(**batch).logits.sum()
    for hook in hooks:
        hook.remove()
    for given, (index, z) in zip(inputs, contexts, strict=True):
        site = heads.sites[index]
        assert z.shape == (4, given.shape[1], site.num_heads, site.head_dim)
        assert torch.equal(z.flatten(-2), given)
    assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(loss, [z for _, z in contexts]))


@pytest.mark.parametrize("padding", ["left", "right"])
def test_gradients_give_the_weight_gradient_of_each_sentence(zoo, family, padding):
    # They cast float64's lowest number to float32, so a row that is masked throughout comes to NaN.
    dtype = torch.float32 if family in ("gemma2", "bloom", "longformer") else torch.float64
    model, batch = zoo.model(family, dtype=dtype), zoo.batch(family, padding)
    heads = HeadMap.of(model)
    weights: dict[tuple[int, str], torch.Tensor] = {}  # (B, d, rows), summed over the calls of a tied site
    calls = []

    def add(site, inputs, grads):
        calls.append(site)
        for role in ("query", "key", "value"):
            gradient = torch.einsum("btd,bthe->bdhe", inputs[role], grads[role]).flatten(-2)
            weights[site, role] = weights.get((site, role), 0) + gradient

    with observed(model, heads, gradients=add):
        model(**batch).logits.flatten(1).norm(dim=1).sum().backward()
    assert sorted(calls) == [index for index, site in enumerate(heads.sites) for _ in range(site.calls)]
    assert all(parameter.grad is None for parameter in model.parameters())
    for row in range(4):
        model.zero_grad()
        model(**{name: values[row : row + 1] for name, values in batch.items()}).logits.norm().backward()
        for (index, role), gradient in weights.items():
            site = heads.sites[index]
            projection = model.get_submodule(site.projections[role])
            whole = projection.weight.grad if isinstance(projection, nn.Linear) else projection.weight.grad.T
            expected = whole[site.rows(role, list(range(site.heads_of(role))))]
            zoo.assert_close(gradient[row].T, expected, what=f"{site.name} {role}")


@pytest.mark.parametrize("attends", [["c2p"], ["p2c"]])
def test_projections_whose_output_is_not_used_have_a_gradient_of_zero(attends):
    """DeBERTa-v3 projects its positions to queries and to keys, also where it reads only one of these."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    positions = {"relative_attention": True, "share_att_key": True, "position_buckets": 4, "pos_att_type": attends}
    torch.manual_seed(0)
    model = DebertaV2ForSequenceClassification(DebertaV2Config(vocab_size=20, **sizes, **positions)).eval()
    ids = torch.randint(20, (3, 6))
    found = {}

    def add(site, inputs, grads):
        found.update({role: torch.einsum("btd,bthe->hed", inputs[role], grads[role]).flatten(0, 1) for role in grads})
        found["positions"] = grads["query" if attends == ["c2p"] else "key"][:, 6:]  # after the tokens

    with observed(model, gradients=add):
        for _ in range(2):  # the second pass starts anew
            model(ids).logits.square().sum().backward()
    assert found["positions"].shape[1] == 8 and found["positions"].eq(0).all()
    model(ids).logits.square().sum().backward()
    attention = model.deberta.encoder.layer[0].attention.self
    for role in ("query", "key", "value"):
        torch.testing.assert_close(found[role], getattr(attention, f"{role}_proj").weight.grad)


@pytest.mark.typical
def test_observing_a_model_without_heads_in_a_layer(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    smaller = remove_heads(model, zoo.masks(HeadMap.of(model))["no head in the first site"])
    rows, contexts, gradients = [], [], []
    if not len(HeadMap.of(smaller)):
        return  # ALBERT has but one site, and without it no parameter is left that could be watched
    with observed(
        smaller,
        attention=(lambda site, values: rows.append(site)) if zoo.has_maps(family) else None,
        context=lambda site, values: contexts.append(site),
        gradients=lambda site, inputs, grads: gradients.append(site),
    ):
        smaller(**batch).logits.sum().backward()
    assert sorted(contexts) == sorted(gradients)
    assert sorted(rows) == (sorted(contexts) if zoo.has_maps(family) else [])


@pytest.mark.typical
def test_everything_is_left_as_it_was_found(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    model.train()
    implementation = model.config._attn_implementation
    parameters = list(model.parameters())
    for index, parameter in enumerate(parameters):
        parameter.requires_grad_(index % 3 != 0)
        parameter.grad = torch.full_like(parameter, index) if parameter.requires_grad else None
    grads = [parameter.grad for parameter in parameters]
    maps = (lambda *_: None) if zoo.has_maps(family) else None
    with (
        pytest.raises(ZeroDivisionError),
        observed(model, attention=maps, context=lambda *_: None, gradients=lambda *_: None),
    ):
        model(**batch).logits.sum().backward()
        raise ZeroDivisionError
    assert [parameter.grad for parameter in parameters] == grads
    assert all(grad is None or grad.eq(index).all() for index, grad in enumerate(grads))
    assert [parameter.requires_grad for parameter in parameters] == [i % 3 != 0 for i in range(len(parameters))]
    assert model.config._attn_implementation == implementation and model.training
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_maps_of_attention_within_windows_are_refused(zoo):
    with (
        pytest.raises(ValueError, match="within windows"),
        observed(zoo.model("longformer"), attention=lambda *_: None),
    ):
        pass


def test_gradient_checkpointing_is_refused(zoo):
    model = zoo.model("bert")
    model.gradient_checkpointing_enable()
    with pytest.raises(ValueError, match="checkpointing"), observed(model, gradients=lambda *_: None):
        pass
